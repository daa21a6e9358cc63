package dev.kedge.client;

import dev.kedge.bandit.v1.ErrorReason;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.OutcomeResult;
import dev.kedge.bandit.v1.OutcomeStatus;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.random.RandomGenerator;

/**
 * Takes outcomes without waiting for the network and delivers them in the background: bounded, in batches, tried again
 * under the same keys until the server has answered for each. Thread-safe.
 *
 * <p>Only INVALID_ARGUMENT is final: a batch is halved until the outcome that is at fault stands alone.
 */
public final class OutcomeQueue {
    static final int MAX_BATCH = 500;
    private static final int MAX_OUTCOME_BYTES = 8192;
    private static final Set<ErrorReason> COME_BACK = Set.of(
            ErrorReason.ERROR_REASON_QUEUE_FULL,
            ErrorReason.ERROR_REASON_QUOTA_EXHAUSTED,
            ErrorReason.ERROR_REASON_STORE_UNAVAILABLE);

    private final Function<List<Outcome>, List<OutcomeResult>> send;
    private final OutcomeStore store;
    private final Listener listener;
    private final RandomGenerator random;
    private final Backoff backoff = Backoff.upTo(Duration.ofSeconds(5));
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Map<OutcomeStatus, Long> tally = new EnumMap<>(OutcomeStatus.class);
    private final Set<Outcome> settled = Collections.newSetFromMap(new IdentityHashMap<>());
    private Thread worker;
    private boolean isClosing;
    private long dropped;
    private long retries;
    private int failures;

