package dev.kedge.client;

import dev.kedge.bandit.v1.EpisodeServiceGrpc;
import dev.kedge.bandit.v1.ErrorReason;
import dev.kedge.bandit.v1.FeedbackServiceGrpc;
import dev.kedge.bandit.v1.LogEpisodeRequest;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.OutcomeResult;
import dev.kedge.bandit.v1.OutcomeStatus;
import dev.kedge.bandit.v1.RecordOutcomesRequest;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/** Sends a batch of facts once: what the two queues do with what waits in them. */
final class Deliveries {
    private static final int MAX_OUTCOME_BYTES = 8192;
    private static final int MAX_ENTRY_BYTES = 1 << 20;
    /** Reasons with which a server puts one entry off, and not the others. */
    private static final Set<String> PUT_OFF = Set.of("QUEUE_FULL", "QUOTA_EXHAUSTED");

    private final String parent;
    private final Wire wire;
    private final Wire.Terms terms;

    /** Takes {@code tenants/{tenant}} and the deadline of one call. */
    Deliveries(String parent, Wire wire, Duration deadline) {
        this.parent = parent;
        this.wire = wire;
        terms = new Wire.Terms(deadline, true);
    }

    /** Records outcomes. */
    List<OutcomeResult> outcomes(List<Outcome> some) {
        var request = RecordOutcomesRequest.newBuilder().setParent(parent).addAllOutcomes(some).build();
        return wire.call(FeedbackServiceGrpc.getRecordOutcomesMethod(), request, terms).getResultsList();
    }

    /** Logs episodes, all at once; throws the first failure that says nothing about its own entry. */
    List<OutcomeResult> episodes(List<LogEpisodeRequest> some) {
        List<CompletableFuture<OutcomeResult>> results = some.stream()
                .map(entry -> wire.callAsync(EpisodeServiceGrpc.getLogEpisodeMethod(), entry, terms)
                        .thenApply(answer -> result(
                                answer.getDuplicate()
                                        ? OutcomeStatus.OUTCOME_STATUS_DUPLICATE
                                        : OutcomeStatus.OUTCOME_STATUS_RECORDED, ""))
                        .exceptionally(Deliveries::refused))
                .toList();
        try {
            return results.stream().map(CompletableFuture::join).toList();
        } catch (CompletionException failed) {
            throw CallFailed.of(failed.getCause());
        }
    }

    static void check(Outcome outcome) {
        Question.checkedId("idempotencyKey", outcome.getIdempotencyKey());
        if (outcome.getTargetCase() == Outcome.TargetCase.TARGET_NOT_SET
                || outcome.getObservationCase() == Outcome.ObservationCase.OBSERVATION_NOT_SET) {
            throw new IllegalArgumentException("an outcome needs a target and a value or ABSENT; make it with Kedge.about");
        }
        if (outcome.getSerializedSize() > MAX_OUTCOME_BYTES) {
            throw new IllegalArgumentException("an outcome is at most " + MAX_OUTCOME_BYTES + " bytes");
        }
    }

    static void check(LogEpisodeRequest entry) {
        Question.checkedId("requestId", entry.getRequestId());
        Question.checkedId("episodeId", entry.getEpisodeId());
        if (entry.getSerializedSize() > MAX_ENTRY_BYTES) {
            throw new IllegalArgumentException("a log entry is at most " + MAX_ENTRY_BYTES + " bytes");
        }
    }

    private static OutcomeResult refused(Throwable thrown) {
        CallFailed failed = CallFailed.of(thrown instanceof CompletionException ? thrown.getCause() : thrown);
        if (failed.isTransient() && !PUT_OFF.contains(failed.reason())) {
            throw failed;
        }
        boolean isConflict = failed.reason().equals("IDEMPOTENCY_CONFLICT");
        var status = isConflict ? OutcomeStatus.OUTCOME_STATUS_CONFLICT : OutcomeStatus.OUTCOME_STATUS_REJECTED;
        return result(status, failed.reason()).toBuilder().setDetail(failed.getMessage()).build();
    }

    private static OutcomeResult result(OutcomeStatus status, String reason) {
        var result = OutcomeResult.newBuilder().setStatus(status);
        for (ErrorReason known : ErrorReason.values()) {
            if (known.name().equals("ERROR_REASON_" + reason)) {
                result.setErrorReason(known);
            }
        }
        return result.build();
    }
}
