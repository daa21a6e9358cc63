package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.kedge.bandit.v1.Allocation;
import dev.kedge.bandit.v1.CategoricalFeature;
import dev.kedge.bandit.v1.DecisionReason;
import dev.kedge.bandit.v1.Feature;
import dev.kedge.bandit.v1.Mode;
import dev.kedge.bandit.v1.NumericFeature;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;

/** This client's rules against the golden files that the server and the Python client are held to. */
class GoldenTest {
    private static final Path FOLDER = Path.of("../../../tests/golden");

    @Test
    void everyGoldenDrawIsTheSame() throws IOException {
        for (JsonObject row : rows(golden("draw"), "draws")) {
            double u = Draw.uniform(
                    text(row, "tenant"), text(row, "policy"), text(row, "episode_id"),
                    row.get("seed_epoch").getAsLong(), row.get("allocation_version").getAsLong());
            assertEquals(row.get("u_times_2_53").getAsLong() * 0x1p-53, u);
            assertEquals(row.get("picked").getAsInt(), Draw.pick(doubles(row, "p"), u));
        }
    }

    @Test
    void everyGoldenPickIsTheSame() throws IOException {
        for (JsonObject row : rows(golden("draw"), "picks")) {
            assertEquals(row.get("picked").getAsInt(), Draw.pick(doubles(row, "p"), row.get("u").getAsDouble()));
        }
    }

    @Test
    void everyGoldenNarrowingIsTheSameToTheBit() throws IOException {
        for (JsonObject row : rows(golden("draw"), "narrowings")) {
            double[] p = Draw.narrow(
                    doubles(row, "q"), booleans(row, "subset"), row.get("baseline").getAsInt(),
                    row.get("floor").getAsDouble(), row.get("uniform_slice").getAsDouble(), doubles(row, "caps"));
            assertArrayEquals(doubles(row, "p"), p);
        }
    }

    @Test
    void everyGoldenChoiceIsTheSameToTheBit() throws Exception {
        JsonObject file = golden("choose");
        List<Vector> vectors = rows(file, "allocations").stream().map(GoldenTest::vector).toList();
        for (JsonObject row : rows(file, "choices")) {
            Vector vector = vectors.get(row.get("allocation").getAsInt());
            Question wish = Question.of("support", text(row, "episode_id"))
                    .available(texts(row, "available"))
                    .pinned(text(row, "pinned"));
            wish.noExploration = row.get("no_exploration").getAsBoolean();
            wish.inToolLoop = row.get("in_tool_loop").getAsBoolean();
            double u = Draw.uniform("acme", "support", wish.episodeId, vector.seedEpoch, vector.version);
            int mode = Mode.valueOf("MODE_" + text(row, "mode")).getNumber();
            var expected = new Vector.Chosen(
                    row.get("chosen").getAsInt(), row.get("propensity").getAsDouble(),
                    DecisionReason.valueOf("DECISION_REASON_" + text(row, "reason")).getNumber(),
                    row.get("is_randomised").getAsBoolean(), row.get("shadow").getAsInt());
            assertEquals(expected, vector.choose(wish, wish.available, mode, u), row::toString);
        }
    }

    @Test
    void everyGoldenJudgeIsTheSame() throws IOException {
        for (JsonObject row : rows(golden("choose"), "judges")) {
            boolean asked = Draw.judgeRequested(
                    text(row, "tenant"), text(row, "policy"), text(row, "episode_id"), row.get("rate").getAsDouble());
            assertEquals(row.get("requested").getAsBoolean(), asked, row::toString);
        }
    }

    @Test
    void everyGoldenContextFallsIntoItsBucket() throws Exception {
        JsonObject file = golden("buckets");
        var buckets = new Buckets(rows(file, "features").stream().map(GoldenTest::feature).toList());
        for (JsonObject row : rows(file, "buckets")) {
            Map<String, String> categories = new HashMap<>();
            row.getAsJsonObject("categories").entrySet().forEach(e -> categories.put(e.getKey(), e.getValue().getAsString()));
            Map<String, Double> numbers = new HashMap<>();
            row.getAsJsonObject("numbers").entrySet().forEach(e -> numbers.put(e.getKey(), e.getValue().getAsDouble()));
            buckets.check(categories, numbers);
            assertEquals(text(row, "bucket"), buckets.of(categories, numbers));
        }
    }

