package dev.kedge.client;

import dev.kedge.bandit.v1.DecisionServiceGrpc;
import dev.kedge.bandit.v1.WatchAllocationsRequest;
import dev.kedge.bandit.v1.WatchAllocationsResponse;
import io.grpc.stub.StreamObserver;
import java.lang.System.Logger.Level;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Keeps the policies that are decided here: watches their vectors, decides from them, reports what was decided. */
final class LocalPolicies {
    /** Failure of a choice that could not be made here though the vectors are. */
    static final String LOCAL_ERROR = "LOCAL_ERROR";
    /** A stream that is silent for so long is given up for another one; a replica speaks every second. */
    private static final Duration SILENCE = Duration.ofSeconds(5);

    private static final double NANOS = 1e-9;

    /** What came over a stream: a message, or its end with a failure or without. */
    private record Heard(WatchAllocationsResponse message, CallFailed failure) {}

    private final Wire wire;
    private final Listener listener;
    private final SplittableRandom random = new SplittableRandom(new SecureRandom().nextLong());
    private final Map<String, LocalPolicy> policies = new HashMap<>();
    private final Map<String, ReportQueue> queues = new HashMap<>();
    private final List<Thread> watches = new ArrayList<>();
    private final Object news = new Object();
    private volatile boolean isClosed;

    /**
     * Begins to watch.
     *
     * @param names {@code tenants/{tenant}/policies/{policy}} of each
     */
    LocalPolicies(Collection<String> names, Wire wire, Listener listener, Duration deadline) {
        this.wire = wire;
        this.listener = listener;
        var terms = new Wire.Terms(deadline, true);
        for (String name : names) {
            var queue = new ReportQueue(
                    name,
                    request -> wire.call(DecisionServiceGrpc.getReportDecisionsMethod(), request, terms),
                    listener,
                    random.split());
            var policy = new LocalPolicy(name, () -> System.nanoTime() * NANOS, random.split(), queue::put);
            queues.put(name, queue);
            policies.put(name, policy);
            var jitter = random.split();
            var watch = new Thread(() -> follow(policy, jitter), "kedge-watch");
            watch.setDaemon(true);
            watch.start();
            watches.add(watch);
        }
    }

    /** Decides; null where the server must be asked: not one of these policies, or nothing has come yet. */
    Choice decide(String name, Question question, Baseline baseline) {
        LocalPolicy policy = policies.get(name);
        if (policy == null || !policy.isHeld()) {
            return null;
        }
        try {
            return policy.decide(question);
        } catch (QuestionRefused refused) {
            return Choice.fallback(name, question.episodeId, baseline, refused.reason());
        } catch (RuntimeException broken) {
            System.getLogger("dev.kedge.client").log(Level.ERROR, "local_decide.failed", broken);
            return Choice.fallback(name, question.episodeId, baseline, LOCAL_ERROR);
        }
    }

    /** Waits until every policy can be decided here, and says whether that was in time. */
    boolean ready(Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        synchronized (news) {
            while (!policies.values().stream().allMatch(LocalPolicy::isLive)) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(news, left);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                    return false;
                }
            }
        }
        return true;
    }

    /** Decisions that are not reported yet. */
    int waiting() {
        return queues.values().stream().mapToInt(ReportQueue::waiting).sum();
    }

    /** Reports what waits of an episode's policy, so that its decision can be spoken about. */
    void flush(EpisodeHandle handle, Duration timeout) {
        ReportQueue queue = queues.get(handle.policy());
        if (queue != null && handle.token().isEmpty()) {
            queue.flush(timeout);
        }
    }

    /** Stops watching, reports the rest for at most so long, and drops what could not be. */
    void close(Duration timeout) {
        isClosed = true;
        watches.forEach(Thread::interrupt);
        long deadline = System.nanoTime() + timeout.toNanos();
        for (ReportQueue queue : queues.values()) {
            queue.flush(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())));
            queue.close();
        }
    }

    /** Watches for ever: what ends is begun again, at another replica where there is one. */
    private void follow(LocalPolicy policy, SplittableRandom jitter) {
        Backoff backoff = Backoff.upTo(Duration.ofSeconds(2));
        var none = new CallFailed("OK", "", "");
        try {
            for (int failures = 0; !isClosed; failures++) {
                long before = System.nanoTime();
                CallFailed failure = watchOnce(policy);
                if (isClosed) {
                    return;
                }
                Listener.tell(() -> listener.watchEnded(policy.name, failure));
                if (System.nanoTime() - before > 2 * SILENCE.toNanos()) {
                    failures = 0;
                }
                Thread.sleep(backoff.delay(failures, failure == null ? none : failure, jitter).toMillis());
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    /** Follows one stream to its end; answers why it ended, null where the server ended it. */
    private CallFailed watchOnce(LocalPolicy policy) throws InterruptedException {
        policy.begin();
        var heard = new LinkedBlockingQueue<Heard>();
        var request = WatchAllocationsRequest.newBuilder().setPolicy(policy.name).build();
        Runnable cancel = wire.stream(DecisionServiceGrpc.getWatchAllocationsMethod(), request, new Ear(heard));
        try {
            while (true) {
                Heard next = heard.poll(SILENCE.toMillis(), TimeUnit.MILLISECONDS);
                if (next == null) {
                    return new CallFailed("DEADLINE_EXCEEDED", "", "the stream of vectors fell silent");
                }
                if (next.message == null) {
                    return next.failure;
                }
                policy.take(next.message);
                synchronized (news) {
                    news.notifyAll();
                }
            }
        } catch (RuntimeException unreadable) {
            System.getLogger("dev.kedge.client").log(Level.ERROR, "watch.unreadable", unreadable);
            return new CallFailed("INTERNAL", "UNUSABLE_ANSWER", unreadable.toString());
        } finally {
            cancel.run();
        }
    }

    /** Puts what comes over a stream into a queue. */
    private record Ear(LinkedBlockingQueue<Heard> heard) implements StreamObserver<WatchAllocationsResponse> {
        @Override
        public void onNext(WatchAllocationsResponse message) {
            heard.add(new Heard(message, null));
        }

        @Override
        public void onError(Throwable thrown) {
            heard.add(new Heard(null, CallFailed.of(thrown)));
        }

        @Override
        public void onCompleted() {
            heard.add(new Heard(null, null));
        }
    }
}
