package dev.kedge.client;

import java.time.Duration;
import java.util.function.LongSupplier;

/**
 * Decides whether the next call may go out.
 *
 * <p>Five failures in a row open it for one second; then a single call goes out as a probe while the others still do
 * not. A probe that fails doubles the pause, up to 30 s; one that succeeds closes the breaker. Every change of state
 * starts a new era; what a call reports counts only while the era lasts that it began in, so a slow failure from before
 * cannot reopen a breaker that a probe has closed.
 */
final class CircuitBreaker {
    static final int FAILURES_TO_OPEN = 5;
    static final Duration FIRST_PAUSE = Duration.ofSeconds(1);
    static final Duration LONGEST_PAUSE = Duration.ofSeconds(30);

    private final LongSupplier nanos;
    private BreakerState state = BreakerState.CLOSED;
    private long era;
    private int failures;
    private Duration pause = FIRST_PAUSE;
    private long openUntil;

    /** Starts closed; takes nanoseconds that never run backwards. */
    CircuitBreaker(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /**
     * Leave to call, to be reported back exactly once by succeeded, failed or abandoned.
     *
     * @param era when it was given
     * @param isProbe it is the one call that finds out whether the server is back
     */
    record Leave(long era, boolean isProbe) {}

    synchronized BreakerState state() {
        return state;
    }

    /** Asks for leave; null if the call must not go out. */
    synchronized Leave enter() {
        if (state == BreakerState.CLOSED) {
            return new Leave(era, false);
        }
        if (state == BreakerState.OPEN && nanos.getAsLong() - openUntil >= 0) {
            change(BreakerState.PROBING);
            return new Leave(era, true);
        }
        return null;
    }

    /** The server answered, be it with a refusal of the request. */
    synchronized void succeeded(Leave leave) {
        if (leave.era != era) {
            return;
        }
        failures = 0;
        if (state == BreakerState.PROBING) {
            pause = FIRST_PAUSE;
            change(BreakerState.CLOSED);
        }
    }

    /** The server did not answer or failed. */
    synchronized void failed(Leave leave) {
        if (leave.era != era) {
            return;
        }
        if (state == BreakerState.PROBING) {
            pause = pause.multipliedBy(2).compareTo(LONGEST_PAUSE) > 0 ? LONGEST_PAUSE : pause.multipliedBy(2);
            open(pause);
        } else if (++failures >= FAILURES_TO_OPEN) {
            open(pause);
        }
    }

    /** The caller gave up before there was an answer; after a probe the next call becomes the probe. */
    synchronized void abandoned(Leave leave) {
        if (leave.era == era && state == BreakerState.PROBING) {
            open(Duration.ZERO);
        }
    }

    private void open(Duration forSoLong) {
        openUntil = nanos.getAsLong() + forSoLong.toNanos();
        change(BreakerState.OPEN);
    }

    private void change(BreakerState to) {
        state = to;
        era++;
        failures = 0;
    }
}