    @Test
    void aContextThatTheServerRefusesIsRefusedHere() throws IOException {
        var buckets = new Buckets(rows(golden("buckets"), "features").stream().map(GoldenTest::feature).toList());
        Map<String, String> many = new HashMap<>();
        for (int i = 0; i <= Buckets.MAX_FEATURES; i++) {
            many.put("f" + i, "x");
        }
        assertEquals("UNDECLARED_FEATURE", refusal(buckets, Map.of("colour", "red"), Map.of()));
        assertEquals("UNDECLARED_FEATURE", refusal(buckets, Map.of("words", "ten"), Map.of()));
        assertEquals("UNDECLARED_FEATURE", refusal(buckets, Map.of(), Map.of("task", 1.0)));
        assertEquals("CONTEXT_TOO_LARGE", refusal(buckets, Map.of("task", "\u00e9".repeat(129)), Map.of()));
        assertEquals("CONTEXT_TOO_LARGE", refusal(buckets, many, Map.of()));
        assertEquals("INVALID_VALUE", refusal(buckets, Map.of("task", "zero \0"), Map.of()));
        assertEquals("INVALID_VALUE", refusal(buckets, Map.of("task", "half \ud83e"), Map.of()));
        assertEquals("INVALID_VALUE", refusal(buckets, Map.of(), Map.of("words", Double.NaN)));
        assertEquals("INVALID_VALUE", refusal(buckets, Map.of(), Map.of("words", Double.NEGATIVE_INFINITY)));
    }

    private static String refusal(Buckets buckets, Map<String, String> categories, Map<String, Double> numbers) {
        return assertThrows(QuestionRefused.class, () -> buckets.check(categories, numbers)).reason();
    }

    private static Vector vector(JsonObject row) {
        var message = Allocation.newBuilder()
                .setAllocationVersion(row.get("allocation_version").getAsLong())
                .setSeedEpoch(row.get("seed_epoch").getAsLong())
                .addAllActionKeys(texts(row, "action_keys"))
                .setExploitationFloor(row.get("exploitation_floor").getAsDouble())
                .setUniformSlice(row.get("uniform_slice").getAsDouble())
                .setBaselineIndex(row.get("baseline_index").getAsInt());
        String closed = text(row, "closed_reason");
        message.setClosedReason(DecisionReason.valueOf("DECISION_REASON_" + (closed.isEmpty() ? "UNSPECIFIED" : closed)));
        for (double q : doubles(row, "probability_best")) {
            message.addProbabilityBest(q);
        }
        for (double p : doubles(row, "propensities")) {
            message.addPropensities(p);
        }
        for (double mean : doubles(row, "means")) {
            message.addMeans(mean);
        }
        for (boolean eligible : booleans(row, "eligible")) {
            message.addEligible(eligible);
        }
        for (double cap : doubles(row, "caps")) {
            message.addCaps(cap);
        }
        return new Vector(message.build());
    }

    private static Feature feature(JsonObject row) {
        var feature = Feature.newBuilder().setName(text(row, "name"));
        if (row.has("values")) {
            return feature.setCategorical(CategoricalFeature.newBuilder().addAllValues(texts(row, "values"))).build();
        }
        var numeric = NumericFeature.newBuilder();
        for (double point : doubles(row, "cut_points")) {
            numeric.addCutPoints(point);
        }
        return feature.setNumeric(numeric).build();
    }

    private static JsonObject golden(String name) throws IOException {
        return JsonParser.parseString(Files.readString(FOLDER.resolve(name + ".json"))).getAsJsonObject();
    }

    private static List<JsonObject> rows(JsonObject file, String list) {
        return StreamSupport.stream(file.getAsJsonArray(list).spliterator(), false).map(JsonElement::getAsJsonObject).toList();
    }

    private static String text(JsonObject row, String field) {
        return row.get(field).getAsString();
    }

    private static List<String> texts(JsonObject row, String field) {
        return StreamSupport.stream(row.getAsJsonArray(field).spliterator(), false).map(JsonElement::getAsString).toList();
    }

    private static double[] doubles(JsonObject row, String field) {
        JsonArray list = row.get(field).isJsonNull() ? new JsonArray() : row.getAsJsonArray(field);
        return StreamSupport.stream(list.spliterator(), false).mapToDouble(JsonElement::getAsDouble).toArray();
    }

    private static boolean[] booleans(JsonObject row, String field) {
        JsonArray list = row.getAsJsonArray(field);
        var values = new boolean[list.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = list.get(i).getAsBoolean();
        }
        return values;
    }
}
