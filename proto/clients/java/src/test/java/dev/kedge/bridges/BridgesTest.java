package dev.kedge.bridges;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.AbsentReason;
import dev.kedge.bandit.v1.AnswerRequest;
import dev.kedge.bandit.v1.AnswerResponse;
import dev.kedge.bandit.v1.Arm;
import dev.kedge.bandit.v1.ContentMessage;
import dev.kedge.bandit.v1.Dimension;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.Trajectory;
import dev.kedge.bandit.v1.VerifierVerdict;
import dev.kedge.client.Baseline;
import dev.kedge.client.Choice;
import dev.kedge.client.FixedKedge;
import dev.kedge.client.Kedge;
import dev.kedge.client.Question;
import dev.kedge.platform.Answerer;
import dev.kedge.platform.GuardrailService;
import dev.kedge.platform.LlmCallLog;
import dev.kedge.platform.LlmQualityJudge;
import dev.kedge.platform.ToolCallLog;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.client.ChatClientResponse;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import reactor.core.publisher.Flux;

/** Each bridge with a fixed client; those that need the server have tests of their own. */
class BridgesTest {
    private static final Baseline SERVED = new Baseline()
            .modelRoute("large", "provider/large-2026-01")
            .reasoningDepth("vote", "samples=5")
            .promptVariant("step-by-step", "Think step by step, then answer: {question}");
    private static final GuardrailService CLEAN =
            text -> List.of(new GuardrailService.Verdict(GuardrailService.Kind.PII, false));

    private final FixedKedge kedge = Kedge.fixed(SERVED);
    private final KedgeAdvisor advisor = new KedgeAdvisor(kedge, BridgesTest::question, this::serve);

    @AfterEach
    void close() {
        kedge.close();
    }

    @Test
    void theAdvisorServesTheChoiceAndOneDecisionCoversTheWholeToolLoop() {
        var seen = new ArrayList<String>();
        var chain = new Chain(List.of(new GuardrailAdvisor(CLEAN), new Chain.ToolLoop(3), advisor), request -> {
            seen.add(request.prompt().getOptions().getModel() + ": " + request.prompt().getContents());
            ((Turn) request.context().get(Turn.KEY)).add(new LlmCallLog("large", 10, 5, 0.001, 250.0));
            return "42";
        });
        assertEquals("42", chain.nextCall(request("What is 6 times 7?")).chatResponse().text());
        assertEquals(3, seen.size());
        assertTrue(seen.get(0).startsWith("provider/large-2026-01: Think step by step, then answer: What is"), seen.get(0));
        assertEquals(1, kedge.said().decisions().size());
        Trajectory logged = logged();
        assertEquals(3, logged.getLlmCallsCount());
        assertEquals(3, logged.getGuardrailEventsCount());
        assertTrue(logged.getTerminated());
    }

    @Test
    void theAdvisorLogsAStreamWhenItHasEnded() {
        var heard = new ArrayList<String>();
        Flux<ChatClientResponse> stream = advisor.adviseStream(request("Why?"), request -> Flux.fromIterable(List.of(
                new ChatClientResponse(new ChatResponse("be"), Map.of()),
                new ChatClientResponse(new ChatResponse("cause"), Map.of()))));
        assertEquals(0, kedge.said().decisions().size(), "nothing is decided before somebody listens");
        stream.subscribe(part -> heard.add(part.chatResponse().text()));
        assertEquals(List.of("be", "cause"), heard);
        assertTrue(logged().getTerminated());
    }

    @Test
    void aStreamThatBreaksIsLoggedAsCutOff() {
        var stream = advisor.adviseStream(request("Why?"), request -> Flux.error(new IllegalStateException("provider")));
        assertThrows(IllegalStateException.class, () -> stream.subscribe(part -> {}));
        assertTrue(logged().getTruncated());
    }

    @Test
    void aTrippedGuardrailBlocksTheTurnAndIsLogged() {
        GuardrailService leaks = text -> List.of(new GuardrailService.Verdict(GuardrailService.Kind.PII, true));
        var chain = new Chain(List.of(advisor, new Chain.ToolLoop(3), new GuardrailAdvisor(leaks)), request -> "a name");
        assertThrows(Blocked.class, () -> chain.nextCall(request("Who?")));
        assertTrue(logged().getGuardrailEvents(0).getTripped());
        assertTrue(logged().getTerminated());
    }

    @Test
    void theRouterPicksTheClientOfTheModelRouteAndTheBaselinesForAnother() {
        ChatClient large = new ChatClient() {};
        ChatClient small = new ChatClient() {};
        Choice choice = kedge.decide(Question.of("support", "turn-7"));
        assertSame(large, new ModelRouter(Map.of("large", large), small).client(choice));
        assertSame(small, new ModelRouter(Map.of(), small).client(choice));
    }

