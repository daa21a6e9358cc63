package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.ErrorReason;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.OutcomeResult;
import dev.kedge.bandit.v1.OutcomeStatus;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DeliveryQueueTest {
    private static final Duration GENEROUS = Duration.ofSeconds(30);
    private static final OutcomeResult RECORDED =
            OutcomeResult.newBuilder().setStatus(OutcomeStatus.OUTCOME_STATUS_RECORDED).build();

    @TempDir
    Path folder;

    private final Map<String, Outcome> arrived = new ConcurrentHashMap<>();
    private final List<Integer> batches = Collections.synchronizedList(new ArrayList<>());

    @Test
    void outcomesArriveInBatchesOfAtMostFiveHundred() {
        var opened = new CountDownLatch(1);
        DeliveryQueue<Outcome> queue = queue(some -> {
            await(opened);
            return record(some);
        }, memory(10_000));
        put(queue, 0, 1_700);
        opened.countDown();
        assertTrue(queue.flush(GENEROUS));
        assertEquals(1_700, arrived.size());
        assertEquals(500, Collections.max(batches));
        assertEquals(new QueueCounts(1_700, 0, 0, 0, 0, 0, 0, 0), queue.counts());
    }

    @Test
    void aFailedBatchIsTriedAgainUnderTheSameKeys() {
        var failures = new AtomicInteger(3);
        DeliveryQueue<Outcome> queue = queue(some -> {
            if (failures.getAndDecrement() > 0) {
                throw new CallFailed("UNAVAILABLE", "", "");
            }
            return record(some);
        }, memory(100));
        put(queue, 0, 10);
        assertTrue(queue.flush(GENEROUS));
        assertEquals(10, arrived.size());
        assertEquals(3, queue.counts().retries());
    }

    @Test
    void whatAFullQueueDoesNotTakeIsCountedAndTold() {
        var dropped = new ArrayList<Outcome>();
        var listener = new Listener() {
            @Override
            public void dropped(com.google.protobuf.MessageLite fact) {
                dropped.add((Outcome) fact);
            }
        };
        var opened = new CountDownLatch(1);
        var queue = new DeliveryQueue<>("queue", some -> {
            await(opened);
            return record(some);
        }, each -> {}, memory(5), listener);
        put(queue, 0, 5);
        assertFalse(queue.put(outcome(5)));
        assertEquals(1, queue.counts().dropped());
        assertEquals("k-5", dropped.get(0).getIdempotencyKey());
        opened.countDown();
    }

    @Test
    void oneOutcomeAtFaultIsRejectedAndTheOthersOfItsBatchArrive() {
        DeliveryQueue<Outcome> queue = queue(some -> {
            if (some.stream().anyMatch(each -> each.getIdempotencyKey().equals("k-13"))) {
                throw new CallFailed("INVALID_ARGUMENT", "INVALID_OUTCOME", "");
            }
            return record(some);
        }, memory(100));
        put(queue, 0, 40);
        assertTrue(queue.flush(GENEROUS));
        assertEquals(39, arrived.size());
        assertEquals(1, queue.counts().rejected());
    }

    @Test
    void whatTheServerPutsOffComesBackAndTheRestIsNotSentTwice() {
        var once = new AtomicBoolean(true);
        var sent = new ArrayList<Integer>();
        DeliveryQueue<Outcome> queue = queue(some -> {
            sent.add(some.size());
            var results = new ArrayList<>(record(some));
            if (once.getAndSet(false)) {
                arrived.remove(some.get(0).getIdempotencyKey());
                results.set(0, OutcomeResult.newBuilder()
                        .setStatus(OutcomeStatus.OUTCOME_STATUS_REJECTED)
                        .setErrorReason(ErrorReason.ERROR_REASON_QUEUE_FULL)
                        .build());
            }
            return results;
        }, memory(100));
        put(queue, 0, 1);
        assertTrue(queue.flush(GENEROUS));
        assertEquals(List.of(1, 1), sent);
        assertEquals(1, queue.counts().recorded());
    }

    @Test
    void closingGivesBackWhatCouldNotBeDelivered() {
        DeliveryQueue<Outcome> queue = queue(some -> {
            throw new CallFailed("UNAVAILABLE", "", "");
        }, memory(100));
        put(queue, 0, 3);
        assertEquals(3, queue.close(Duration.ofMillis(50)).size());
        assertFalse(queue.put(outcome(4)));
        assertEquals(4, queue.counts().dropped());
    }

    @Test
    void aSpoolKeepsWhatAProcessCouldNotDeliverForTheNextOne() {
        DeliveryQueue<Outcome> down = queue(some -> {
            throw new CallFailed("UNAVAILABLE", "", "");
        }, spool());
        put(down, 0, 1_200);
        assertEquals(List.of(), down.close(Duration.ofMillis(50)));

        DeliveryQueue<Outcome> up = queue(this::record, spool());
        put(up, 1_200, 1_201);
        assertTrue(up.flush(GENEROUS));
        assertEquals(1_201, arrived.size());
        assertEquals(0, up.counts().dropped());
        up.close(GENEROUS);
        assertEquals(0, files());
    }

    @Test
    void aSpoolThatACrashCutOffKeepsTheWholeOutcomes() throws Exception {
        var before = spool();
        IntStream.range(0, 10).forEach(i -> before.add(outcome(i)));
        before.close();
        Path file = Files.list(folder).filter(path -> path.toString().endsWith(".facts")).findFirst().orElseThrow();
        byte[] whole = Files.readAllBytes(file);
        Files.write(file, java.util.Arrays.copyOf(whole, whole.length - 3));
        Files.write(folder.resolve("00000000000000ff.facts"), new byte[64], StandardOpenOption.CREATE_NEW);

        DeliveryQueue<Outcome> queue = queue(this::record, spool());
        assertTrue(queue.flush(GENEROUS));
        assertEquals(9, arrived.size());
        queue.close(GENEROUS);
    }

    @Test
    void aFullSpoolDropsAndCounts() {
        DeliveryQueue<Outcome> queue = queue(some -> {
            throw new CallFailed("UNAVAILABLE", "", "");
        }, new Spool<>(folder, Outcome.parser(), 1_000));
        int taken = (int) IntStream.range(0, 100).filter(i -> queue.put(outcome(i))).count();
        assertEquals(100 - taken, queue.counts().dropped());
        assertTrue(taken > 2 && taken < 20, "took " + taken);
        queue.close(Duration.ofMillis(50));
    }

    @Test
    void twoClientsCannotShareASpool() {
        var first = spool();
        assertThrows(IllegalStateException.class, this::spool);
        first.close();
    }

    private DeliveryQueue<Outcome> queue(Function<List<Outcome>, List<OutcomeResult>> send, FactStore<Outcome> store) {
        return new DeliveryQueue<>("queue", send, each -> {}, store, new Listener() {});
    }

    private static FactStore<Outcome> memory(int capacity) {
        return new FactStore.InMemory<>(capacity);
    }

    private Spool<Outcome> spool() {
        return new Spool<>(folder, Outcome.parser(), 1 << 20);
    }

    private long files() {
        try (var files = Files.list(folder)) {
            return files.filter(path -> path.toString().endsWith(".facts")).count();
        } catch (java.io.IOException broken) {
            throw new java.io.UncheckedIOException(broken);
        }
    }

    private List<OutcomeResult> record(List<Outcome> some) {
        batches.add(some.size());
        some.forEach(each -> arrived.put(each.getIdempotencyKey(), each));
        return Collections.nCopies(some.size(), RECORDED);
    }

    private static void put(DeliveryQueue<Outcome> queue, int from, int to) {
        IntStream.range(from, to).forEach(i -> assertTrue(queue.put(outcome(i))));
    }

    private static Outcome outcome(int number) {
        var handle = new EpisodeHandle("tenants/a/policies/p", "e-" + number, ByteString.EMPTY, "", "");
        return new OutcomeMaker(handle, Instant::now, () -> "k-" + number).thumb(1);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
