package dev.kedge.client;

import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.random.RandomGenerator;

/** Repeats a request that has one effect however often it arrives. */
final class Retrier {
    private static final int ATTEMPTS = 4;

    private final Wire wire;
    private final Wire.Terms terms;
    private final RandomGenerator random;
    private final Backoff backoff = Backoff.upTo(Duration.ofSeconds(1));

    Retrier(Wire wire, Wire.Terms terms, RandomGenerator random) {
        this.wire = wire;
        this.terms = terms;
        this.random = random;
    }

    /**
     * Tries until it works, is refused, or has failed four times. A server that asks to wait longer than one attempt is
     * not waited for.
     */
    <Q, A> A persist(MethodDescriptor<Q, A> method, Q request) {
        for (int failures = 1; ; failures++) {
            try {
                return wire.call(method, request, terms);
            } catch (CallFailed failed) {
                boolean isHopeless = !failed.isTransient() || failed.retryAfter().compareTo(terms.deadline()) > 0;
                if (isHopeless || failures == ATTEMPTS) {
                    throw failed;
                }
                pause(backoff.delay(failures - 1, failed, random), failed);
            }
        }
    }

    private static void pause(Duration pause, CallFailed failed) {
        try {
            Thread.sleep(pause.toMillis());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw failed;
        }
    }
}
