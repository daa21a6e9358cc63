package dev.kedge.client;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.ActivateRequest;
import dev.kedge.bandit.v1.ActivateResponse;
import dev.kedge.bandit.v1.BestActionRequest;
import dev.kedge.bandit.v1.BestActionResponse;
import dev.kedge.bandit.v1.CancelRequest;
import dev.kedge.bandit.v1.CancelResponse;
import dev.kedge.bandit.v1.DecideRequest;
import dev.kedge.bandit.v1.DecideResponse;
import dev.kedge.bandit.v1.DecisionReason;
import dev.kedge.bandit.v1.ErrorReason;
import dev.kedge.bandit.v1.GetArmRequest;
import dev.kedge.bandit.v1.GetArmResponse;
import dev.kedge.bandit.v1.LogEpisodeRequest;
import dev.kedge.bandit.v1.LogEpisodeResponse;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.OutcomeResult;
import dev.kedge.bandit.v1.OutcomeStatus;
import dev.kedge.bandit.v1.RecordOutcomesRequest;
import dev.kedge.bandit.v1.RecordOutcomesResponse;
import dev.kedge.bandit.v1.SettleEpisodeRequest;
import dev.kedge.bandit.v1.SettleEpisodeResponse;
import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Answers every call from memory and keeps what was said. */
final class FixedWire implements Wire, Said {
    private final Baseline action;
    private final List<DecideRequest> decisions = new ArrayList<>();
    private final Map<String, LogEpisodeRequest> episodes = new LinkedHashMap<>();
    private final Map<String, Outcome> outcomes = new LinkedHashMap<>();
    private final List<SettleEpisodeRequest> settled = new ArrayList<>();
    private final List<ActivateRequest> activated = new ArrayList<>();
    private final List<CancelRequest> cancelled = new ArrayList<>();
    private CallFailed failure;

    FixedWire(Baseline action) {
        this.action = action;
    }

    @Override
    public synchronized void fail(CallFailed with) {
        failure = with;
    }

    @Override
    public synchronized List<DecideRequest> decisions() {
        return List.copyOf(decisions);
    }

    @Override
    public synchronized List<LogEpisodeRequest> episodes() {
        return List.copyOf(episodes.values());
    }

    @Override
    public synchronized List<Outcome> outcomes() {
        return List.copyOf(outcomes.values());
    }

    @Override
    public synchronized List<SettleEpisodeRequest> settled() {
        return List.copyOf(settled);
    }

    @Override
    public synchronized List<ActivateRequest> activated() {
        return List.copyOf(activated);
    }

    @Override
    public synchronized List<CancelRequest> cancelled() {
        return List.copyOf(cancelled);
    }

    @Override
    @SuppressWarnings("unchecked") // Each method's answer has the type that its descriptor names.
    public synchronized <Q, A> A call(MethodDescriptor<Q, A> method, Q request, Terms terms) {
        if (failure != null) {
            throw failure;
        }
        return (A) answer(request);
    }

    @Override
    public <Q, A> CompletableFuture<A> callAsync(MethodDescriptor<Q, A> method, Q request, Terms terms) {
        try {
            return CompletableFuture.completedFuture(call(method, request, terms));
        } catch (CallFailed failed) {
            return CompletableFuture.failedFuture(failed);
        }
    }

    @Override
    public <Q, A> Runnable stream(MethodDescriptor<Q, A> method, Q request, StreamObserver<A> hearer) {
        hearer.onError(unimplemented(method.getFullMethodName()));
        return () -> {};
    }

    @Override
    public <Q, A> StreamObserver<Q> converse(MethodDescriptor<Q, A> method, StreamObserver<A> hearer) {
        throw unimplemented(method.getFullMethodName());
    }

    @Override
    public Channel channel(String key) {
        throw unimplemented("the generated stubs");
    }

    @Override
    public synchronized boolean ready(Duration timeout) {
        return failure == null;
    }

    @Override
    public void close() {
        // Nothing is open.
    }

    private Object answer(Object request) {
        if (request instanceof DecideRequest asked) {
            decisions.add(asked);
            return decided(asked.getPolicy(), asked.getEpisodeId(), DecisionReason.DECISION_REASON_PINNED);
        }
        if (request instanceof BestActionRequest asked) {
            var decision =
                    decided(asked.getPolicy(), asked.getEpisodeId(), DecisionReason.DECISION_REASON_BEST_ACTION);
            return BestActionResponse.newBuilder().setDecision(decision).setMean(0.5).build();
        }
        if (request instanceof LogEpisodeRequest entry) {
            boolean isKnown = episodes.putIfAbsent(entry.getRequestId(), entry) != null;
            return LogEpisodeResponse.newBuilder().setDuplicate(isKnown).build();
        }
        if (request instanceof RecordOutcomesRequest batch) {
            var results = batch.getOutcomesList().stream().map(this::recorded).toList();
            return RecordOutcomesResponse.newBuilder().addAllResults(results).build();
        }
        if (request instanceof SettleEpisodeRequest word) {
            settled.add(word);
            return SettleEpisodeResponse.getDefaultInstance();
        }
        if (request instanceof ActivateRequest word) {
            activated.add(word);
            return ActivateResponse.getDefaultInstance();
        }
        if (request instanceof CancelRequest word) {
            cancelled.add(word);
            return CancelResponse.getDefaultInstance();
        }
        if (request instanceof GetArmRequest asked) {
            return arm(asked.getContentHash());
        }
        throw unimplemented(request.getClass().getSimpleName());
    }

    private DecideResponse decided(String policy, String episode, DecisionReason reason) {
        return DecideResponse.newBuilder()
                .setDecision(policy.substring(0, policy.indexOf("/policies/")) + "/decisions/" + episode)
                .setAction(action.action().message())
                .setActionKey(action.key())
                .setPropensity(1.0)
                .setReason(reason)
                .setDecisionToken(ByteString.copyFromUtf8("fixed." + episode))
                .build();
    }

    private OutcomeResult recorded(Outcome outcome) {
        Outcome before = outcomes.putIfAbsent(outcome.getIdempotencyKey(), outcome);
        if (before == null) {
            return OutcomeResult.newBuilder().setStatus(OutcomeStatus.OUTCOME_STATUS_RECORDED).build();
        }
        if (before.equals(outcome)) {
            return OutcomeResult.newBuilder().setStatus(OutcomeStatus.OUTCOME_STATUS_DUPLICATE).build();
        }
        return OutcomeResult.newBuilder()
                .setStatus(OutcomeStatus.OUTCOME_STATUS_CONFLICT)
                .setErrorReason(ErrorReason.ERROR_REASON_IDEMPOTENCY_CONFLICT)
                .build();
    }

    private GetArmResponse arm(String hash) {
        Arm arm = action.arms().stream()
                .filter(each -> each.ref().contentHash().equals(hash))
                .findFirst()
                .orElseThrow(() -> new CallFailed("NOT_FOUND", "ARM_NOT_FOUND", hash));
        return GetArmResponse.newBuilder()
                .setArm(dev.kedge.bandit.v1.Arm.newBuilder()
                        .setName(arm.name())
                        .setContent(arm.content())
                        .setContentHash(hash)
                        .addAllTemplateVariables(arm.templateVariables()))
                .build();
    }

    private static CallFailed unimplemented(String what) {
        return new CallFailed("UNIMPLEMENTED", "UNIMPLEMENTED", "the fake has no " + what);
    }
}
