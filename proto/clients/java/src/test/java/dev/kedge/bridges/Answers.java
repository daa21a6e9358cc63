package dev.kedge.bridges;

import dev.kedge.bandit.v1.AnswerRequest;
import dev.kedge.bandit.v1.AnswerResponse;
import dev.kedge.bandit.v1.AnswerServiceGrpc;
import dev.kedge.bandit.v1.Arm;
import dev.kedge.bandit.v1.Dimension;
import dev.kedge.bandit.v1.GuardrailEvent;
import dev.kedge.bandit.v1.GuardrailKind;
import dev.kedge.platform.Answerer;
import dev.kedge.platform.GuardrailService;
import io.grpc.stub.StreamObserver;

/** Answers one holdout case with one action, so that the gate can compare; nothing it does has an effect. */
public final class Answers extends AnswerServiceGrpc.AnswerServiceImplBase {
    private final Answerer platform;
    private final GuardrailService guardrails;

    public Answers(Answerer platform, GuardrailService guardrails) {
        this.platform = platform;
        this.guardrails = guardrails;
    }

    @Override
    public void answer(AnswerRequest request, StreamObserver<AnswerResponse> to) {
        String question = request.getMessages(request.getMessagesCount() - 1).getText();
        var answered = platform.answer(
                content(request, Dimension.DIMENSION_MODEL_ROUTE),
                content(request, Dimension.DIMENSION_REASONING_DEPTH),
                content(request, Dimension.DIMENSION_PROMPT_VARIANT),
                question);
        var response = AnswerResponse.newBuilder()
                .setOutput(answered.text())
                .setModelId(answered.call().modelId())
                .setCostUsd(answered.call().costUsd() == null ? 0.0 : answered.call().costUsd())
                .setLatencyMs(answered.call().latencyMs() == null ? 0.0 : answered.call().latencyMs());
        for (GuardrailService.Verdict verdict : guardrails.check(answered.text())) {
            response.addGuardrailEvents(GuardrailEvent.newBuilder()
                    .setKind(GuardrailKind.valueOf("GUARDRAIL_KIND_" + verdict.kind()))
                    .setTripped(verdict.tripped()));
        }
        to.onNext(response.build());
        to.onCompleted();
    }

    private static String content(AnswerRequest request, Dimension dimension) {
        return request.getArmsList().stream()
                .filter(arm -> arm.getDimension() == dimension)
                .map(Arm::getContent)
                .findFirst()
                .orElse("");
    }
}