    /**
     * Starts with what the store has.
     *
     * @param send one attempt to record a batch; throws CallFailed
     */
    OutcomeQueue(
            Function<List<Outcome>, List<OutcomeResult>> send,
            OutcomeStore store,
            Listener listener,
            RandomGenerator random) {
        this.send = send;
        this.store = store;
        this.listener = listener;
        this.random = random;
        lock.lock();
        try {
            if (store.size() > 0) {
                work();
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Hands over an outcome; with a spool it is in the file when this returns.
     *
     * @return false if the queue is full or closed; then the outcome is dropped and counted
     */
    public boolean put(Outcome outcome) {
        check(outcome);
        boolean isTaken = false;
        lock.lock();
        try {
            if (!isClosing && store.add(outcome)) {
                isTaken = true;
                work();
                changed.signalAll();
            } else {
                dropped++;
            }
        } finally {
            lock.unlock();
        }
        if (!isTaken) {
            Listener.tell(() -> listener.outcomeDropped(outcome));
        }
        return isTaken;
    }

    /** What became of everything so far. */
    public OutcomeCounts counts() {
        lock.lock();
        try {
            return new OutcomeCounts(
                    counted(OutcomeStatus.OUTCOME_STATUS_RECORDED),
                    counted(OutcomeStatus.OUTCOME_STATUS_DUPLICATE),
                    counted(OutcomeStatus.OUTCOME_STATUS_LATE),
                    counted(OutcomeStatus.OUTCOME_STATUS_CONFLICT),
                    counted(OutcomeStatus.OUTCOME_STATUS_REJECTED),
                    dropped,
                    store.size() - settled.size(),
                    retries);
        } finally {
            lock.unlock();
        }
    }

    /** Waits until the server has answered for everything that was put, and says whether that was in time. */
    public boolean flush(Duration timeout) {
        lock.lock();
        try {
            long left = timeout.toNanos();
            while (store.size() > 0 && left > 0) {
                left = changed.awaitNanos(left);
            }
            return store.size() == 0;
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        } finally {
            lock.unlock();
        }
    }

    /**
     * Takes nothing more, tries to deliver the rest, and stops. A pause between retries ends at once for one last try.
     *
     * @return what could not be delivered and would be lost: put it into the queue of the next process. A spool keeps
     *     it instead, and this is empty
     */
    List<Outcome> close(Duration timeout) {
        lock.lock();
        try {
            isClosing = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
        flush(timeout);
        stop();
        var left = new ArrayList<Outcome>();
        lock.lock();
        try {
            if (!store.survives()) {
                left.addAll(store.first(store.size()));
                left.removeIf(settled::contains);
                dropped += left.size();
                settled.clear();
            }
            store.close();
        } finally {
            lock.unlock();
        }
        left.forEach(outcome -> Listener.tell(() -> listener.outcomeDropped(outcome)));
        return left;
    }

    private void stop() {
        if (worker == null) {
            return;
        }
        worker.interrupt();
        try {
            worker.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void work() {
        if (worker == null) {
            worker = new Thread(this::deliver, "kedge-outcomes");
            worker.setDaemon(true);
            worker.start();
        }
    }

    private void deliver() {
        try {
            for (List<Outcome> batch = next(); !batch.isEmpty(); batch = next()) {
                deliver(batch);
                lock.lock();
                try {
                    store.remove(batch.size());
                    settled.clear();
                    changed.signalAll();
                } finally {
                    lock.unlock();
                }
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    private List<Outcome> next() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            while (store.size() == 0 && !isClosing) {
                changed.await();
            }
            return store.first(MAX_BATCH);
        } finally {
            lock.unlock();
        }
    }

    /** Sends until the server is done with all of them; halves what it refuses as a whole. */
    private void deliver(List<Outcome> some) throws InterruptedException {
        List<Outcome> rest = some;
        while (!rest.isEmpty()) {
            try {
                List<OutcomeResult> results = send.apply(rest);
                if (results.size() != rest.size()) {
                    throw new CallFailed("INTERNAL", "UNUSABLE_ANSWER", "not one result per outcome");
                }
                rest = account(rest, results);
                if (rest.isEmpty()) {
                    failures = 0;
                } else {
                    pause(new CallFailed("RESOURCE_EXHAUSTED", "", rest.size() + " outcomes were put off"));
                }
            } catch (CallFailed failed) {
                if (!failed.code().equals("INVALID_ARGUMENT")) {
                    pause(failed);
                } else if (rest.size() > 1) {
                    deliver(rest.subList(0, rest.size() / 2));
                    rest = rest.subList(rest.size() / 2, rest.size());
                } else {
                    var status = OutcomeStatus.OUTCOME_STATUS_REJECTED;
                    settle(rest.get(0), OutcomeResult.newBuilder().setStatus(status).setDetail(failed.getMessage()).build());
                    rest = List.of();
                }
            }
        }
    }

    /** Counts what is done; answers what was put off. */
    private List<Outcome> account(List<Outcome> batch, List<OutcomeResult> results) {
        var putOff = new ArrayList<Outcome>();
        for (int i = 0; i < batch.size(); i++) {
            OutcomeResult result = results.get(i);
            if (result.getStatus() == OutcomeStatus.OUTCOME_STATUS_REJECTED
                    && COME_BACK.contains(result.getErrorReason())) {
                putOff.add(batch.get(i));
            } else {
                settle(batch.get(i), result);
            }
        }
        return putOff;
    }

    private void settle(Outcome outcome, OutcomeResult result) {
        OutcomeStatus status = result.getStatus() == OutcomeStatus.UNRECOGNIZED
                ? OutcomeStatus.OUTCOME_STATUS_REJECTED
                : result.getStatus();
        lock.lock();
        try {
            tally.merge(status, 1L, Long::sum);
            settled.add(outcome);
        } finally {
            lock.unlock();
        }
        if (status == OutcomeStatus.OUTCOME_STATUS_CONFLICT || status == OutcomeStatus.OUTCOME_STATUS_REJECTED) {
            Listener.tell(() -> listener.outcomeRefused(outcome, result));
        }
    }

    private void pause(CallFailed failure) throws InterruptedException {
        Duration pause = backoff.delay(failures++, failure, random);
        lock.lockInterruptibly();
        try {
            retries++;
            int waiting = store.size() - settled.size();
            Listener.tell(() -> listener.outcomesDelayed(failure, waiting, pause));
            boolean wasClosing = isClosing;
            long left = pause.toNanos();
            // Closing must not sit out a long pause.
            while (left > 0 && isClosing == wasClosing) {
                left = changed.awaitNanos(left);
            }
        } finally {
            lock.unlock();
        }
    }

    private long counted(OutcomeStatus status) {
        return tally.getOrDefault(status, 0L);
    }

    private static void check(Outcome outcome) {
        Question.checkedId("idempotencyKey", outcome.getIdempotencyKey());
        if (outcome.getTargetCase() == Outcome.TargetCase.TARGET_NOT_SET
                || outcome.getObservationCase() == Outcome.ObservationCase.OBSERVATION_NOT_SET) {
            throw new IllegalArgumentException("an outcome needs a target and a value or ABSENT; make it with Kedge.about");
        }
        if (outcome.getSerializedSize() > MAX_OUTCOME_BYTES) {
            throw new IllegalArgumentException("an outcome is at most " + MAX_OUTCOME_BYTES + " bytes");
        }
    }
}
