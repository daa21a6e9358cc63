package dev.kedge.bridges;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonParser;
import dev.kedge.client.CallFailed;
import dev.kedge.client.Choice;
import dev.kedge.client.FixedKedge;
import dev.kedge.client.Kedge;
import dev.kedge.client.Question;
import dev.kedge.client.QueueCounts;
import dev.kedge.client.Sidecar;
import dev.kedge.platform.GuardrailService;
import dev.kedge.platform.LlmCallLog;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.ToLongFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;

/** An agent application goes on while its sidecar is away for a minute, and nothing is lost. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class OutageTest {
    private static final int THREADS = 4;
    private static final int TURNS = Sidecar.sized(900, 10_000);
    private static final int A_SECOND = Sidecar.sized(90, 100);
    private static final int WARM_UP = Sidecar.sized(200, 30_000);
    private static final Duration OUTAGE = Duration.ofSeconds(Sidecar.sized(4, 60));
    private static final long MODEL_MS = 2;
    /** What an outage may add to the 99th percentile of a turn, at full size. */
    private static final double MOST_ADDED_MS = 1.0;
    private static final GuardrailService CLEAN =
            text -> List.of(new GuardrailService.Verdict(GuardrailService.Kind.PII, false));

    @TempDir
    Path folder;

    private final ConcurrentLinkedQueue<Ended> ended = new ConcurrentLinkedQueue<>();
    private final List<Throwable> thrown = Collections.synchronizedList(new ArrayList<>());
    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicLong upAt = new AtomicLong();
    private final AtomicBoolean hasRecovered = new AtomicBoolean();

    /**
     * One turn.
     *
     * @param nanos how long it took
     * @param ownNanos the part that was not the model's
     * @param bareNanos how long a turn without Kedge took, right after it
     * @param isDecided whether the server had decided it
     */
    private record Ended(long began, long nanos, long ownNanos, long bareNanos, boolean isDecided) {}

    @Test
    void anOutageCostsAUserNothingAndLosesNothing() {
        long down;
        long up;
        warmUp();
        try (Kedge kedge = Sidecar.client("learning").spool(folder).build();
                Kedge forgetful = Sidecar.client("learning").queueCapacity(50).build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            assertTrue(forgetful.ready(Sidecar.GENEROUS));
            List<Thread> users = new ArrayList<>();
            for (int i = 0; i < THREADS; i++) {
                users.add(new Thread(() -> use(kedge, forgetful)));
            }
            users.forEach(Thread::start);
            Sidecar.waitFor("the first turns", () -> ended.size() >= TURNS / 5);
            Sidecar.say("down");
            down = System.nanoTime();
            sleep(OUTAGE.toMillis());
            up = System.nanoTime();
            Sidecar.say("up");
            upAt.set(System.nanoTime());
            users.forEach(OutageTest::join);
            assertTrue(kedge.outcomes().flush(Sidecar.GENEROUS), "outcomes are delivered after the outage");
            assertTrue(kedge.episodes().flush(Sidecar.GENEROUS), "episodes are delivered after the outage");
            forgetful.outcomes().flush(Sidecar.GENEROUS);
            QueueCounts kept = kedge.outcomes().counts();
            QueueCounts counted = forgetful.outcomes().counts();
            assertEquals(List.of(), thrown);
            assertEquals(ended.size(), kept.recorded() + kept.duplicates());
            assertEquals(ended.size(), kedge.episodes().counts().recorded() + kedge.episodes().counts().duplicates());
            assertEquals(0, kept.dropped());
            assertTrue(counted.dropped() > 0);
            assertEquals(ended.size(), counted.recorded() + counted.duplicates() + counted.dropped());
            figures(down, up, counted);
        }
        learned(up);
    }

    /** Lets the JVM compile what a turn runs, up and down, as it has in an application that has run for a while. */
    private void warmUp() {
        for (boolean isDown : new boolean[] {false, true}) {
            FixedKedge fake = Kedge.fixed(Sidecar.SMALL);
            fake.said().fail(isDown ? new CallFailed("UNAVAILABLE", "", "down") : null);
            for (int i = 0; i < WARM_UP; i++) {
                turn(fake, fake, 0);
            }
            fake.close(Duration.ZERO);
        }
        ended.clear();
    }

    /** One of the application's threads. */
    private void use(Kedge kedge, Kedge forgetful) {
        while (begun.getAndIncrement() < TURNS || !isOver()) {
            long before = System.nanoTime();
            try {
                turn(kedge, forgetful, MODEL_MS);
            } catch (RuntimeException | AssertionError unexpected) {
                thrown.add(unexpected);
            }
            long rest = 1_000L * THREADS / A_SECOND - (System.nanoTime() - before) / 1_000_000;
            sleep(Math.max(0, rest));
        }
    }

    /** Whether the server decides again; the breaker asks at the latest after 30 s. */
    private boolean isOver() {
        long since = upAt.get();
        return since != 0 && (hasRecovered.get() || System.nanoTime() - since > 2 * Sidecar.GENEROUS.toNanos());
    }

    private void turn(Kedge kedge, Kedge forgetful, long modelMs) {
        var served = new Choice[1];
        var model = new long[1];
        var advisor = new KedgeAdvisor(
                kedge, request -> Question.of("learning", kedge.newEpisodeId()).category("task", "math"),
                (request, choice) -> request);
        var chain = new Chain(List.of(advisor, new GuardrailAdvisor(CLEAN)), request -> {
            long began = System.nanoTime();
            Turn turn = (Turn) request.context().get(Turn.KEY);
            served[0] = turn.choice();
            sleep(modelMs);
            turn.add(new LlmCallLog(turn.choice().modelRoute(), 10, 5, 0.001, 2.0));
            model[0] = System.nanoTime() - began;
            return "an answer";
        });
        long began = System.nanoTime();
        chain.nextCall(new ChatClientRequest(new Prompt("Why?", ChatOptions.builder().build()), Map.of()));
        double success = "large".equals(served[0].modelRoute()) ? 1.0 : 0.0;
        kedge.outcomes().put(kedge.about(served[0].handle()).taskSuccess(success));
        long took = System.nanoTime() - began;
        forgetful.outcomes().put(forgetful.about(served[0].handle()).latency(2.0));
        ended.add(new Ended(began, took, took - model[0], bare(modelMs), !served[0].isFallback()));
        if (!served[0].isFallback() && upAt.get() != 0) {
            hasRecovered.set(true);
        }
    }

    /** A turn without Kedge, the control: how long it took. */
    private static long bare(long modelMs) {
        long began = System.nanoTime();
        new Chain(List.of(), request -> {
            sleep(modelMs);
            return "an answer";
        }).nextCall(new ChatClientRequest(new Prompt("Why?", ChatOptions.builder().build()), Map.of()));
        return System.nanoTime() - began;
    }

    private void figures(long down, long up, QueueCounts counted) {
        long second = Duration.ofSeconds(1).toNanos();
        var found = new HashMap<String, Number>();
        found.put("turns", ended.size());
        found.put("outage_s", (up - down) / 1e9);
        found.put("served_by_baseline", ended.stream().filter(turn -> !turn.isDecided).count());
        found.put("lost_without_spool", counted.dropped());
        found.put("own_p99_before_ms", p99(Ended::ownNanos, Long.MIN_VALUE, down));
        found.put("own_p99_ms", p99(Ended::ownNanos, down + second, up));
        double added = p99(Ended::nanos, down + second, up) - p99(Ended::bareNanos, down + second, up);
        found.put("added_p99_ms", added);
        Sidecar.measured("outage", found);
        assertTrue(!Sidecar.isFull() || added < MOST_ADDED_MS, "added to p99 after the first second: " + added + " ms");
    }

    /** The 99th percentile over the turns that began in a span, milliseconds. */
    private double p99(ToLongFunction<Ended> figure, long from, long to) {
        long[] found = ended.stream()
                .filter(turn -> turn.began >= from && turn.began < to)
                .mapToLong(figure).sorted().toArray();
        return found[found.length * 99 / 100] / 1e6;
    }

    /** Learning goes on after the outage, and the belief is what a rebuild from the log gives. */
    private void learned(long up) {
        long decided = ended.stream().filter(Ended::isDecided).count();
        long again = ended.stream().filter(turn -> turn.isDecided && turn.began > up).count();
        assertTrue(again > 0, "the server decides again");
        Sidecar.waitFor("the episodes to settle", () -> {
            var status = JsonParser.parseString(Sidecar.say("status/learning")).getAsJsonObject();
            var settled = status.getAsJsonObject("episodeCounts").get("SETTLED");
            return settled != null && settled.getAsLong() >= decided;
        });
        var rebuilt = JsonParser.parseString(Sidecar.say("rebuild/learning")).getAsJsonObject();
        assertTrue(rebuilt.get("agrees").getAsBoolean(), rebuilt::toString);
        Sidecar.measured("learned", Map.of(
                "decided", decided,
                "decided_after_the_outage", again,
                "evidence_rows", rebuilt.get("evidence_rows").getAsLong(),
                "cells", rebuilt.get("cells").getAsLong(),
                "max_error", rebuilt.get("max_error").getAsDouble()));
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
