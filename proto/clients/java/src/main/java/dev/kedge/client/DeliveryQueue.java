package dev.kedge.client;

import com.google.protobuf.MessageLite;
import dev.kedge.bandit.v1.ErrorReason;
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
import java.util.SplittableRandom;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.random.RandomGenerator;

/**
 * Takes facts (outcomes, or log entries of episodes) without waiting for the network and delivers them in the
 * background: bounded, in batches, tried again under the same keys until the server has answered for each. Thread-safe.
 *
 * <p>Only INVALID_ARGUMENT is final: a batch is halved until the fact that is at fault stands alone.
 */
public final class DeliveryQueue<T extends MessageLite> {
    static final int MAX_BATCH = 500;
    private static final Set<ErrorReason> COME_BACK = Set.of(
            ErrorReason.ERROR_REASON_QUEUE_FULL,
            ErrorReason.ERROR_REASON_QUOTA_EXHAUSTED,
            ErrorReason.ERROR_REASON_STORE_UNAVAILABLE);

    private final Function<List<T>, List<OutcomeResult>> send;
    private final Consumer<T> check;
    private final FactStore<T> store;
    private final String name;
    private final Listener listener;
    private final RandomGenerator random = new SplittableRandom();
    private final Backoff backoff = Backoff.upTo(Duration.ofSeconds(5));
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final Map<OutcomeStatus, Long> tally = new EnumMap<>(OutcomeStatus.class);
    private final Set<T> settled = Collections.newSetFromMap(new IdentityHashMap<>());
    private Thread worker;
    private boolean isClosing;
    private long dropped;
    private long retries;
    private int failures;

    /**
     * Starts with what the store has.
     *
     * @param name of its thread
     * @param send one attempt to deliver a batch, with one result each; throws CallFailed
     * @param check refuses with an IllegalArgumentException what cannot be one
     */
    DeliveryQueue(
            String name,
            Function<List<T>, List<OutcomeResult>> send,
            Consumer<T> check,
            FactStore<T> store,
            Listener listener) {
        this.name = name;
        this.send = send;
        this.check = check;
        this.store = store;
        this.listener = listener;
        if (store.size() > 0) {
            work();
        }
    }

    /**
     * Hands over a fact; with a spool it is in the file when this returns.
     *
     * @return false if the queue is full or closed; then the outcome is dropped and counted
     */
    public boolean put(T fact) {
        check.accept(fact);
        boolean isTaken = false;
        lock.lock();
        try {
            if (!isClosing && store.add(fact)) {
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
            Listener.tell(() -> listener.dropped(fact));
        }
        return isTaken;
    }

    /** What became of everything so far. */
    public QueueCounts counts() {
        lock.lock();
        try {
            return new QueueCounts(
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
    List<T> close(Duration timeout) {
        lock.lock();
        isClosing = true;
        changed.signalAll();
        lock.unlock();
        flush(timeout);
        stop();
        var left = new ArrayList<T>();
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
        left.forEach(fact -> Listener.tell(() -> listener.dropped(fact)));
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
            worker = new Thread(this::deliver, name);
            worker.setDaemon(true);
            worker.start();
        }
    }

    private void deliver() {
        try {
            for (List<T> batch = next(); !batch.isEmpty(); batch = next()) {
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

    private List<T> next() throws InterruptedException {
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
    private void deliver(List<T> some) throws InterruptedException {
        List<T> rest = some;
        while (!rest.isEmpty()) {
            try {
                List<OutcomeResult> results = send.apply(rest);
                if (results.size() != rest.size()) {
                    throw new CallFailed("INTERNAL", "UNUSABLE_ANSWER", "not one result per fact");
                }
                rest = account(rest, results);
                if (rest.isEmpty()) {
                    failures = 0;
                } else {
                    pause(new CallFailed("RESOURCE_EXHAUSTED", "", rest.size() + " were put off"));
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
    private List<T> account(List<T> batch, List<OutcomeResult> results) {
        var putOff = new ArrayList<T>();
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

    private void settle(T fact, OutcomeResult result) {
        OutcomeStatus status = result.getStatus() == OutcomeStatus.UNRECOGNIZED
                ? OutcomeStatus.OUTCOME_STATUS_REJECTED
                : result.getStatus();
        lock.lock();
        try {
            tally.merge(status, 1L, Long::sum);
            settled.add(fact);
        } finally {
            lock.unlock();
        }
        if (status == OutcomeStatus.OUTCOME_STATUS_CONFLICT || status == OutcomeStatus.OUTCOME_STATUS_REJECTED) {
            Listener.tell(() -> listener.refused(fact, result));
        }
    }

    private void pause(CallFailed failure) throws InterruptedException {
        Duration pause = backoff.delay(failures++, failure, random);
        lock.lockInterruptibly();
        try {
            retries++;
            int waiting = store.size() - settled.size();
            Listener.tell(() -> listener.delayed(failure, waiting, pause));
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
}
