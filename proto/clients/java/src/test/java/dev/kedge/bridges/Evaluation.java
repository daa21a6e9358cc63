package dev.kedge.bridges;

import dev.kedge.bandit.v1.CaseScore;
import dev.kedge.bandit.v1.GetProposalRequest;
import dev.kedge.bandit.v1.Proposal;
import dev.kedge.bandit.v1.ProposalServiceGrpc;
import dev.kedge.bandit.v1.ReportEvaluationRequest;
import dev.kedge.client.Kedge;
import dev.kedge.platform.EvalRunner;

/** Reports what the platform's own harness scored, case by case, for the gate; under a key with the role EVALUATOR. */
public final class Evaluation {
    private final Kedge kedge;
    private final EvalRunner runner;

    public Evaluation(Kedge kedge, EvalRunner runner) {
        this.kedge = kedge;
        this.runner = runner;
    }

    public Proposal report(String name) {
        var proposals = ProposalServiceGrpc.newBlockingStub(kedge.channel());
        Proposal proposal = proposals.getProposal(GetProposalRequest.newBuilder().setName(name).build()).getProposal();
        var request = ReportEvaluationRequest.newBuilder()
                .setName(name)
                .setRequestId("evaluation-" + proposal.getCandidateHash());
        for (EvalRunner.CaseResult each : runner.run(proposal.getCandidate())) {
            request.addScores(CaseScore.newBuilder()
                    .setCaseId(each.caseId())
                    .setCandidateScore(each.candidate())
                    .setIncumbentScore(each.incumbent())
                    .setCandidateVetoed(each.candidateVetoed())
                    .setAdversarial(each.isAdversarial()));
        }
        return proposals.reportEvaluation(request.build()).getProposal();
    }
}
