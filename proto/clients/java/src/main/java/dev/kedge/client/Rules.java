package dev.kedge.client;

import dev.kedge.bandit.v1.Policy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** A policy as it stands, as far as deciding needs it. */
final class Rules {
    final long version;
    final long seedEpoch;
    final Buckets buckets;
    final double judgeRate;
    /** Keys of the actions that it has now; a vector made before may have others. */
    final List<String> live;

    final String baselineKey;
    private final Map<String, dev.kedge.bandit.v1.Arm> arms = new HashMap<>();
    private final Map<String, Action> known = new ConcurrentHashMap<>();

    Rules(Policy policy) {
        version = policy.getPolicyVersion();
        seedEpoch = policy.getSeedEpoch();
        buckets = new Buckets(policy.getFeaturesList());
        judgeRate = policy.getSettlement().getJudgeRate();
        live = List.copyOf(policy.getActionKeysList());
        baselineKey = live.get(policy.getBaselineIndex());
        for (var arm : policy.getArmsList()) {
            arms.put(new ArmRef(arm.getName(), arm.getContentHash()).armId(), arm);
        }
    }

    /** Names the arms of an action. */
    Action action(String key) {
        return known.computeIfAbsent(key, this::read);
    }

    private Action read(String key) {
        ArmRef[] refs = new ArmRef[3];
        for (String id : key.split("\\|")) {
            var arm = arms.get(id);
            if (arm != null) {
                refs[arm.getDimensionValue() - 1] = new ArmRef(arm.getName(), arm.getContentHash());
            }
        }
        return new Action(refs[0], refs[1], refs[2]);
    }
}