    @Test
    void depthAndPromptAreReadByTheirHash() {
        Choice choice = kedge.decide(Question.of("support", "turn-7"));
        assertEquals(5, new Depths(kedge).depth(choice).samples());
        assertEquals("Think step by step, then answer: why?",
                new Prompts(kedge).version(choice).filled(Map.of("question", "why?")));
    }

    @Test
    void callLogsBecomeTheFactsOfTheEpisode() {
        Turn turn = new Turn(kedge.decide(Question.of("support", "turn-7")));
        turn.add(new LlmCallLog("large", 31, 8, null, null));
        turn.add(new ToolCallLog("search", false, 12.0), call -> false);
        turn.approval("refund", false);
        Trajectory facts = turn.ended(false);
        assertTrue(!facts.getLlmCalls(0).hasCostUsd() && !facts.getLlmCalls(0).hasLatencyMs());
        assertEquals(VerifierVerdict.VERIFIER_VERDICT_FAILED, facts.getToolCalls(0).getVerifierVerdict());
        assertEquals("refund", facts.getApprovals(0).getSubject());
    }

    @Test
    void theJudgeIsAskedOnRequestOnlyAndALateOneIsAbsent() {
        Choice plain = kedge.decide(Question.of("support", "turn-7"));
        Choice drawn = new Choice(
                plain.policy(), plain.episodeId(), plain.action(), plain.actionKey(), 1.0, false, true, plain.token(),
                plain.decision(), plain.reason(), false, "", plain.mean());
        new Judging(kedge, judge(0.8)).judge(plain, "q", "a");
        new Judging(kedge, judge(0.8)).judge(drawn, "q", "a");
        new Judging(kedge, judge(Double.NaN)).judge(drawn, "q", "a");
        assertTrue(kedge.outcomes().flush(Duration.ofSeconds(30)));
        List<Outcome> said = kedge.said().outcomes();
        assertEquals(2, said.size());
        assertEquals("m-3 rubric-2", said.get(0).getJudgeVersion());
        assertEquals(AbsentReason.ABSENT_REASON_TIMEOUT, said.get(1).getAbsent());
    }

    @Test
    void aCaseOfTheHoldoutIsAnsweredWithTheArmsThatItBrings() {
        var answers = new ArrayList<AnswerResponse>();
        var asked = AnswerRequest.newBuilder()
                .addMessages(ContentMessage.newBuilder().setRole("user").setText("why?"))
                .addArms(Arm.newBuilder().setDimension(Dimension.DIMENSION_MODEL_ROUTE).setContent("candidate-model"));
        new Answers((model, depth, prompt, question) ->
                        new Answerer.Answered(model + " says: " + question, new LlmCallLog(model, 1, 1, 0.5, null)), CLEAN)
                .answer(asked.build(), new StreamObserver<>() {
                    @Override
                    public void onNext(AnswerResponse answer) {
                        answers.add(answer);
                    }

                    @Override
                    public void onError(Throwable thrown) {}

                    @Override
                    public void onCompleted() {}
                });
        assertEquals("candidate-model says: why?", answers.get(0).getOutput());
        assertEquals(0.5, answers.get(0).getCostUsd());
        assertEquals(1, answers.get(0).getGuardrailEventsCount());
    }

    @Test
    void eachTenantHasTheClientOfItsOwnCredential() {
        var tenant = new ArrayList<>(List.of("acme"));
        var made = new ArrayList<String>();
        try (var kedges = new TenantKedges(() -> tenant.get(0), name -> {
            made.add(name);
            return Kedge.fixed(SERVED);
        })) {
            Kedge acme = kedges.current();
            assertSame(acme, kedges.current());
            tenant.set(0, "globex");
            assertTrue(acme != kedges.current());
            assertEquals(List.of("acme", "globex"), made);
        }
    }

    private static Question question(ChatClientRequest request) {
        return Question.of("support", "turn-" + System.nanoTime())
                .number("words", request.prompt().getContents().split(" ").length);
    }

    private ChatClientRequest serve(ChatClientRequest request, Choice choice) {
        String model = kedge.arm(choice.action().modelRoute().contentHash()).content();
        String system = new Prompts(kedge).version(choice).filled(Map.of("question", ""));
        Prompt prompt = request.prompt().augmentSystemMessage(system).mutate()
                .chatOptions(ChatOptions.builder().model(model).build())
                .build();
        return request.mutate().prompt(prompt).build();
    }

    private static ChatClientRequest request(String text) {
        return new ChatClientRequest(new Prompt(text, ChatOptions.builder().model("default").build()), Map.of());
    }

    private Trajectory logged() {
        assertTrue(kedge.episodes().flush(Duration.ofSeconds(30)));
        return kedge.said().episodes().get(0).getTrajectory();
    }

    private static LlmQualityJudge judge(double score) {
        return new LlmQualityJudge() {
            @Override
            public String version() {
                return "m-3 rubric-2";
            }

            @Override
            public double score(String question, String answer) throws TimeoutException {
                if (Double.isNaN(score)) {
                    throw new TimeoutException();
                }
                return score;
            }
        };
    }
}
