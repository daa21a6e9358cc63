package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.DecideRequest;
import dev.kedge.bandit.v1.WatchAllocationsResponse;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Decides the cases that `tests/java/cases.py` made; pytest compares with the server's rules and the Python client. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class CasesTest {
    @Test
    void everyCaseIsDecided() throws IOException {
        Path folder = Path.of(Sidecar.env("RESULTS"));
        var made = new ArrayList<Made>();
        var policy = new LocalPolicy("tenants/acme/policies/support", () -> 1_000.0, new SplittableRandom(7), made::add);
        policy.begin();
        policy.take(WatchAllocationsResponse.parseFrom(Files.readAllBytes(folder.resolve("cases.watch"))));
        var lines = new ArrayList<String>();
        try (InputStream in = new BufferedInputStream(Files.newInputStream(folder.resolve("cases.asked")))) {
            for (var asked = DecideRequest.parseDelimitedFrom(in); asked != null; asked = DecideRequest.parseDelimitedFrom(in)) {
                lines.add(decided(policy, asked, made));
            }
        }
        assertTrue(lines.size() > 0);
        Files.write(folder.resolve("cases.java"), lines);
    }

    private static String decided(LocalPolicy policy, DecideRequest asked, ArrayList<Made> made) {
        Question question = Question.of("support", asked.getEpisodeId())
                .available(asked.getAvailableActionKeysList())
                .pinned(asked.getPinnedActionKey());
        question.categories.putAll(asked.getContext().getCategoriesMap());
        question.numbers.putAll(asked.getContext().getNumbersMap());
        question.inToolLoop = asked.getInToolLoop();
        question.noExploration = asked.getNoExploration();
        try {
            policy.decide(question);
        } catch (QuestionRefused refused) {
            return refused.reason();
        }
        Made one = made.remove(made.size() - 1);
        return String.join("\t", one.bucket(), one.actionKey(),
                Long.toHexString(Double.doubleToRawLongBits(one.propensity())),
                Integer.toString(one.reason()), Boolean.toString(one.isRandomised()),
                Boolean.toString(one.judgeRequested()));
    }
}
