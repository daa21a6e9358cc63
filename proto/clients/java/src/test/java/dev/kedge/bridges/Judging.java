package dev.kedge.bridges;

import dev.kedge.bandit.v1.AbsentReason;
import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.platform.LlmQualityJudge;
import java.util.concurrent.TimeoutException;

/** Asks the judge about the episodes that Kedge drew for it, and about no other. */
public final class Judging {
    private final Kedge kedge;
    private final LlmQualityJudge judge;

    public Judging(Kedge kedge, LlmQualityJudge judge) {
        this.kedge = kedge;
        this.judge = judge;
    }

    /** Call it off the user's path. A judge that fails is absent, never a zero. */
    public void judge(Choice choice, String question, String answer) {
        if (!choice.judgeRequested()) {
            return;
        }
        var about = kedge.about(choice.handle());
        try {
            kedge.outcomes().put(about.judge(judge.score(question, answer), judge.version()));
        } catch (TimeoutException late) {
            kedge.outcomes().put(about.judgeAbsent(AbsentReason.ABSENT_REASON_TIMEOUT));
        } catch (RuntimeException broken) {
            kedge.outcomes().put(about.judgeAbsent(AbsentReason.ABSENT_REASON_ERROR));
        }
    }
}
