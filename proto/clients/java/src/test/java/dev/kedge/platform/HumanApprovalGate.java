package dev.kedge.platform;

/** Stand-in for the platform's approval gate: asks a person, who answers under their own token. */
public interface HumanApprovalGate {
    /** What a person said, and the token of their sign-in. */
    record Verdict(boolean granted, String because, String personToken) {}

    Verdict ask(String subject, String details);
}
