package dev.kedge.platform;

/** Stand-in for the platform's check of what a tool did. */
public interface ToolCallVerifier {
    boolean passes(ToolCallLog call);
}
