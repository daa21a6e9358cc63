package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.Decision;
import dev.kedge.bandit.v1.DecisionServiceGrpc;
import dev.kedge.bandit.v1.ReportDecisionsRequest;
import dev.kedge.bandit.v1.WatchAllocationsRequest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Decisions in this process over the real server: same actions, true reports, a switch that reaches it, a lease. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class LocalDecideTest {
    private static final String[] TASKS = {"math", "code", "poetry"};
    private static final int WARM_UP = Sidecar.sized(10_000, 50_000);
    private static final int MOST_UNREPORTED = 15_000;
    private static final long LEASE = TimeUnit.SECONDS.toNanos(5);

    private final Refusals refusals = new Refusals();

    /** Keeps what did not go well. */
    private static final class Refusals implements Listener {
        final List<String> refused = Collections.synchronizedList(new ArrayList<>());
        final List<String> dropped = Collections.synchronizedList(new ArrayList<>());

        @Override
        public void decisionRefused(String decision, String why) {
            refused.add(why);
        }

        @Override
        public void decisionDropped(String decision) {
            dropped.add(decision);
        }
    }

    @Test
    void theServerRecomputesEveryEpisodeThatIsDecidedHereAndAcceptsIt() {
        int episodes = Sidecar.sized(5_000, 100_000);
        try (Kedge kedge = local("local")) {
            int randomised = 0;
            for (int i = 0; i < episodes; i++) {
                Choice choice = paced(kedge, "local", "accepted-" + i, i);
                assertFalse(choice.isFallback(), choice::failure);
                randomised += choice.isRandomised() ? 1 : 0;
            }
            Sidecar.waitFor("the reports", () -> kedge.unreported() == 0);
            assertTrue(randomised > 0);
            assertEquals(List.of(), refusals.refused);
            assertEquals(List.of(), refusals.dropped);
        }
    }

    @Test
    void anEpisodeGetsTheActionThatTheServerDraws() {
        int compared = 0;
        try (Kedge remote = Sidecar.patient("local").build(); Kedge local = local("local")) {
            assertTrue(remote.ready(Sidecar.GENEROUS));
            for (int i = 0; i < 500; i++) {
                Choice there = remote.decide(question("local", "same-" + i, i));
                Choice here = local.decide(question("local", "same-" + i, i));
                assertFalse(there.isFallback(), there::failure);
                if (here.reason().equals("STALE")) {
                    continue; // A machine so slow that the lease was over.
                }
                compared++;
                assertEquals(there.actionKey() + there.propensity() + there.isRandomised() + there.judgeRequested(),
                        here.actionKey() + here.propensity() + here.isRandomised() + here.judgeRequested());
                assertEquals(here, local.decide(question("local", "same-" + i, i + 1)), "an episode keeps its choice");
            }
        }
        assertTrue(compared > 0);
        assertEquals(List.of(), refusals.refused.stream().filter(why -> !why.equals("CONFLICT")).toList());
    }

    @Test
    void decidingTakesMicrosecondsAfterWarmUp() {
        long[] nanos = new long[Sidecar.sized(5_000, 100_000)];
        try (Kedge kedge = local("local")) {
            for (int i = 0; i < WARM_UP; i++) {
                paced(kedge, "local", "warm-" + i, i);
            }
            for (int i = 0; i < nanos.length; i++) {
                room(kedge);
                Question question = question("local", "timed-" + i, i);
                long before = System.nanoTime();
                kedge.decide(question);
                nanos[i] = System.nanoTime() - before;
            }
        }
        Arrays.sort(nanos);
        double p50 = nanos[nanos.length / 2] / 1e3;
        double p99 = nanos[nanos.length * 99 / 100] / 1e3;
        Sidecar.measured("local_decide", Map.of("decisions", nanos.length, "p50_us", p50, "p99_us", p99));
        assertTrue(!Sidecar.isFull() || p99 <= 50.0, "p99 " + p99 + " µs");
    }

    @Test
    void aFreezeReachesThisProcessAndBeatsWhatWasDecided() {
        int times = Sidecar.sized(2, 20);
        double worst = 0.0;
        try (Kedge kedge = local("frozen")) {
            for (int time = 0; time < times; time++) {
                String episode = "kept-" + time;
                kedge.decide(question("frozen", episode, 0));
                var seen = new Instant[1];
                var watcher = new Thread(() -> {
                    Sidecar.waitFor("the freeze", () -> reason(kedge).equals("FROZEN"));
                    seen[0] = Instant.now();
                });
                watcher.start();
                long answered = Long.parseLong(Sidecar.say("freeze/frozen"));
                join(watcher);
                worst = Math.max(worst, (epochNanos(seen[0]) - answered) / 1e6);
                assertEquals("FROZEN", kedge.decide(question("frozen", episode, 0)).reason());
                Sidecar.say("unfreeze/frozen");
                Sidecar.waitFor("the thaw", () -> reason(kedge).equals("DRAWN"));
            }
        }
        Sidecar.measured("freeze", Map.of("times", times, "worst_ms", worst));
        assertTrue(!Sidecar.isFull() || worst <= 100.0, "worst " + worst + " ms after Freeze had answered");
    }

    @Test
    void withoutTheServerTheBaselineIsServedAtTheLatestWhenTheLeaseIsOver() {
        try (Kedge kedge = local("local")) {
            Sidecar.waitFor("vectors", () -> kedge.decide(
                    question("local", kedge.newEpisodeId(), 0)).reason().equals("DRAWN"));
            Sidecar.say("down");
            long down = System.nanoTime();
            try {
                int drawn = 0;
                for (int i = 0; ; i++) {
                    long asked = System.nanoTime() - down;
                    Choice choice = kedge.decide(question("local", "alone-" + i, i));
                    if (choice.reason().equals("STALE")) {
                        assertEquals("small", choice.modelRoute());
                        assertFalse(choice.isRandomised());
                        break;
                    }
                    assertEquals("DRAWN", choice.reason());
                    assertTrue(asked < LEASE, "drawn " + asked + " ns after the server was gone");
                    drawn++;
                    pause();
                }
                Sidecar.measured("lease", Map.of("drawn_alone", drawn, "stale_s", (System.nanoTime() - down) / 1e9));
            } finally {
                Sidecar.say("up");
            }
            Sidecar.waitFor("new vectors", () -> kedge.decide(
                    question("local", kedge.newEpisodeId(), 0)).reason().equals("DRAWN"));
            Sidecar.waitFor("the reports", () -> kedge.unreported() == 0);
        }
        assertEquals(List.of(), refusals.refused);
    }

    @Test
    void aForgedDecisionIsRefused() {
        String name = "tenants/java/policies/local";
        try (Kedge kedge = local("local")) {
            var decisions = DecisionServiceGrpc.newBlockingStub(kedge.channel());
            var made = new ArrayList<Made>();
            var policy = new LocalPolicy(name, () -> System.nanoTime() * 1e-9, new SplittableRandom(7), made::add);
            policy.begin();
            var context = io.grpc.Context.current().withCancellation();
            context.run(() -> {
                var stream = decisions.watchAllocations(WatchAllocationsRequest.newBuilder().setPolicy(name).build());
                while (!policy.isLive()) {
                    policy.take(stream.next());
                }
            });
            context.cancel(null);
            List<String> words = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                decide(policy, "forged-" + i);
                Decision.Builder forged = made.get(made.size() - 1).message(name).toBuilder();
                switch (i) {
                    case 0 -> forged.setActionKey(other(policy, forged.getActionKey()));
                    case 1 -> forged.setPropensity(0.5 * forged.getPropensity());
                    case 2 -> forged.setAllocationVersion(forged.getAllocationVersion() + 1);
                    default -> forged.setBucket("task=code");
                }
                var request = ReportDecisionsRequest.newBuilder().setPolicy(name).addDecisions(forged);
                words.add(decisions.reportDecisions(request.build()).getRefusals(0));
            }
            assertEquals(List.of("ACTION_DIFFERS", "PROPENSITY_DIFFERS", "VERSION_UNKNOWN", "BUCKET_DIFFERS"), words);
        }
    }

    private Kedge local(String policy) {
        Kedge kedge = Sidecar.client(policy).local(policy).listener(refusals).build();
        assertTrue(kedge.ready(Sidecar.GENEROUS), "no vectors came");
        return kedge;
    }

    private static Question question(String policy, String episode, int number) {
        return Question.of(policy, episode).category("task", TASKS[number % TASKS.length]);
    }

    private static Choice paced(Kedge kedge, String policy, String episode, int number) {
        room(kedge);
        return kedge.decide(question(policy, episode, number));
    }

    private static void room(Kedge kedge) {
        if (kedge.unreported() > MOST_UNREPORTED) {
            Sidecar.waitFor("room for reports", () -> kedge.unreported() < MOST_UNREPORTED / 2);
        }
    }

    private static String reason(Kedge kedge) {
        return kedge.decide(question("frozen", kedge.newEpisodeId(), 0)).reason();
    }

    private static void decide(LocalPolicy policy, String episode) {
        try {
            policy.decide(question("local", episode, 0));
        } catch (QuestionRefused impossible) {
            throw new AssertionError(impossible);
        }
    }

    private static String other(LocalPolicy policy, String key) {
        for (int i = 0; ; i++) {
            var choice = new Choice[1];
            try {
                choice[0] = policy.decide(question("local", "search-" + i, 0));
            } catch (QuestionRefused impossible) {
                throw new AssertionError(impossible);
            }
            if (!choice[0].actionKey().equals(key)) {
                return choice[0].actionKey();
            }
        }
    }

    private static long epochNanos(Instant instant) {
        return TimeUnit.SECONDS.toNanos(instant.getEpochSecond()) + instant.getNano();
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }
}
