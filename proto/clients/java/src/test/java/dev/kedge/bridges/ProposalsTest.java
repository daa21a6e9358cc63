package dev.kedge.bridges;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.GateVerdict;
import dev.kedge.bandit.v1.GetProposalRequest;
import dev.kedge.bandit.v1.Proposal;
import dev.kedge.bandit.v1.ProposalServiceGrpc;
import dev.kedge.client.Kedge;
import dev.kedge.client.Sidecar;
import dev.kedge.platform.Answerer;
import dev.kedge.platform.EvalRunner;
import dev.kedge.platform.GuardrailService;
import dev.kedge.platform.HumanApprovalGate;
import dev.kedge.platform.LlmCallLog;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The bridges to proposals against the real service and its gate, each under the credential that it is for. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class ProposalsTest {
    private static final int CASES = 300;
    private static final int ADVERSARIAL = 100;
    private static final GuardrailService CLEAN =
            text -> List.of(new GuardrailService.Verdict(GuardrailService.Kind.PII, false));

    private final List<Kedge> opened = new ArrayList<>();
    private final List<String> shown = new ArrayList<>();

    @AfterEach
    void close() {
        opened.forEach(Kedge::close);
    }

    @Test
    void whatThePlatformsHarnessScoredPassesTheGateAndAPersonsTokenHasItServed() {
        String name = reported("as-good", 1.0);
        assertEquals("STATE_AWAITING_APPROVAL", Sidecar.say("gate/" + name));
        Proposal judged = read(name);
        assertEquals(GateVerdict.GATE_VERDICT_PASS, judged.getGateResult().getVerdict());
        assertEquals("REPORTED", judged.getGateResult().getAnswererKind());
        Proposal after = new Approvals(program("VIEWER"), asked(true, "reads well", approver())).ask(name);
        assertEquals(Proposal.State.STATE_SERVING, after.getState());
        assertEquals(List.of("Answer as as-good would."), shown);
        assertEquals("reads well", read(name).getSteps(read(name).getStepsCount() - 1).getBecause());
    }

    @Test
    void aProgramsKeyApprovesNothingAndAPersonRejects() {
        String name = reported("too-long", 1.0);
        assertEquals("STATE_AWAITING_APPROVAL", Sidecar.say("gate/" + name));
        Kedge reading = program("VIEWER");
        for (String role : List.of("CORE_APP", "EVALUATOR", "APPROVER")) {
            String key = Sidecar.say("program/ROLE_" + role);
            Approvals byProgram = new Approvals(reading, asked(true, "looks fine", key));
            var refused = assertThrows(StatusRuntimeException.class, () -> byProgram.ask(name));
            assertEquals(Status.Code.PERMISSION_DENIED, refused.getStatus().getCode(), role);
        }
        assertEquals(Proposal.State.STATE_AWAITING_APPROVAL, read(name).getState());
        Proposal after = new Approvals(reading, asked(false, "too long", approver())).ask(name);
        assertEquals(Proposal.State.STATE_REJECTED, after.getState());
    }

    @Test
    void whatThePlatformsHarnessScoredWorseFailsTheGate() {
        String name = reported("worse", 0.5);
        assertEquals("STATE_GATE_FAILED", Sidecar.say("gate/" + name));
        assertEquals(GateVerdict.GATE_VERDICT_FAIL, read(name).getGateResult().getVerdict());
    }

    @Test
    void theGateAsksTheApplicationItsCasesWithTheArmsOfBothSides() throws IOException, InterruptedException {
        var asked = new AtomicInteger();
        Set<String> prompts = ConcurrentHashMap.newKeySet();
        Answerer platform = (model, depth, prompt, question) -> {
            asked.incrementAndGet();
            prompts.add(prompt);
            return new Answerer.Answered("right", new LlmCallLog(model, 10, 5, 0.001, 20.0));
        };
        Server server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                .addService(new Answers(platform, CLEAN)).build().start();
        try {
            assertEquals("0", Sidecar.say("answerer/" + server.getPort()));
            String name = Sidecar.say("propose/answered/brief");
            assertEquals("STATE_AWAITING_APPROVAL", Sidecar.say("gate/" + name));
            var verdict = read(name).getGateResult();
            assertEquals("CORE_APP", verdict.getAnswererKind());
            assertEquals(Set.of("Answer plainly.", "Answer as brief would."), prompts);
            assertTrue(asked.get() >= 2 * verdict.getCases(), "each case is answered by both sides: " + asked);
        } finally {
            server.shutdownNow().awaitTermination();
        }
    }

    /** A proposal whose cases the platform's harness has scored and reported. */
    private String reported(String arm, double candidate) {
        String name = Sidecar.say("propose/reported/" + arm);
        EvalRunner runner = content -> {
            var results = new ArrayList<EvalRunner.CaseResult>();
            for (int i = 0; i < CASES; i++) {
                results.add(new EvalRunner.CaseResult("c-" + i, i % 2 == 0 ? 1.0 : candidate, 1.0, false, i < ADVERSARIAL));
            }
            return results;
        };
        new Evaluation(program("EVALUATOR"), runner).report(name);
        return name;
    }

    /** The platform's gate, which keeps what the person was shown. */
    private HumanApprovalGate asked(boolean isGranted, String because, String token) {
        return (subject, details) -> {
            shown.add(details);
            return new HumanApprovalGate.Verdict(isGranted, because, token);
        };
    }

    private static String approver() {
        return Sidecar.say("person/bob/ROLE_APPROVER");
    }

    /** What a third person sees of it. */
    private Proposal read(String name) {
        var stub = ProposalServiceGrpc.newBlockingStub(opened(Sidecar.say("person/carol/ROLE_APPROVER")).channel());
        return stub.getProposal(GetProposalRequest.newBuilder().setName(name).build()).getProposal();
    }

    private Kedge program(String role) {
        return opened(Sidecar.say("program/ROLE_" + role));
    }

    private Kedge opened(String keyOrToken) {
        Kedge kedge = Kedge.to(Sidecar.env("ADDRESS")).tenant(Sidecar.TENANT).key(keyOrToken).build();
        opened.add(kedge);
        assertTrue(kedge.ready(Sidecar.GENEROUS));
        return kedge;
    }
}
