package dev.kedge.client;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A Kedge without a server, for an application's own tests: it serves fixed actions, and keeps in {@link #said()} what
 * it was told. All but the network is the real client.
 */
public final class FixedKedge extends Kedge {
    private static final String TENANT = "test";

    private final Said said;
    private final Map<String, Baseline> baselines;
    private final Baseline otherwise;
    private final Map<String, Known> made = new ConcurrentHashMap<>();

    private FixedKedge(KedgeBuilder settings, FixedWire said, Map<String, Baseline> baselines, Baseline otherwise) {
        super(settings, said);
        this.said = said;
        this.baselines = baselines;
        this.otherwise = otherwise;
    }

    /**
     * Serves the same action for every policy.
     *
     * @param baselines what is served while {@link Said#fail} has taken the server down, by policy; for any other policy
     *     it is the action itself
     * @param action what is served
     */
    public static FixedKedge serving(Map<String, Baseline> baselines, Baseline action) {
        var settings = new KedgeBuilder(List.of("in-memory")).tenant(TENANT);
        baselines.forEach(settings::baseline);
        return new FixedKedge(settings, new FixedWire(action), Map.copyOf(baselines), action);
    }

    /** What the code under test said. */
    public Said said() {
        return said;
    }

    @Override
    Known known(String policy) {
        return made.computeIfAbsent(policy, id ->
                new Known(Question.policyName(TENANT, id), baselines.getOrDefault(id, otherwise)));
    }
}
