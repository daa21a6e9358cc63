package dev.kedge.bridges;

import dev.kedge.client.Arm;
import dev.kedge.client.ArmRef;
import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.platform.PromptVersion;

/** Fetches a prompt's text by its hash, once; what comes is checked against the hash, so it is the approved text. */
public final class Prompts {
    private final Kedge kedge;

    public Prompts(Kedge kedge) {
        this.kedge = kedge;
    }

    public PromptVersion version(Choice choice) {
        ArmRef chosen = choice.action().promptVariant();
        Arm arm = kedge.arm(chosen.contentHash());
        return new PromptVersion(chosen.name(), chosen.contentHash(), arm.content());
    }
}
