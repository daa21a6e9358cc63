package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.Trajectory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class FixedKedgeTest {
    private static final Baseline SMALL = new Baseline().modelRoute("small", "small-model");
    private static final Baseline LARGE = new Baseline().modelRoute("large", "large-model");

    @Test
    void itServesTheSameActionAndKeepsWhatItIsTold() {
        try (FixedKedge kedge = Kedge.fixed(LARGE)) {
            Choice choice = kedge.decide(Question.of("support", "turn-7").category("task", "refund"));
            assertEquals("large", choice.modelRoute());
            assertFalse(choice.isFallback());
            assertFalse(kedge.logEpisode(choice.handle(), Trajectory.newBuilder().setTerminated(true).build()));
            assertTrue(kedge.logEpisode(choice.handle(), Trajectory.newBuilder().setTerminated(true).build()));
            kedge.outcomes().put(kedge.about(choice.handle()).thumb(1));
            kedge.settle(choice.handle());
            assertTrue(kedge.outcomes().flush(Duration.ofSeconds(30)));
            assertEquals("refund", kedge.said().decisions().get(0).getContext().getCategoriesOrThrow("task"));
            assertEquals(1, kedge.said().episodes().size());
            assertEquals(1, kedge.said().outcomes().size());
            assertEquals(choice.token(), kedge.said().outcomes().get(0).getDecisionToken());
            assertEquals("turn-7", kedge.said().settled().get(0).getEpisodeId());
        }
    }

    @Test
    void withTheServerDownTheBaselineIsServedAndTheHandleSaysSo() {
        try (FixedKedge kedge = FixedKedge.serving(Map.of("support", SMALL), LARGE)) {
            kedge.said().fail(new CallFailed("UNAVAILABLE", "", "down"));
            Choice choice = kedge.decide(Question.of("support", "turn-7"));
            assertEquals("small", choice.modelRoute());
            assertEquals("UNAVAILABLE", choice.failure());
            assertEquals(Choice.LOCAL_FALLBACK, choice.reason());
            assertEquals(choice.actionKey(), choice.handle().servedActionKey());
            assertEquals(ByteString.EMPTY, choice.token());
            kedge.said().fail(null);
            assertEquals("large", kedge.decide(Question.of("support", "turn-7")).modelRoute());
        }
    }

    @Test
    void afterFiveFailuresNothingIsAskedAndTheAnswerIsTheBaselineAtOnce() {
        try (FixedKedge kedge = FixedKedge.serving(Map.of("support", SMALL), LARGE)) {
            kedge.said().fail(new CallFailed("DEADLINE_EXCEEDED", "", ""));
            for (int i = 0; i < CircuitBreaker.FAILURES_TO_OPEN; i++) {
                kedge.decide(Question.of("support", "turn-" + i));
            }
            assertEquals("BREAKER_OPEN", kedge.decide(Question.of("support", "turn-9")).failure());
            assertEquals(BreakerState.OPEN, kedge.breaker());
            assertEquals("BREAKER_OPEN", kedge.decideAsync(Question.of("support", "turn-9")).join().failure());
        }
    }

    @Test
    void aServerThatRefusesARequestIsWell() {
        try (FixedKedge kedge = Kedge.fixed(SMALL)) {
            kedge.said().fail(new CallFailed("INVALID_ARGUMENT", "UNDECLARED_FEATURE", ""));
            for (int i = 0; i < 2 * CircuitBreaker.FAILURES_TO_OPEN; i++) {
                assertEquals("UNDECLARED_FEATURE", kedge.decide(Question.of("support", "turn-" + i)).failure());
            }
            assertEquals(BreakerState.CLOSED, kedge.breaker());
        }
    }

    @Test
    void aListenerThatThrowsDoesNotCostADecision() {
        var settings = new KedgeBuilder(List.of("in-memory")).tenant("test").baseline("support", SMALL);
        settings.listener(new Listener() {
            @Override
            public void decided(Choice choice, Duration took, BreakerState breaker) {
                throw new IllegalStateException("metrics are down");
            }
        });
        try (var kedge = new Kedge(settings, new FixedWire(LARGE))) {
            assertEquals("large", kedge.decide(Question.of("support", "turn-7")).modelRoute());
        }
    }

    @Test
    void aPolicyWithoutABaselineIsAMistakeOfTheCode() {
        var settings = new KedgeBuilder(List.of("in-memory")).tenant("test").baseline("support", SMALL);
        try (var kedge = new Kedge(settings, new FixedWire(LARGE))) {
            assertThrows(IllegalArgumentException.class, () -> kedge.decide(Question.of("other", "turn-7")));
        }
        assertThrows(IllegalArgumentException.class, () -> Question.of("support", ""));
        assertThrows(IllegalArgumentException.class, () -> Question.of("support", "half \ud83e"));
        assertThrows(IllegalArgumentException.class, () -> settings.baseline("support", new Baseline()));
    }

    @Test
    void theContentOfAnArmIsReadByItsHash() {
        try (FixedKedge kedge = Kedge.fixed(LARGE)) {
            assertEquals("large-model", kedge.arm(LARGE.action().modelRoute().contentHash()).content());
            assertEquals("ARM_NOT_FOUND",
                    assertThrows(CallFailed.class, () -> kedge.arm("0".repeat(64))).reason());
        }
    }
}
