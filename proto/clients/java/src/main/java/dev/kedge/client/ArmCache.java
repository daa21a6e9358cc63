package dev.kedge.client;

import dev.kedge.bandit.v1.DecisionServiceGrpc;
import dev.kedge.bandit.v1.GetArmRequest;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Keeps the content of arms by its hash: it never changes, so what was read once is never read again. */
final class ArmCache {
    private final String parent;
    private final Retrier retrier;
    private final Map<String, Arm> arms = new ConcurrentHashMap<>();

    /** Knows the arms of the baselines, which need no asking. */
    ArmCache(String parent, Collection<Baseline> baselines, Retrier retrier) {
        this.parent = parent;
        this.retrier = retrier;
        for (Baseline baseline : baselines) {
            baseline.arms().forEach(arm -> arms.put(arm.ref().contentHash(), arm));
        }
    }

    /** Finds an arm; believes only content that has the hash it was asked for by. */
    Arm get(String contentHash) {
        Arm known = arms.get(contentHash);
        if (known != null) {
            return known;
        }
        var request = GetArmRequest.newBuilder().setParent(parent).setContentHash(contentHash).build();
        var found = retrier.persist(DecisionServiceGrpc.getGetArmMethod(), request).getArm();
        String actual = Arm.sha256Hex(found.getContent());
        if (!actual.equals(contentHash)) {
            throw new CallFailed(
                    "DATA_LOSS", "ARM_CONTENT_MISMATCH",
                    "asked for content " + contentHash + ", got " + actual + ". Do not serve it; report the server.");
        }
        var arm = new Arm(found.getName(), found.getContent(), found.getTemplateVariablesList());
        arms.put(contentHash, arm);
        return arm;
    }
}
