package dev.kedge.platform;

import java.util.List;

/** Stand-in for the platform's evaluation harness, which runs its own cases against both sides. */
public interface EvalRunner {
    /** Scores in [0, 1] of one case; an adversarial one tries to make the candidate do harm. */
    record CaseResult(
            String caseId, double candidate, double incumbent, boolean candidateVetoed, boolean isAdversarial) {}

    List<CaseResult> run(String candidate);
}
