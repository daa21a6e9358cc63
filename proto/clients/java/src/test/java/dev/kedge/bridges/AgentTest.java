package dev.kedge.bridges;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.Episode;
import dev.kedge.bandit.v1.EpisodeServiceGrpc;
import dev.kedge.bandit.v1.EpisodeState;
import dev.kedge.bandit.v1.GetEpisodeRequest;
import dev.kedge.bandit.v1.VetoReason;
import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.client.Question;
import dev.kedge.client.Sidecar;
import dev.kedge.platform.GuardrailService;
import dev.kedge.platform.GuardrailService.Kind;
import dev.kedge.platform.LlmCallLog;
import io.grpc.StatusRuntimeException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;

/** A stand-in for an agent application, with the bridges over the real server. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class AgentTest {
    private static final GuardrailService LARGE_LEAKS =
            text -> List.of(new GuardrailService.Verdict(Kind.PII, text.startsWith("large")));

    @Test
    void anExploredArmWhoseGuardrailTripsIsBlockedAndVetoedAndOneDecisionCoversTheToolLoop() {
        try (Kedge kedge = Sidecar.patient("support").build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            Choice explored = explored(kedge);
            int rounds = 3;
            var calls = new ArrayList<String>();
            var advisor = new KedgeAdvisor(
                    kedge, request -> Question.of("support", explored.episodeId()).token(explored.token()),
                    (request, choice) -> request);
            var chain = new Chain(
                    List.of(advisor, new Chain.ToolLoop(rounds), new GuardrailAdvisor(LARGE_LEAKS)), request -> {
                        Turn turn = (Turn) request.context().get(Turn.KEY);
                        calls.add(turn.choice().decision());
                        turn.add(new LlmCallLog(turn.choice().modelRoute(), 10, 5, 0.001, 250.0));
                        // Two rounds call a tool, the third answers and leaks.
                        return calls.size() < rounds ? "tool" : turn.choice().modelRoute() + " model says a name";
                    });
            assertThrows(Blocked.class, () -> chain.nextCall(request()));
            assertEquals(Collections.nCopies(rounds, explored.decision()), calls);

            Episode episode = settled(kedge, explored);
            assertEquals(EpisodeState.EPISODE_STATE_VETOED, episode.getState());
            assertEquals(List.of(VetoReason.VETO_REASON_GUARDRAIL_PII), episode.getVetoReasonsList());
            assertEquals(0.0, episode.getReward());
            assertEquals(1.0, episode.getWeight());
        }
    }

    @Test
    void theKillSwitchIsReadAsAFlagAndAnUnknownFlagIsTheFallback() {
        var flags = new OfrepFlags(Sidecar.env("WEB"), Sidecar.env("KEY"));
        assertTrue(flags.isEnabled("kedge.policy.support.enabled", false));
        assertTrue(flags.isEnabled("kedge.policy.unknown.enabled", true));
        assertFalse(new OfrepFlags("http://127.0.0.1:1", Sidecar.env("KEY")).isEnabled("kedge.policy.support.enabled", false));
    }

    @Test
    void auditEventsReachThePlatformsLogOnceAndInOrder() throws InterruptedException {
        List<Long> sequences = Collections.synchronizedList(new ArrayList<>());
        List<String> verbs = Collections.synchronizedList(new ArrayList<>());
        try (Kedge kedge = Sidecar.client("support").build()) {
            var audit = new Audit(kedge, (sequence, when, actor, verb, subject, because) -> {
                sequences.add(sequence);
                verbs.add(verb + " " + subject);
            });
            var follower = new Thread(() -> audit.follow(0));
            follower.start();
            Sidecar.say("freeze/frozen");
            Sidecar.waitFor("the freeze in the log", () -> verbs.contains("policy.frozen tenants/java/policies/frozen"));
            Sidecar.say("unfreeze/frozen");
            follower.interrupt();
            follower.join();
        }
        for (int i = 0; i < sequences.size(); i++) {
            assertEquals(i + 1, sequences.get(i));
        }
    }

    private static Choice explored(Kedge kedge) {
        for (int i = 0; ; i++) {
            Choice choice = kedge.decide(Question.of("support", "explored-" + i).category("task", "math"));
            assertFalse(choice.isFallback(), choice::failure);
            if ("large".equals(choice.modelRoute())) {
                return choice;
            }
        }
    }

    private static Episode settled(Kedge kedge, Choice choice) {
        var episodes = EpisodeServiceGrpc.newBlockingStub(kedge.channel());
        var request = GetEpisodeRequest.newBuilder().setPolicy(choice.policy()).setEpisodeId(choice.episodeId()).build();
        var found = new Episode[] {Episode.getDefaultInstance()};
        Sidecar.waitFor("the verdict", () -> {
            try {
                found[0] = episodes.getEpisode(request).getEpisode();
            } catch (StatusRuntimeException notYet) {
                return false;
            }
            return found[0].getState() != EpisodeState.EPISODE_STATE_PENDING;
        });
        return found[0];
    }

    private static ChatClientRequest request() {
        return new ChatClientRequest(new Prompt("Who?", ChatOptions.builder().build()), Map.of());
    }
}
