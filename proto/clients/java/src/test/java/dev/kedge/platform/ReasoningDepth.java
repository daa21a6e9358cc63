package dev.kedge.platform;

/** Stand-in for the platform's reasoning depth: how many samples are voted over. */
public record ReasoningDepth(int samples) {}
