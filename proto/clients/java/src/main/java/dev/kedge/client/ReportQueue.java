package dev.kedge.client;

import dev.kedge.bandit.v1.Decision;
import dev.kedge.bandit.v1.ReportDecisionsRequest;
import dev.kedge.bandit.v1.ReportDecisionsResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.random.RandomGenerator;

/** Reports the decisions of one policy that were made here: bounded, in batches, until they are acknowledged. */
final class ReportQueue {
    private static final int MAX_BATCH = 500;
    /** Where a batch ends though it is not full; a message may have twice as much. */
    private static final int MAX_BATCH_BYTES = 2 * 1024 * 1024;

    private static final int CAPACITY = 20_000;
    private static final Duration LINGER = Duration.ofMillis(100);

    private final String policy;
    private final Function<ReportDecisionsRequest, ReportDecisionsResponse> send;
    private final Listener listener;
    private final RandomGenerator random;
    private final Backoff backoff = Backoff.upTo(Duration.ofSeconds(5));
    private final ConcurrentLinkedQueue<Made> waiting = new ConcurrentLinkedQueue<>();
    private final AtomicInteger size = new AtomicInteger();
    private final AtomicLong put = new AtomicLong();
    private final AtomicLong answered = new AtomicLong();
    private final Semaphore urgent = new Semaphore(0);
    private final Thread worker;
    private volatile boolean isClosed;

    /** Starts empty; {@code send} is one attempt to report a batch, and throws CallFailed. */
    ReportQueue(
            String policy,
            Function<ReportDecisionsRequest, ReportDecisionsResponse> send,
            Listener listener,
            RandomGenerator random) {
        this.policy = policy;
        this.send = send;
        this.listener = listener;
        this.random = random;
        worker = new Thread(this::deliver, "kedge-reports");
        worker.setDaemon(true);
        worker.start();
    }

    /** Decisions that are not answered for yet. */
    int waiting() {
        return size.get();
    }

    /** Takes a decision without waiting. */
    void put(Made made) {
        int now = size.incrementAndGet();
        if (isClosed || now > CAPACITY) {
            size.decrementAndGet();
            dropped(made);
            return;
        }
        waiting.add(made);
        put.incrementAndGet();
        if (now % MAX_BATCH == 0) {
            urgent.release();
        }
    }

    /** Waits until all that was put before is answered for, and says whether that was in time. */
    boolean flush(Duration timeout) {
        long until = put.get();
        long deadline = System.nanoTime() + timeout.toNanos();
        urgent.release();
        synchronized (answered) {
            while (answered.get() < until) {
                long left = deadline - System.nanoTime();
                if (left <= 0) {
                    return false;
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(answered, left);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                    return false;
                }
            }
        }
        return true;
    }

    /** Stops, and drops what could not be reported; flush first. */
    void close() {
        isClosed = true;
        worker.interrupt();
        try {
            worker.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        for (Made made = waiting.poll(); made != null; made = waiting.poll()) {
            dropped(made);
        }
    }

    private void deliver() {
        try {
            while (!isClosed) {
                if (size.get() < MAX_BATCH) {
                    urgent.tryAcquire(LINGER.toMillis(), TimeUnit.MILLISECONDS);
                }
                urgent.drainPermits();
                for (List<Decision> batch = batch(); !batch.isEmpty(); batch = batch()) {
                    report(batch);
                    if (size.get() < MAX_BATCH) {
                        break;
                    }
                }
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    /** Spells the first decisions that wait; they stay there until they are answered for. */
    private List<Decision> batch() {
        var batch = new ArrayList<Decision>();
        int bytes = 0;
        for (Made made : waiting) {
            Decision message = made.message(policy);
            bytes += message.getSerializedSize();
            if (batch.size() == MAX_BATCH || (!batch.isEmpty() && bytes > MAX_BATCH_BYTES)) {
                break;
            }
            batch.add(message);
        }
        return batch;
    }

    private void report(List<Decision> batch) throws InterruptedException {
        var request = ReportDecisionsRequest.newBuilder().setPolicy(policy).addAllDecisions(batch).build();
        for (int failures = 0; ; failures++) {
            try {
                List<String> refusals = send.apply(request).getRefusalsList();
                if (refusals.size() != batch.size()) {
                    throw new CallFailed("INTERNAL", "UNUSABLE_ANSWER", "not one answer per decision");
                }
                account(batch, refusals);
                return;
            } catch (CallFailed failed) {
                if (!failed.isTransient()) {
                    account(batch, Collections.nCopies(batch.size(), failed.summary()));
                    return;
                }
                Duration pause = backoff.delay(failures, failed, random);
                Listener.tell(() -> listener.decisionsDelayed(failed, size.get(), pause));
                Thread.sleep(pause.toMillis());
            }
        }
    }

    private void account(List<Decision> batch, List<String> refusals) {
        for (int i = 0; i < batch.size(); i++) {
            waiting.poll();
            size.decrementAndGet();
            if (!refusals.get(i).isEmpty()) {
                String name = batch.get(i).getName();
                String why = refusals.get(i);
                Listener.tell(() -> listener.decisionRefused(name, why));
            }
        }
        synchronized (answered) {
            answered.addAndGet(batch.size());
            answered.notifyAll();
        }
    }

    private void dropped(Made made) {
        Listener.tell(() -> listener.decisionDropped(made.name(policy)));
    }
}
