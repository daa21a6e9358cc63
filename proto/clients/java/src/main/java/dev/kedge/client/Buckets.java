package dev.kedge.client;

import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Puts contexts into buckets as the server does; golden files fix cut points, missing and unknown values, Unicode. */
final class Buckets {
    static final int MAX_FEATURES = 64;
    static final int MAX_VALUE_BYTES = 256;
    private static final int MAX_BYTES_PER_CHAR = 3;

    /** One feature: how a context becomes its part of the bucket. */
    private interface Part {
        void write(Map<String, String> categories, Map<String, Double> numbers, StringBuilder bucket);
    }

    private final Part[] parts;
    private final Set<String> categorical = new HashSet<>();
    private final Set<String> numeric = new HashSet<>();

    /** Takes a policy's features in their order. */
    Buckets(List<dev.kedge.bandit.v1.Feature> features) {
        parts = new Part[features.size()];
        for (int i = 0; i < parts.length; i++) {
            var feature = features.get(i);
            if (feature.hasNumeric()) {
                numeric.add(feature.getName());
                var points = feature.getNumeric().getCutPointsList().stream().mapToDouble(Double::doubleValue);
                parts[i] = number(feature.getName(), points.toArray());
            } else {
                categorical.add(feature.getName());
                parts[i] = category(feature.getName(), feature.getCategorical().getValuesList());
            }
        }
    }

    /** Names the bucket: {@code name=part} of each feature, joined by "|". */
    String of(Map<String, String> categories, Map<String, Double> numbers) {
        var bucket = new StringBuilder();
        for (int i = 0; i < parts.length; i++) {
            if (i > 0) {
                bucket.append('|');
            }
            parts[i].write(categories, numbers, bucket);
        }
        return bucket.toString();
    }

    /** Refuses what the server would refuse: UNDECLARED_FEATURE, CONTEXT_TOO_LARGE or INVALID_VALUE. */
    void check(Map<String, String> categories, Map<String, Double> numbers) throws QuestionRefused {
        if (categories.size() + numbers.size() > MAX_FEATURES) {
            throw new QuestionRefused("CONTEXT_TOO_LARGE");
        }
        for (var given : categories.entrySet()) {
            if (!categorical.contains(given.getKey())) {
                throw new QuestionRefused("UNDECLARED_FEATURE");
            }
            String value = given.getValue();
            if (value.length() > MAX_VALUE_BYTES / MAX_BYTES_PER_CHAR
                    && value.getBytes(StandardCharsets.UTF_8).length > MAX_VALUE_BYTES) {
                throw new QuestionRefused("CONTEXT_TOO_LARGE");
            }
            if (value.indexOf('\0') >= 0 || !Question.isWhole(value)) {
                throw new QuestionRefused("INVALID_VALUE");
            }
        }
        for (var given : numbers.entrySet()) {
            if (!numeric.contains(given.getKey())) {
                throw new QuestionRefused("UNDECLARED_FEATURE");
            }
            if (!Double.isFinite(given.getValue())) {
                throw new QuestionRefused("INVALID_VALUE");
            }
        }
    }

    /** A number cut into intervals; a value equal to a cut point belongs to the interval above it. */
    private static Part number(String name, double[] points) {
        return (categories, numbers, bucket) -> {
            bucket.append(name).append('=');
            Double value = numbers.get(name);
            if (value == null) {
                bucket.append("~missing");
                return;
            }
            double number = value;
            int interval = 0;
            while (interval < points.length && points[interval] <= number) {
                interval++;
            }
            bucket.append(interval);
        };
    }

    /** A feature with a bounded set of values. */
    private static Part category(String name, List<String> values) {
        Map<String, String> parts = new HashMap<>();
        for (String value : values) {
            String normal = normal(value);
            parts.put(normal, name + "=" + escaped(normal));
        }
        String other = name + "=~other";
        String missing = name + "=~missing";
        return (categories, numbers, bucket) -> {
            String value = categories.get(name);
            bucket.append(value == null ? missing : parts.getOrDefault(normal(value), other));
        };
    }

    private static String normal(String value) {
        for (int i = 0; i < value.length(); i++) {
            if (value.charAt(i) > '\u007f') {
                return Normalizer.normalize(value, Normalizer.Form.NFC);
            }
        }
        return value;
    }

    private static String escaped(String value) {
        return value.replace("%", "%25").replace("|", "%7C").replace("=", "%3D").replace("~", "%7E");
    }
}
