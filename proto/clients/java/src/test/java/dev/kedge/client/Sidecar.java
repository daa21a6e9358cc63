package dev.kedge.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/** The real server that `tests/java` runs for these tests: where it listens, and what can be done to it. */
public final class Sidecar {
    public static final String TENANT = "java";
    public static final Duration GENEROUS = Duration.ofSeconds(60);
    public static final Baseline SMALL = new Baseline().modelRoute("small", "small-model");
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private Sidecar() {}

    public static String env(String name) {
        String value = System.getenv("KEDGE_TEST_" + name);
        if (value == null) {
            throw new IllegalStateException("KEDGE_TEST_" + name + " is not set; pytest tests/java sets it");
        }
        return value;
    }

    /** Whether everything runs at full size. */
    public static boolean isFull() {
        return env("FULL").equals("1");
    }

    public static int sized(int sample, int full) {
        return isFull() ? full : sample;
    }

    public static KedgeBuilder client(String... policies) {
        KedgeBuilder builder = Kedge.to(env("ADDRESS")).tenant(TENANT).key(env("KEY"));
        for (String policy : policies) {
            builder.baseline(policy, SMALL);
        }
        return builder;
    }

    /** One that waits for the server however slow the machine is, where speed is not the point. */
    public static KedgeBuilder patient(String... policies) {
        return client(policies).decideDeadline(GENEROUS);
    }

    /** Tells pytest to do something, e.g. "freeze" or "down", and answers what it said. */
    public static String say(String verb) {
        var request = HttpRequest.newBuilder(URI.create(env("CONTROL") + "/" + verb))
                .timeout(Duration.ofSeconds(120))
                .POST(HttpRequest.BodyPublishers.noBody());
        try {
            HttpResponse<String> answer = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(verb + ": " + answer.body());
            }
            return answer.body();
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    public static void waitFor(String what, BooleanSupplier condition) {
        long deadline = System.nanoTime() + GENEROUS.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited " + GENEROUS + " in vain for " + what);
            }
            try {
                Thread.sleep(5);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    /** Keeps figures for the table that pytest prints. */
    public static void measured(String name, Map<String, ? extends Number> figures) {
        String body = figures.entrySet().stream()
                .map(each -> "\"" + each.getKey() + "\": " + each.getValue())
                .collect(Collectors.joining(", ", "{", "}"));
        try {
            Files.writeString(Path.of(env("RESULTS"), name + ".json"), body);
        } catch (IOException broken) {
            throw new UncheckedIOException(broken);
        }
    }
}
