package dev.kedge.client;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.DecideResponse;
import dev.kedge.bandit.v1.DecisionReason;
import java.util.OptionalDouble;

/**
 * What to serve for one episode.
 *
 * @param policy {@code tenants/{tenant}/policies/{policy}}
 * @param episodeId the episode that was decided
 * @param action the arms, with the hashes that {@link Kedge#arm} takes
 * @param actionKey the action in one string, as the wire names it
 * @param propensity probability with which the published allocation chose it, in (0, 1]; 1 for a fallback
 * @param isRandomised whether it was drawn
 * @param judgeRequested whether this episode should be judged
 * @param token send it back with later calls of the episode; empty for a fallback and a decision made in this process
 * @param decision {@code tenants/{tenant}/decisions/{decision}}; empty for a fallback
 * @param reason the DecisionReason without its prefix, or {@link #LOCAL_FALLBACK}
 * @param isFallback the server gave no usable answer; this is the local baseline
 * @param failure why there was a fallback, e.g. {@code DEADLINE_EXCEEDED} or {@code BREAKER_OPEN}; else empty
 * @param mean posterior mean in [0, 1] where the best action was asked for
 */
public record Choice(
        String policy,
        String episodeId,
        Action action,
        String actionKey,
        double propensity,
        boolean isRandomised,
        boolean judgeRequested,
        ByteString token,
        String decision,
        String reason,
        boolean isFallback,
        String failure,
        OptionalDouble mean) {

    /** Reason of a choice that this process made alone: the local baseline. */
    public static final String LOCAL_FALLBACK = "LOCAL_FALLBACK";

    private static final String REASON_PREFIX = "DECISION_REASON_";

    /** Name of the chosen model route; null where the policy has none. */
    public String modelRoute() {
        return name(action.modelRoute());
    }

    /** Name of the chosen reasoning depth; null where the policy has none. */
    public String reasoningDepth() {
        return name(action.reasoningDepth());
    }

    /** Name of the chosen prompt variant; null where the policy has none. */
    public String promptVariant() {
        return name(action.promptVariant());
    }

    /**
     * What later calls about the episode need. A fallback's says what was served: the server may have decided something
     * else just before the deadline, and an episode is learned from only if both agree.
     */
    public EpisodeHandle handle() {
        return new EpisodeHandle(policy, episodeId, token, decision, isFallback ? actionKey : "");
    }

    /** Reads the server's answer; throws CallFailed where it names no action that could be served. */
    static Choice answered(String policy, String episodeId, DecideResponse answer, OptionalDouble mean) {
        double propensity = answer.getPropensity();
        if (answer.getActionKey().isEmpty() || answer.getDecision().isEmpty() || !(propensity > 0 && propensity <= 1)) {
            throw new CallFailed("INTERNAL", "UNUSABLE_ANSWER", "the answer names no action to serve");
        }
        return new Choice(
                policy,
                episodeId,
                Action.of(answer.getAction()),
                answer.getActionKey(),
                propensity,
                answer.getIsRandomised(),
                answer.getJudgeRequested(),
                answer.getDecisionToken(),
                answer.getDecision(),
                reasonName(answer.getReasonValue()),
                false,
                "",
                mean);
    }

    /** The local baseline: the same action every time, never randomised. */
    static Choice fallback(String policy, String episodeId, Baseline baseline, String failure) {
        return new Choice(
                policy,
                episodeId,
                baseline.action(),
                baseline.key(),
                1.0,
                false,
                false,
                ByteString.EMPTY,
                "",
                LOCAL_FALLBACK,
                true,
                failure,
                OptionalDouble.empty());
    }

    /** Names a reason; a newer server may know reasons that this client does not. */
    static String reasonName(int number) {
        DecisionReason reason = DecisionReason.forNumber(number);
        return reason == null ? "REASON_" + number : reason.name().substring(REASON_PREFIX.length());
    }

    private static String name(ArmRef arm) {
        return arm == null ? null : arm.name();
    }
}
