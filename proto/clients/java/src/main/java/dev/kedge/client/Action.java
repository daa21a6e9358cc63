package dev.kedge.client;

import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * One arm per dimension, chosen together; null where the policy has no such dimension.
 *
 * @param modelRoute which model answers
 * @param reasoningDepth how much it thinks
 * @param promptVariant which prompt it gets
 */
public record Action(ArmRef modelRoute, ArmRef reasoningDepth, ArmRef promptVariant) {

    /** The arm ids, joined by "|" in the order of the dimensions. */
    public String key() {
        return Stream.of(modelRoute, reasoningDepth, promptVariant)
                .filter(Objects::nonNull)
                .map(ArmRef::armId)
                .collect(Collectors.joining("|"));
    }

    static Action of(dev.kedge.bandit.v1.Action message) {
        return new Action(
                ArmRef.of(message.getModelRoute()),
                ArmRef.of(message.getReasoningDepth()),
                ArmRef.of(message.getPromptVariant()));
    }

    dev.kedge.bandit.v1.Action message() {
        var message = dev.kedge.bandit.v1.Action.newBuilder();
        if (modelRoute != null) {
            message.setModelRoute(ArmRef.message(modelRoute));
        }
        if (reasoningDepth != null) {
            message.setReasoningDepth(ArmRef.message(reasoningDepth));
        }
        if (promptVariant != null) {
            message.setPromptVariant(ArmRef.message(promptVariant));
        }
        return message.build();
    }
}
