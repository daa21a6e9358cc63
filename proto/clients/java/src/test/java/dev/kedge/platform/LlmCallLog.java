package dev.kedge.platform;

/** Stand-in for the platform's record of one model call; cost and latency are null where they are not known. */
public record LlmCallLog(String modelId, long promptTokens, long completionTokens, Double costUsd, Double latencyMs) {}
