package dev.kedge.bridges;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.kedge.bandit.v1.ApproveProposalRequest;
import dev.kedge.bandit.v1.ApproveProposalResponse;
import dev.kedge.bandit.v1.GetProposalRequest;
import dev.kedge.bandit.v1.GetProposalResponse;
import dev.kedge.bandit.v1.Proposal;
import dev.kedge.bandit.v1.ProposalServiceGrpc;
import dev.kedge.bandit.v1.RejectProposalRequest;
import dev.kedge.bandit.v1.RejectProposalResponse;
import dev.kedge.bandit.v1.ReportEvaluationRequest;
import dev.kedge.bandit.v1.ReportEvaluationResponse;
import dev.kedge.client.Kedge;
import dev.kedge.platform.EvalRunner;
import dev.kedge.platform.HumanApprovalGate;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The bridges to proposals against a stand-in of the service that keeps what it is told, and by whom. */
class ProposalsTest {
    private static final String NAME = "tenants/acme/proposals/p-1";

    private final List<Object> told = new ArrayList<>();
    private final List<String> tokens = new ArrayList<>();
    private Server server;
    private Kedge kedge;

    @BeforeEach
    void start() throws IOException {
        server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new StandIn())
                .intercept(new Tokens())
                .build()
                .start();
        kedge = Kedge.to("127.0.0.1:" + server.getPort()).tenant("acme").key("program").build();
    }

    @AfterEach
    void stop() {
        kedge.close();
        server.shutdownNow();
    }

    @Test
    void aPersonApprovesWhatTheyWereShownUnderTheirOwnToken() {
        HumanApprovalGate gate = (subject, details) ->
                new HumanApprovalGate.Verdict(details.equals("the candidate"), "reads well", "person");
        Proposal after = new Approvals(kedge, gate).ask(NAME);
        var approval = (ApproveProposalRequest) told.get(0);
        assertEquals(Proposal.State.STATE_APPROVED, after.getState());
        assertEquals("b".repeat(64), approval.getBindingHash());
        assertEquals("reads well", approval.getBecause());
        assertEquals(List.of("Bearer program", "Bearer person"), tokens);
    }

    @Test
    void aPersonRejects() {
        Proposal after = new Approvals(kedge, (subject, details) ->
                new HumanApprovalGate.Verdict(false, "too long", "person")).ask(NAME);
        assertEquals(Proposal.State.STATE_REJECTED, after.getState());
        assertEquals("too long", ((RejectProposalRequest) told.get(0)).getBecause());
        assertEquals("Bearer person", tokens.get(1));
    }

    @Test
    void theScoresOfThePlatformsHarnessAreReportedCaseByCase() {
        EvalRunner runner = candidate -> List.of(
                new EvalRunner.CaseResult("c-1", 0.9, 0.5, false), new EvalRunner.CaseResult("c-2", 0.0, 1.0, true));
        new Evaluation(kedge, runner).report(NAME);
        var report = (ReportEvaluationRequest) told.get(0);
        assertEquals(2, report.getScoresCount());
        assertEquals(0.9, report.getScores(0).getCandidateScore());
        assertEquals(true, report.getScores(1).getCandidateVetoed());
        assertEquals(List.of("Bearer program", "Bearer program"), tokens);
    }

    /** Answers with one proposal. */
    private final class StandIn extends ProposalServiceGrpc.ProposalServiceImplBase {
        private final Proposal proposal = Proposal.newBuilder()
                .setName(NAME)
                .setCandidate("the candidate")
                .setCandidateHash("c".repeat(64))
                .setBindingHash("b".repeat(64))
                .setState(Proposal.State.STATE_AWAITING_APPROVAL)
                .build();

        @Override
        public void getProposal(GetProposalRequest request, StreamObserver<GetProposalResponse> to) {
            answer(to, GetProposalResponse.newBuilder().setProposal(proposal).build());
        }

        @Override
        public void approveProposal(ApproveProposalRequest request, StreamObserver<ApproveProposalResponse> to) {
            told.add(request);
            answer(to, ApproveProposalResponse.newBuilder().setProposal(now(Proposal.State.STATE_APPROVED)).build());
        }

        @Override
        public void rejectProposal(RejectProposalRequest request, StreamObserver<RejectProposalResponse> to) {
            told.add(request);
            answer(to, RejectProposalResponse.newBuilder().setProposal(now(Proposal.State.STATE_REJECTED)).build());
        }

        @Override
        public void reportEvaluation(ReportEvaluationRequest request, StreamObserver<ReportEvaluationResponse> to) {
            told.add(request);
            answer(to, ReportEvaluationResponse.newBuilder().setProposal(proposal).build());
        }

        private Proposal now(Proposal.State state) {
            return proposal.toBuilder().setState(state).build();
        }

        private <A> void answer(StreamObserver<A> to, A message) {
            to.onNext(message);
            to.onCompleted();
        }
    }

    /** Keeps under which token each call came. */
    private final class Tokens implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            tokens.add(headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER)));
            return next.startCall(call, headers);
        }
    }
}
