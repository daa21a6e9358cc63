package dev.kedge.client;

import com.google.protobuf.ByteString;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What one decision is asked for. Fill it and ask once, on one thread:
 * {@code Question.of("support", id).category("task", "refund").number("words", 12)}.
 */
public final class Question {
    private static final int MAX_ID_CHARACTERS = 128;

    final String policy;
    final String episodeId;
    final Map<String, String> categories = new HashMap<>();
    final Map<String, Double> numbers = new HashMap<>();
    String requestId = "";
    List<String> available = List.of();
    String pinned = "";
    boolean continuesEpisode;
    boolean inToolLoop;
    boolean noExploration;
    ByteString token = ByteString.EMPTY;

    private Question(String policy, String episodeId) {
        this.policy = policy;
        this.episodeId = episodeId;
    }

    /**
     * Asks about an episode.
     *
     * @param policy id of the policy
     * @param episodeId 1 to 128 characters, best made by {@link Kedge#newEpisodeId} before the context is known
     */
    public static Question of(String policy, String episodeId) {
        return new Question(policy, checkedId("episodeId", episodeId));
    }

    /** A categorical feature that the policy declares; null counts as missing. */
    public Question category(String name, String value) {
        if (value != null) {
            categories.put(checkedName(name), value);
        }
        return this;
    }

    /** A numeric feature that the policy declares. */
    public Question number(String name, double value) {
        numbers.put(checkedName(name), value);
        return this;
    }

    /** Repeat it when the same question is asked again; made where it is not given. */
    public Question requestId(String id) {
        requestId = checkedId("requestId", id);
        return this;
    }

    /** Action keys that can be served now; none means all. */
    public Question available(List<String> actionKeys) {
        available = List.copyOf(actionKeys);
        return this;
    }

    /** Action key to serve whatever the policy says; not learned from. */
    public Question pinned(String actionKey) {
        pinned = actionKey;
        return this;
    }

    /** The episode was decided before, and the token is not at hand. */
    public Question continuesEpisode() {
        continuesEpisode = true;
        return this;
    }

    /** Nothing may be drawn anew. */
    public Question inToolLoop() {
        inToolLoop = true;
        return this;
    }

    /** Serve the baseline. */
    public Question noExploration() {
        noExploration = true;
        return this;
    }

    /** Token of the episode's first choice. */
    public Question token(ByteString ofTheFirstChoice) {
        token = ofTheFirstChoice;
        return this;
    }

    /** Whether nothing is asked for beside a context. */
    boolean isPlain() {
        return available.isEmpty() && pinned.isEmpty() && !inToolLoop && !noExploration;
    }

    static String checkedId(String field, String value) {
        if (value == null
                || value.isEmpty()
                || value.codePointCount(0, value.length()) > MAX_ID_CHARACTERS
                || value.indexOf('\0') >= 0
                || !isWhole(value)) {
            throw new IllegalArgumentException(
                    field + " must be 1 to " + MAX_ID_CHARACTERS + " characters without a zero character, got " + value);
        }
        return value;
    }

    /** Whether text has no half of a surrogate pair, which no encoding can carry. */
    static boolean isWhole(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i))) {
                if (!Character.isSurrogatePair(text.charAt(i), i + 1 < text.length() ? text.charAt(i + 1) : 'x')) {
                    return false;
                }
                i++;
            }
        }
        return true;
    }

    /** Spells a policy's resource name. */
    static String policyName(String tenant, String policy) {
        if (checkedId("tenant", tenant).contains("/") || checkedId("policy", policy).contains("/")) {
            throw new IllegalArgumentException("give bare ids, not resource names: " + tenant + ", " + policy);
        }
        return "tenants/" + tenant + "/policies/" + policy;
    }

    private static String checkedName(String name) {
        if (name == null || name.isEmpty()) {
            throw new IllegalArgumentException("a feature needs a name");
        }
        return name;
    }
}
