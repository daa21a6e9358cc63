package dev.kedge.client;

import com.google.protobuf.Timestamp;
import dev.kedge.bandit.v1.Context;
import dev.kedge.bandit.v1.Decision;
import java.util.List;
import java.util.Map;

/**
 * A decision made in this process that waits to be reported.
 *
 * @param requestId empty where the caller gave none
 * @param id UUIDv7 of its time
 * @param milliseconds the server's time of the decision since the Unix epoch
 * @param available action keys that could be served; empty: all
 * @param shadowKey what would have been drawn, in OBSERVE; else empty
 */
record Made(
        String episodeId,
        String requestId,
        Map<String, String> categories,
        Map<String, Double> numbers,
        String id,
        long milliseconds,
        String bucket,
        List<String> available,
        String actionKey,
        double propensity,
        int reason,
        boolean isRandomised,
        String shadowKey,
        long policyVersion,
        long allocationVersion,
        long seedEpoch,
        int mode,
        boolean judgeRequested,
        double judgeRate) {

    /** What is reported; the server recomputes all of it. */
    Decision message(String policy) {
        return Decision.newBuilder()
                .setName(name(policy))
                .setPolicy(policy)
                .setEpisodeId(episodeId)
                .setRequestId(requestId.isEmpty() ? id : requestId)
                .setDecisionTime(Timestamp.newBuilder()
                        .setSeconds(Math.floorDiv(milliseconds, 1000L))
                        .setNanos((int) Math.floorMod(milliseconds, 1000L) * 1_000_000))
                .setContext(Context.newBuilder().putAllCategories(categories).putAllNumbers(numbers))
                .setBucket(bucket)
                .setActionKey(actionKey)
                .setPropensity(propensity)
                .setPolicyVersion(policyVersion)
                .setAllocationVersion(allocationVersion)
                .setSeedEpoch(seedEpoch)
                .setModeValue(mode)
                .setReasonValue(reason)
                .setIsRandomised(isRandomised)
                .setJudgeRequested(judgeRequested)
                .setJudgeRate(judgeRate)
                .setShadowActionKey(shadowKey)
                .addAllAvailableActionKeys(available)
                .build();
    }

    /** The decision's resource name. */
    String name(String policy) {
        return policy.substring(0, policy.indexOf("/policies/")) + "/decisions/" + id;
    }
}
