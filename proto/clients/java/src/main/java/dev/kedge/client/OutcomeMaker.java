package dev.kedge.client;

import com.google.protobuf.Timestamp;
import dev.kedge.bandit.v1.AbsentReason;
import dev.kedge.bandit.v1.EpisodeRef;
import dev.kedge.bandit.v1.HumanProvenance;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.Signal;
import dev.kedge.bandit.v1.VetoReason;
import java.time.Instant;
import java.util.function.Supplier;

/**
 * Makes outcomes about one episode in one word each: {@code kedge.about(choice.handle()).thumb(+1)}.
 *
 * <p>Each message has an idempotency key of its own, so send the same message again rather than make it again. Immutable.
 */
public final class OutcomeMaker {
    private final EpisodeHandle handle;
    private final Supplier<Instant> now;
    private final Supplier<String> newKey;
    private final String rater;

    OutcomeMaker(EpisodeHandle handle, Supplier<Instant> now, Supplier<String> newKey) {
        this(handle, now, newKey, "");
    }

    private OutcomeMaker(EpisodeHandle handle, Supplier<Instant> now, Supplier<String> newKey, String rater) {
        this.handle = handle;
        this.now = now;
        this.newKey = newKey;
        this.rater = rater;
    }

    /** Makes outcomes that were observed at another time than now. */
    public OutcomeMaker at(Instant observed) {
        return new OutcomeMaker(handle, () -> observed, newKey, rater);
    }

    /** Makes outcomes under this idempotency key: the same key with the same payload is recorded once. */
    public OutcomeMaker key(String key) {
        Question.checkedId("key", key);
        return new OutcomeMaker(handle, now, () -> key, rater);
    }

    /** Names the person whose words follow; stored as a hash, and one person counts once per episode. */
    public OutcomeMaker by(String raterId) {
        return new OutcomeMaker(handle, now, newKey, raterId);
    }

    /** A person gave a thumb: +1 up, -1 down, 0 taken back to neutral. */
    public Outcome thumb(int value) {
        if (value < -1 || value > 1) {
            throw new IllegalArgumentException("thumb must be +1, 0 or -1, got " + value);
        }
        return human(HumanProvenance.HUMAN_PROVENANCE_THUMB, value);
    }

    /** A person changed the answer by a normalised edit distance in [0, 1]. */
    public Outcome edited(double distance) {
        return human(HumanProvenance.HUMAN_PROVENANCE_EDITED, share("edit distance", distance));
    }

    /** A person took the answer unchanged. */
    public Outcome accepted() {
        return human(HumanProvenance.HUMAN_PROVENANCE_ACCEPTED, 1.0);
    }

    /** Whether a person's problem was solved. */
    public Outcome resolved(boolean yes) {
        return human(HumanProvenance.HUMAN_PROVENANCE_RESOLVED, yes ? 1.0 : 0.0);
    }

    /** What the judge scored, in [0, 1], and which judge it was; a new one makes older evidence worth less. */
    public Outcome judge(double score, String version) {
        return value(Signal.SIGNAL_JUDGE, share("judge score", score)).setJudgeVersion(version).build();
    }

    /** No score will come; that is never a zero. */
    public Outcome judgeAbsent(AbsentReason why) {
        return absent(Signal.SIGNAL_JUDGE, why);
    }

    /** How far the verifier found the task done, in [0, 1]. */
    public Outcome taskSuccess(double share) {
        return value(Signal.SIGNAL_TASK_SUCCESS, share("task success", share)).build();
    }

    /** The guardrails looked and found nothing; without it an episode is not learned from. */
    public Outcome safetyClean() {
        return value(Signal.SIGNAL_SAFETY, 1.0).build();
    }

    /** Which hard rule was broken; it vetoes the episode for good. */
    public Outcome safetyTripped(VetoReason why) {
        return value(Signal.SIGNAL_SAFETY, 0.0).setVetoReason(why).build();
    }

    /** What the episode cost, US dollars, 0 or more. */
    public Outcome cost(double usd) {
        return value(Signal.SIGNAL_COST, amount("cost", usd)).build();
    }

    /** How long the episode took, milliseconds, 0 or more. */
    public Outcome latency(double ms) {
        return value(Signal.SIGNAL_LATENCY, amount("latency", ms)).build();
    }

    /** A signal will not come, and why. */
    public Outcome absent(Signal signal, AbsentReason why) {
        return about(signal).setAbsent(why).build();
    }

    private Outcome human(HumanProvenance provenance, double value) {
        return value(Signal.SIGNAL_HUMAN, value).setProvenance(provenance).setRaterId(rater).build();
    }

    private Outcome.Builder value(Signal signal, double value) {
        return about(signal).setValue(value);
    }

    private Outcome.Builder about(Signal signal) {
        Instant observed = now.get();
        var outcome = Outcome.newBuilder()
                .setIdempotencyKey(newKey.get())
                .setSignal(signal)
                .setServedActionKey(handle.servedActionKey())
                .setObservedTime(Timestamp.newBuilder().setSeconds(observed.getEpochSecond()).setNanos(observed.getNano()));
        if (!handle.token().isEmpty()) {
            return outcome.setDecisionToken(handle.token());
        }
        if (!handle.decision().isEmpty()) {
            return outcome.setDecision(handle.decision());
        }
        return outcome.setEpisode(
                EpisodeRef.newBuilder().setPolicy(handle.policy()).setEpisodeId(handle.episodeId()));
    }

    private static double share(String what, double value) {
        if (!(value >= 0.0 && value <= 1.0)) {
            throw new IllegalArgumentException(what + " must be in [0, 1], got " + value);
        }
        return value;
    }

    private static double amount(String what, double value) {
        if (!(value >= 0.0 && value < Double.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException(what + " must be finite and 0 or more, got " + value);
        }
        return value;
    }
}
