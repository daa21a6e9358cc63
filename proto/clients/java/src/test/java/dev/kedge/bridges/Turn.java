package dev.kedge.bridges;

import dev.kedge.bandit.v1.Approval;
import dev.kedge.bandit.v1.ApprovalVerdict;
import dev.kedge.bandit.v1.GuardrailEvent;
import dev.kedge.bandit.v1.GuardrailKind;
import dev.kedge.bandit.v1.LlmCall;
import dev.kedge.bandit.v1.ToolCall;
import dev.kedge.bandit.v1.Trajectory;
import dev.kedge.bandit.v1.VerifierVerdict;
import dev.kedge.client.Choice;
import dev.kedge.platform.GuardrailService;
import dev.kedge.platform.LlmCallLog;
import dev.kedge.platform.ToolCallLog;
import dev.kedge.platform.ToolCallVerifier;

/** Collects the facts of one turn, which becomes one log entry. Advisors find it in the request's context. */
public final class Turn {
    /** Key of the turn in the context of a request. */
    public static final String KEY = "kedge.turn";

    private final Choice choice;
    private final Trajectory.Builder facts = Trajectory.newBuilder();

    public Turn(Choice choice) {
        this.choice = choice;
    }

    /** What is served in this turn. */
    public Choice choice() {
        return choice;
    }

    // LlmCallLog and ToolCallLog: what the platform logs anyway becomes part of the episode.
    public synchronized void add(LlmCallLog log) {
        var call = LlmCall.newBuilder()
                .setModelId(log.modelId())
                .setPromptTokens(log.promptTokens())
                .setCompletionTokens(log.completionTokens());
        if (log.costUsd() != null) {
            call.setCostUsd(log.costUsd());
        }
        if (log.latencyMs() != null) {
            call.setLatencyMs(log.latencyMs());
        }
        facts.addLlmCalls(call);
    }

    public synchronized void add(ToolCallLog log, ToolCallVerifier verifier) {
        var verdict = verifier.passes(log)
                ? VerifierVerdict.VERIFIER_VERDICT_PASSED
                : VerifierVerdict.VERIFIER_VERDICT_FAILED;
        facts.addToolCalls(ToolCall.newBuilder()
                .setToolName(log.toolName())
                .setBlocked(log.blocked())
                .setLatencyMs(log.latencyMs())
                .setVerifierVerdict(verdict));
    }

    // Guardrails: clean verdicts count too, since without a safety verdict an episode is not learned from.
    public synchronized void add(GuardrailService.Verdict verdict) {
        var kind = GuardrailKind.valueOf("GUARDRAIL_KIND_" + verdict.kind());
        facts.addGuardrailEvents(GuardrailEvent.newBuilder().setKind(kind).setTripped(verdict.tripped()));
    }

    public synchronized void approval(String subject, boolean granted) {
        var verdict = granted ? ApprovalVerdict.APPROVAL_VERDICT_GRANTED : ApprovalVerdict.APPROVAL_VERDICT_DENIED;
        facts.addApprovals(Approval.newBuilder().setSubject(subject).setVerdict(verdict));
    }

    /** Ends the turn: by its own rules, or cut off. */
    public synchronized Trajectory ended(boolean wasCutOff) {
        return facts.setTerminated(!wasCutOff).setTruncated(wasCutOff).build();
    }
}
