package dev.kedge.client;

import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * Spaces out retries: doubling pauses with jitter, so that many callers do not return at once.
 *
 * @param first pause before the first retry
 * @param longest where doubling ends
 */
record Backoff(Duration first, Duration longest) {
    private static final int MOST_DOUBLINGS = 20;

    static Backoff upTo(Duration longest) {
        return new Backoff(Duration.ofMillis(100), longest);
    }

    /**
     * How long to wait after a failure: what the server asked for, and half to all of the pause.
     *
     * @param attempt failures before this one, from 0
     */
    Duration delay(int attempt, CallFailed failure, RandomGenerator random) {
        Duration pause = first.multipliedBy(1L << Math.min(attempt, MOST_DOUBLINGS));
        long nanos = (pause.compareTo(longest) > 0 ? longest : pause).toNanos();
        return failure.retryAfter().plusNanos((long) (nanos * (0.5 + 0.5 * random.nextDouble())));
    }
}
