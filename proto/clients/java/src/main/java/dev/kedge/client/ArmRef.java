package dev.kedge.client;

/**
 * An arm by identity.
 *
 * @param name what a person called it
 * @param contentHash SHA-256 of its content, 64 lower-case hex digits
 */
public record ArmRef(String name, String contentHash) {
    private static final int HASH_DIGITS_IN_ID = 12;

    /** The id that action keys are made of: {@code name@hash12}. */
    public String armId() {
        return name + "@" + contentHash.substring(0, Math.min(HASH_DIGITS_IN_ID, contentHash.length()));
    }

    static ArmRef of(dev.kedge.bandit.v1.ArmRef message) {
        return message.getName().isEmpty() ? null : new ArmRef(message.getName(), message.getContentHash());
    }

    static dev.kedge.bandit.v1.ArmRef message(ArmRef ref) {
        return dev.kedge.bandit.v1.ArmRef.newBuilder().setName(ref.name).setContentHash(ref.contentHash).build();
    }
}
