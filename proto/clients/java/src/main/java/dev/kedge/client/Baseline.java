package dev.kedge.client;

import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * The known-good action of a policy, out of the application's own configuration: what is served when there is no answer.
 *
 * <p>It carries content, not only names, because it must be servable while nothing can be asked. Immutable: each method
 * gives a new one, e.g. {@code new Baseline().modelRoute("small", "provider/small-2026-01")}.
 */
public final class Baseline {
    private final Arm modelRoute;
    private final Arm reasoningDepth;
    private final Arm promptVariant;
    // Made once: every decision needs them, and hashing a long prompt takes a while.
    private final Action action;
    private final String key;
    private final String hash;

    /** One without an arm, to add arms to. */
    public Baseline() {
        this(null, null, null);
    }

    private Baseline(Arm modelRoute, Arm reasoningDepth, Arm promptVariant) {
        this.modelRoute = modelRoute;
        this.reasoningDepth = reasoningDepth;
        this.promptVariant = promptVariant;
        action = new Action(ref(modelRoute), ref(reasoningDepth), ref(promptVariant));
        key = action.key();
        hash = Arm.sha256Hex(key);
    }

    /** The same with this model. */
    public Baseline modelRoute(Arm arm) {
        return new Baseline(arm, reasoningDepth, promptVariant);
    }

    /** The same with this model. */
    public Baseline modelRoute(String name, String content) {
        return modelRoute(new Arm(name, content));
    }

    /** The same with this depth. */
    public Baseline reasoningDepth(Arm arm) {
        return new Baseline(modelRoute, arm, promptVariant);
    }

    /** The same with this depth. */
    public Baseline reasoningDepth(String name, String content) {
        return reasoningDepth(new Arm(name, content));
    }

    /** The same with this prompt. */
    public Baseline promptVariant(Arm arm) {
        return new Baseline(modelRoute, reasoningDepth, arm);
    }

    /** The same with this prompt. */
    public Baseline promptVariant(String name, String content) {
        return promptVariant(new Arm(name, content));
    }

    /** Its arms by identity. */
    public Action action() {
        return action;
    }

    /** Its arms in the order of the dimensions. */
    public List<Arm> arms() {
        return Stream.of(modelRoute, reasoningDepth, promptVariant).filter(Objects::nonNull).toList();
    }

    /** SHA-256 of the action key; it travels with each Decide, so that the server reports a baseline that differs. */
    public String hash() {
        return hash;
    }

    String key() {
        return key;
    }

    private static ArmRef ref(Arm arm) {
        return arm == null ? null : arm.ref();
    }
}
