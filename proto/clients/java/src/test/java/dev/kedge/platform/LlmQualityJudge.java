package dev.kedge.platform;

import java.util.concurrent.TimeoutException;

/** Stand-in for the platform's judge: a score in [0, 1] of a whole answer. */
public interface LlmQualityJudge {
    String version();

    double score(String question, String answer) throws TimeoutException;
}
