package dev.kedge.platform;

/** Stand-in for the platform's record of one tool call. */
public record ToolCallLog(String toolName, boolean blocked, double latencyMs) {}
