package dev.kedge.platform;

/** Stand-in for what the platform answers a user with, without side effects: no tool that writes, no message sent. */
public interface Answerer {
    /** An answer and what it took. */
    record Answered(String text, LlmCallLog call) {}

    Answered answer(String model, String depth, String prompt, String question);
}
