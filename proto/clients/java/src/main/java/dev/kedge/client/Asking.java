package dev.kedge.client;

import dev.kedge.bandit.v1.BestActionResponse;
import dev.kedge.bandit.v1.DecideResponse;
import dev.kedge.bandit.v1.DecisionServiceGrpc;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.OptionalDouble;
import java.util.concurrent.CompletableFuture;

/** Answers every question: here, by the server, or with the baseline. The one place that turns failures into choices. */
final class Asking {
    private static final String BREAKER_OPEN = "BREAKER_OPEN";
    private static final Wire.Terms PROBE = new Wire.Terms(Duration.ofSeconds(1), true);

    /** How an answer becomes a choice; throws CallFailed where it names nothing to serve. */
    private interface Reading<A> {
        Choice read(Kedge.Known known, Question question, A answer);
    }

    private final Wire wire;
    private final Listener listener;
    private final LocalPolicies local;
    private final Wire.Terms terms;
    private final CircuitBreaker breaker = new CircuitBreaker(System::nanoTime);

    Asking(Wire wire, Listener listener, LocalPolicies local, Duration deadline) {
        this.wire = wire;
        this.listener = listener;
        this.local = local;
        terms = new Wire.Terms(deadline, false);
    }

    BreakerState state() {
        return breaker.state();
    }

    Choice decide(Question question, Kedge.Known known) {
        long started = System.nanoTime();
        Choice here = decidedHere(question, known);
        if (here != null) {
            return told(here, started);
        }
        var request = Requests.decide(question, known, Kedge.newId());
        return choose(DecisionServiceGrpc.getDecideMethod(), request, known, question, Asking::read, started);
    }

    CompletableFuture<Choice> decideAsync(Question question, Kedge.Known known) {
        long started = System.nanoTime();
        Choice here = decidedHere(question, known);
        if (here != null) {
            return CompletableFuture.completedFuture(told(here, started));
        }
        CircuitBreaker.Leave leave = breaker.enter();
        if (leave == null) {
            return CompletableFuture.completedFuture(told(fallback(known, question, BREAKER_OPEN), started));
        }
        var request = Requests.decide(question, known, Kedge.newId());
        return wire.callAsync(DecisionServiceGrpc.getDecideMethod(), request, terms)
                .thenApply(answer -> read(known, question, answer))
                .handle((choice, thrown) -> told(reported(leave, choice, thrown, known, question), started));
    }

    Choice best(Question question, Kedge.Known known) {
        var request = Requests.bestAction(question, known, Kedge.newId());
        return choose(
                DecisionServiceGrpc.getBestActionMethod(), request, known, question, Asking::readBest,
                System.nanoTime());
    }

    private <Q, A> Choice choose(
            MethodDescriptor<Q, A> method, Q request, Kedge.Known known, Question question, Reading<A> reading,
            long started) {
        CircuitBreaker.Leave leave = breaker.enter();
        if (leave == null) {
            return told(fallback(known, question, BREAKER_OPEN), started);
        }
        if (leave.isProbe()) {
            // Nobody waits for the answer of a server that has just failed five times.
            wire.callAsync(method, request, PROBE)
                    .thenApply(answer -> reading.read(known, question, answer))
                    .handle((choice, thrown) -> reported(leave, choice, thrown, known, question));
            return told(fallback(known, question, BREAKER_OPEN), started);
        }
        Choice choice = null;
        Throwable thrown = null;
        try {
            choice = reading.read(known, question, wire.call(method, request, terms));
        } catch (RuntimeException failure) {
            thrown = failure;
        }
        return told(reported(leave, choice, thrown, known, question), started);
    }

    /** Tells the breaker how a call went, and turns a failure into the baseline. */
    private Choice reported(
            CircuitBreaker.Leave leave, Choice choice, Throwable thrown, Kedge.Known known, Question question) {
        if (thrown == null) {
            breaker.succeeded(leave);
            return choice;
        }
        CallFailed failure = CallFailed.of(thrown.getCause() == null ? thrown : thrown.getCause());
        if (Thread.currentThread().isInterrupted() && failure.code().equals("CANCELLED")) {
            breaker.abandoned(leave);
        } else if (failure.isTransient()) {
            breaker.failed(leave);
        } else {
            // A server that refuses a request is well; one caller's bad request must not cost the others theirs.
            breaker.succeeded(leave);
        }
        return fallback(known, question, failure.summary());
    }

    private Choice decidedHere(Question question, Kedge.Known known) {
        boolean isFirst = question.token.isEmpty() && !question.continuesEpisode;
        return isFirst ? local.decide(known.name(), question, known.baseline()) : null;
    }

    private Choice told(Choice choice, long started) {
        Listener.tell(() ->
                listener.decided(choice, Duration.ofNanos(System.nanoTime() - started), breaker.state()));
        return choice;
    }

    private static Choice read(Kedge.Known known, Question question, DecideResponse answer) {
        return Choice.answered(known.name(), question.episodeId, answer, OptionalDouble.empty());
    }

    private static Choice readBest(Kedge.Known known, Question question, BestActionResponse answer) {
        var mean = OptionalDouble.of(answer.getMean());
        return Choice.answered(known.name(), question.episodeId, answer.getDecision(), mean);
    }

    private static Choice fallback(Kedge.Known known, Question question, String failure) {
        return Choice.fallback(known.name(), question.episodeId, known.baseline(), failure);
    }
}
