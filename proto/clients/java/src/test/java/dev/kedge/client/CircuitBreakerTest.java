package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class CircuitBreakerTest {
    private long now;
    private final CircuitBreaker breaker = new CircuitBreaker(() -> now);

    @Test
    void fiveFailuresInARowOpenItAndOneSuccessBetweenThemDoesNot() {
        fail(4);
        breaker.succeeded(breaker.enter());
        fail(4);
        assertEquals(BreakerState.CLOSED, breaker.state());
        fail(1);
        assertEquals(BreakerState.OPEN, breaker.state());
        assertNull(breaker.enter());
    }

    @Test
    void afterTheFirstPauseASingleProbeGoesOut() {
        fail(5);
        now += Duration.ofSeconds(1).toNanos();
        assertTrue(breaker.enter().isProbe());
        assertNull(breaker.enter());
    }

    @Test
    void aProbeThatFailsDoublesThePauseUpToThirtySeconds() {
        fail(5);
        for (long seconds : new long[] {1, 2, 4, 8, 16, 30, 30}) {
            now += Duration.ofSeconds(seconds).toNanos() - 1;
            assertNull(breaker.enter(), () -> "too early, before " + seconds + " s");
            now += 1;
            breaker.failed(breaker.enter());
        }
    }

    @Test
    void aProbeThatSucceedsClosesItAndThePauseBeginsAnewAtOneSecond() {
        fail(5);
        now += Duration.ofSeconds(1).toNanos();
        breaker.failed(breaker.enter());
        now += Duration.ofSeconds(2).toNanos();
        breaker.succeeded(breaker.enter());
        assertFalse(breaker.enter().isProbe());
        fail(5);
        now += Duration.ofSeconds(1).toNanos();
        assertNotNull(breaker.enter());
    }

    @Test
    void aFailureFromBeforeDoesNotReopenABreakerThatAProbeHasClosed() {
        var slow = breaker.enter();
        fail(5);
        now += Duration.ofSeconds(1).toNanos();
        breaker.succeeded(breaker.enter());
        fail(4);
        breaker.failed(slow);
        assertEquals(BreakerState.CLOSED, breaker.state());
    }

    private void fail(int times) {
        for (int i = 0; i < times; i++) {
            breaker.failed(breaker.enter());
        }
    }
}
