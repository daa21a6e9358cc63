package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.EpisodeServiceGrpc;
import dev.kedge.bandit.v1.EpisodeState;
import dev.kedge.bandit.v1.GetEpisodeRequest;
import dev.kedge.bandit.v1.GuardrailEvent;
import dev.kedge.bandit.v1.GuardrailKind;
import dev.kedge.bandit.v1.OutcomeStatus;
import dev.kedge.bandit.v1.StreamEpisodesRequest;
import dev.kedge.bandit.v1.StreamEpisodesResponse;
import dev.kedge.bandit.v1.Trajectory;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The client over the wire against the real server: unary, streams, deadline, identity, a server that is not there. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class ServerTest {
    private static final Trajectory ENDED = Trajectory.newBuilder()
            .addGuardrailEvents(GuardrailEvent.newBuilder().setKind(GuardrailKind.GUARDRAIL_KIND_PII))
            .setTerminated(true)
            .build();

    @Test
    void aTurnIsDecidedLoggedAndSettled() {
        try (Kedge kedge = Sidecar.patient("support").build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            Choice choice = decide(kedge, kedge.newEpisodeId());
            assertFalse(choice.isFallback(), choice::failure);
            var results = kedge.recordOutcomes(List.of(kedge.about(choice.handle()).taskSuccess(1.0)));
            assertEquals(OutcomeStatus.OUTCOME_STATUS_RECORDED, results.get(0).getStatus());
            assertFalse(kedge.logEpisode(choice.handle(), ENDED));
            assertTrue(kedge.logEpisode(choice.handle(), ENDED), "the same entry again is a duplicate");
            settled(kedge, choice);
            Choice again = kedge.decide(Question.of("support", choice.episodeId()).token(choice.token()));
            assertEquals(choice.actionKey(), again.actionKey());
            assertEquals(decide(kedge, "asked-async").actionKey(),
                    kedge.decideAsync(question("asked-async")).join().actionKey());
        }
    }

    @Test
    void theQueuesDeliverOutcomesAndEpisodes() {
        try (Kedge kedge = Sidecar.patient("support").build()) {
            for (int i = 0; i < 50; i++) {
                Choice choice = decide(kedge, "queued-" + i);
                assertTrue(kedge.outcomes().put(kedge.about(choice.handle()).taskSuccess(i % 2)));
                assertTrue(kedge.episodes().put(Kedge.logRequest(choice.handle(), ENDED)));
            }
            assertTrue(kedge.outcomes().flush(Sidecar.GENEROUS));
            assertTrue(kedge.episodes().flush(Sidecar.GENEROUS));
            assertEquals(50, kedge.outcomes().counts().recorded() + kedge.outcomes().counts().duplicates());
            assertEquals(50, kedge.episodes().counts().recorded() + kedge.episodes().counts().duplicates());
        }
    }

    @Test
    void manyEpisodesAreLoggedOverOneStream() throws InterruptedException {
        BlockingQueue<StreamEpisodesResponse> acknowledged = new LinkedBlockingQueue<>();
        try (Kedge kedge = Sidecar.patient("support").build()) {
            StreamObserver<StreamEpisodesRequest> entries = kedge.streamEpisodes(new StreamObserver<>() {
                @Override
                public void onNext(StreamEpisodesResponse response) {
                    acknowledged.add(response);
                }

                @Override
                public void onError(Throwable thrown) {
                    acknowledged.add(StreamEpisodesResponse.newBuilder().setDetail(thrown.toString()).build());
                }

                @Override
                public void onCompleted() {}
            });
            for (int i = 0; i < 20; i++) {
                var entry = Kedge.logRequest(decide(kedge, "streamed-" + i).handle(), ENDED);
                entries.onNext(StreamEpisodesRequest.newBuilder().setEpisode(entry).build());
            }
            entries.onCompleted();
            for (int i = 0; i < 20; i++) {
                StreamEpisodesResponse response = acknowledged.poll(60, TimeUnit.SECONDS);
                assertEquals("", response.getErrorReason() + response.getDetail());
            }
        }
    }

    @Test
    void aDeadlineThatIsTooShortGivesTheBaseline() {
        try (Kedge kedge = Sidecar.client("support").decideDeadline(Duration.ofNanos(1)).build()) {
            Choice choice = decide(kedge, "too-short");
            assertEquals("DEADLINE_EXCEEDED", choice.failure());
            assertEquals("small", choice.modelRoute());
            assertEquals(1.0, choice.propensity());
        }
    }

    @Test
    void aWrongTokenGivesTheBaselineAndSaysWhy() {
        try (Kedge kedge = Sidecar.patient("support").key("kdg_wrong_key").build()) {
            Choice choice = connected(kedge, "wrong-token");
            assertEquals("UNAUTHENTICATED", choice.failure());
            assertEquals(BreakerState.CLOSED, kedge.breaker());
        }
    }

    @Test
    void aBaselineThatDiffersFromTheServersIsReported() {
        int before = Integer.parseInt(Sidecar.say("mismatches"));
        try (Kedge kedge = Sidecar.patient().baseline("support", new Baseline().modelRoute("small", "old-model")).build()) {
            assertFalse(connected(kedge, "other-baseline").isFallback());
        }
        assertTrue(Integer.parseInt(Sidecar.say("mismatches")) > before);
    }

    @Test
    void aCertificateStandsForAKey() throws IOException {
        var credentials = TlsChannelCredentials.newBuilder()
                .trustManager(new File(Sidecar.env("CA")))
                .keyManager(new File(Sidecar.env("CERTIFICATE")), new File(Sidecar.env("CERTIFICATE_KEY")))
                .build();
        try (Kedge kedge = Kedge.to(Sidecar.env("TLS_ADDRESS"))
                .tenant(Sidecar.TENANT).tls(credentials).baseline("support", Sidecar.SMALL)
                .decideDeadline(Sidecar.GENEROUS).build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            Choice choice = decide(kedge, "by-certificate");
            assertFalse(choice.isFallback(), choice::failure);
        }
        var nobody = TlsChannelCredentials.newBuilder().trustManager(new File(Sidecar.env("CA"))).build();
        try (Kedge kedge = Kedge.to(Sidecar.env("TLS_ADDRESS"))
                .tenant(Sidecar.TENANT).tls(nobody).key(Sidecar.env("KEY")).baseline("support", Sidecar.SMALL).build()) {
            assertEquals("UNAVAILABLE", connected(kedge, "without-certificate").failure());
        }
    }

    @Test
    void replicasAreTakenInTurnAndOneThatIsAwayIsLeftOut() {
        try (Kedge kedge = Kedge.to("127.0.0.1:1", Sidecar.env("ADDRESS"))
                .tenant(Sidecar.TENANT).key(Sidecar.env("KEY")).baseline("support", Sidecar.SMALL)
                .decideDeadline(Sidecar.GENEROUS).build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            connected(kedge, "in-turn");
            for (int i = 0; i < 20; i++) {
                Choice choice = decide(kedge, "in-turn-" + i);
                assertFalse(choice.isFallback(), choice::failure);
            }
        }
    }

    @Test
    void aServerThatIsDownCostsNothingAndIsAskedAgainOnceItIsBack() {
        try (Kedge kedge = Sidecar.client("support").build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            Sidecar.say("down");
            for (int i = 0; i < 200; i++) {
                assertTrue(decide(kedge, "down-" + i).isFallback());
            }
            assertTrue(kedge.breaker() != BreakerState.CLOSED);
            Sidecar.say("up");
            Sidecar.waitFor("the server to be asked again", () -> !decide(kedge, kedge.newEpisodeId()).isFallback());
        }
    }

    @Test
    void aServerThatIsFrozenCostsFiveDeadlinesAndThenNothing() {
        try (Kedge kedge = Sidecar.client("support").build()) {
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            Sidecar.waitFor("an answer in time", () -> !decide(kedge, kedge.newEpisodeId()).isFallback());
            Sidecar.say("stop");
            try {
                for (int i = 0; i < CircuitBreaker.FAILURES_TO_OPEN; i++) {
                    assertEquals("DEADLINE_EXCEEDED", decide(kedge, "frozen-" + i).failure());
                }
                for (int i = 0; i < 100; i++) {
                    assertEquals("BREAKER_OPEN", decide(kedge, "frozen-later-" + i).failure());
                }
            } finally {
                Sidecar.say("continue");
            }
            Sidecar.waitFor("the server to be asked again", () -> !decide(kedge, kedge.newEpisodeId()).isFallback());
        }
    }

    private static Question question(String episode) {
        return Question.of("support", episode).category("task", "math");
    }

    private static Choice decide(Kedge kedge, String episode) {
        return kedge.decide(question(episode));
    }

    /** Asks until the short deadline no longer includes the connection. */
    private static Choice connected(Kedge kedge, String episode) {
        kedge.ready(Duration.ofSeconds(2));
        Choice choice = decide(kedge, episode);
        for (int i = 0; i < 20 && choice.failure().equals("DEADLINE_EXCEEDED"); i++) {
            choice = decide(kedge, episode);
        }
        return choice;
    }

    private static void settled(Kedge kedge, Choice choice) {
        var episodes = EpisodeServiceGrpc.newBlockingStub(kedge.channel());
        var request = GetEpisodeRequest.newBuilder().setPolicy(choice.policy()).setEpisodeId(choice.episodeId()).build();
        Sidecar.waitFor("the reward", () -> {
            try {
                return episodes.getEpisode(request).getEpisode().getState() == EpisodeState.EPISODE_STATE_SETTLED;
            } catch (io.grpc.StatusRuntimeException notYet) {
                return false;
            }
        });
        assertEquals(ByteString.EMPTY, kedge.episode("support", choice.episodeId(), ByteString.EMPTY).token());
    }
}
