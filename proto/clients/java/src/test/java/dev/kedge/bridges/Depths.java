package dev.kedge.bridges;

import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.platform.ReasoningDepth;

/** Reads the platform's ReasoningDepth out of an arm's content, e.g. {@code samples=5}. */
public final class Depths {
    private final Kedge kedge;

    public Depths(Kedge kedge) {
        this.kedge = kedge;
    }

    public ReasoningDepth depth(Choice choice) {
        String content = kedge.arm(choice.action().reasoningDepth().contentHash()).content();
        return new ReasoningDepth(Integer.parseInt(content.replaceFirst("^samples=", "")));
    }
}
