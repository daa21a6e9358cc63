import dev.kedge.bandit.v1.GuardrailEvent;
import dev.kedge.bandit.v1.GuardrailKind;
import dev.kedge.bandit.v1.OutcomeStatus;
import dev.kedge.bandit.v1.Trajectory;
import dev.kedge.client.Baseline;
import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.client.KedgeBuilder;
import dev.kedge.client.Listener;
import dev.kedge.client.Question;
import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;

/** What turns.py does, with the Java client of whatever revision is on the class path. */
public class Turns {
    private static final Duration PATIENT = Duration.ofSeconds(60);
    private static final Trajectory ENDED = Trajectory.newBuilder()
            .addGuardrailEvents(GuardrailEvent.newBuilder().setKind(GuardrailKind.GUARDRAIL_KIND_PII))
            .setTerminated(true)
            .build();

    private final String prefix;
    private final int turns;
    private final FileWriter told;

    private Turns(String prefix, int turns, FileWriter told) {
        this.prefix = prefix;
        this.turns = turns;
        this.told = told;
    }

    public static void main(String[] arguments) throws IOException {
        try (var told = new FileWriter(arguments[2], StandardCharsets.UTF_8)) {
            var all = new Turns(arguments[0], Integer.parseInt(arguments[1]), told);
            all.remote();
            all.local();
        }
    }

    private static KedgeBuilder client() {
        return Kedge.to(System.getenv("KEDGE_ADDRESS"))
                .tenant(System.getenv("KEDGE_TENANT"))
                .key(System.getenv("KEDGE_KEY"))
                .baseline("support", new Baseline().modelRoute("small", "small-model"))
                .decideDeadline(PATIENT)
                .callDeadline(PATIENT);
    }

    private void remote() {
        try (Kedge kedge = client().build()) {
            check(kedge.ready(PATIENT), "ready");
            IntStream.range(0, turns).parallel().forEach(number -> turn(kedge, prefix + "-" + number));
        }
    }

    private void turn(Kedge kedge, String episode) {
        Choice choice = kedge.decide(Question.of("support", episode).category("task", "math"));
        Choice again = kedge.decide(Question.of("support", episode).category("task", "math"));
        if (choice.isFallback() || again.isFallback()) {
            System.err.println("no decision: " + choice.failure() + " " + again.failure());
            return;
        }
        acknowledge("decision", episode);
        check(choice.actionKey().equals(again.actionKey()), "the same action");
        var outcome = kedge.about(choice.handle()).taskSuccess(1.0);
        for (int i = 0; i < 2; i++) {
            var status = kedge.recordOutcomes(List.of(outcome)).get(0).getStatus();
            check(status == OutcomeStatus.OUTCOME_STATUS_RECORDED || status == OutcomeStatus.OUTCOME_STATUS_DUPLICATE,
                    status.toString());
            acknowledge("outcome", outcome.getIdempotencyKey());
        }
        for (int i = 0; i < 2; i++) {
            kedge.logEpisode(choice.handle(), ENDED);
            acknowledge("episode", episode);
        }
    }

    private void local() {
        Set<String> unreported = ConcurrentHashMap.newKeySet();
        Map<String, String> made = new LinkedHashMap<>();
        Kedge kedge = client().local("support").listener(new Listener() {
            @Override
            public void decisionRefused(String decision, String why) {
                System.err.println("refused: " + decision + " " + why);
                unreported.add(decision);
            }

            @Override
            public void decisionDropped(String decision) {
                unreported.add(decision);
            }
        }).build();
        try {
            check(kedge.ready(PATIENT), "ready");
            for (int i = 0; i < turns; i++) {
                Choice choice = kedge.decide(Question.of("support", prefix + "-l" + i).category("task", "math"));
                check(!choice.isFallback(), choice.failure());
                made.put(choice.decision(), choice.episodeId());
            }
        } finally {
            kedge.close(PATIENT);
        }
        made.forEach((decision, episode) -> {
            if (!unreported.contains(decision)) {
                acknowledge("local decision", episode);
            }
        });
    }

    private synchronized void acknowledge(String kind, String key) {
        try {
            told.write(kind + "\t" + key + "\n");
            told.flush();
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
