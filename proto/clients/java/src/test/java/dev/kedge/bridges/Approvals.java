package dev.kedge.bridges;

import dev.kedge.bandit.v1.ApproveProposalRequest;
import dev.kedge.bandit.v1.GetProposalRequest;
import dev.kedge.bandit.v1.Proposal;
import dev.kedge.bandit.v1.ProposalServiceGrpc;
import dev.kedge.bandit.v1.RejectProposalRequest;
import dev.kedge.client.Kedge;
import dev.kedge.platform.HumanApprovalGate;

/** Shows a proposal to a person and passes on what they say, under the person's own token: a program cannot approve. */
public final class Approvals {
    private final Kedge kedge;
    private final HumanApprovalGate gate;

    /** @param kedge with a key that may read proposals, of the role VIEWER; one of CORE_APP may not */
    public Approvals(Kedge kedge, HumanApprovalGate gate) {
        this.kedge = kedge;
        this.gate = gate;
    }

    /** Asks about {@code tenants/{tenant}/proposals/{proposal}}; answers the proposal as it stands afterwards. */
    public Proposal ask(String name) {
        var reading = ProposalServiceGrpc.newBlockingStub(kedge.channel());
        Proposal proposal = reading.getProposal(GetProposalRequest.newBuilder().setName(name).build()).getProposal();
        var verdict = gate.ask(name, proposal.getCandidate());
        var person = ProposalServiceGrpc.newBlockingStub(kedge.channel(verdict.personToken()));
        // The hash binds the consent to what the person was shown; if anything has changed, it is void.
        String requestId = "consent-" + proposal.getBindingHash();
        if (verdict.granted()) {
            var approval = ApproveProposalRequest.newBuilder()
                    .setName(name)
                    .setBindingHash(proposal.getBindingHash())
                    .setBecause(verdict.because())
                    .setRequestId(requestId);
            return person.approveProposal(approval.build()).getProposal();
        }
        var rejection =
                RejectProposalRequest.newBuilder().setName(name).setBecause(verdict.because()).setRequestId(requestId);
        return person.rejectProposal(rejection.build()).getProposal();
    }
}
