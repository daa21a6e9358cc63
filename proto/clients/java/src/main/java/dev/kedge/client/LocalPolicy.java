package dev.kedge.client;

import com.google.protobuf.ByteString;
import dev.kedge.bandit.v1.DecisionReason;
import dev.kedge.bandit.v1.Mode;
import dev.kedge.bandit.v1.WatchAllocationsResponse;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;

/**
 * Holds one policy's vectors and decides from them: the seeded draw, and a lease that runs out.
 *
 * <p>The server recomputes what is reported and refuses what differs, so everything here follows its rules to the bit.
 * One thread calls {@link #begin} and {@link #take}; any thread decides.
 */
final class LocalPolicy {
    /** Episodes whose choice a process remembers, in all. */
    static final int REMEMBERED = 20_000;

    private static final int STRIPES = 16;
    /** Messages over which the server's clock is estimated: the one that travelled fastest says most. */
    private static final int READINGS = 60;
    /** Name of the vector of every bucket that has none of its own. */
    private static final String COLD = "";

    private static final int STALE = DecisionReason.DECISION_REASON_STALE_VALUE;

    /** What decisions are made by, at one moment; the seconds are monotonic. */
    private record Held(Rules rules, Map<String, Vector> vectors, int mode, double offset, double leaseEnd) {
        boolean isStopped() {
            return mode == Mode.MODE_FROZEN_VALUE || mode == Mode.MODE_BYPASS_VALUE;
        }
    }

    /** The choices of some episodes; those of a stopped mode apart, which beats what was decided before. */
    private static final class Stripe {
        final Map<String, Choice> open = memory();
        final Map<String, Choice> stopped = memory();
        final SplittableRandom random;

        Stripe(SplittableRandom random) {
            this.random = random;
        }

        private static Map<String, Choice> memory() {
            return new LinkedHashMap<>() {
                private static final long serialVersionUID = 1L;

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Choice> eldest) {
                    return size() > REMEMBERED / STRIPES;
                }
            };
        }
    }

    final String name;
    private final String tenant;
    private final String policy;
    private final DoubleSupplier seconds;
    private final Consumer<Made> report;
    private final Stripe[] stripes = new Stripe[STRIPES];
    private final ArrayDeque<Double> readings = new ArrayDeque<>();
    private Map<String, Vector> coming;
    private volatile Held held = new Held(null, Map.of(), 0, 0.0, Double.NEGATIVE_INFINITY);

    /**
     * Starts with nothing to decide by.
     *
     * @param name {@code tenants/{tenant}/policies/{policy}}
     * @param seconds monotonic; all the time there is, the server's clock is estimated from its messages
     * @param random of the decisions' ids, which need only be unlike those of other processes
     * @param report takes each new decision; must not wait
     */
    LocalPolicy(String name, DoubleSupplier seconds, SplittableRandom random, Consumer<Made> report) {
        this.name = name;
        String[] parts = name.split("/");
        tenant = parts[1];
        policy = parts[3];
        this.seconds = seconds;
        this.report = report;
        for (int i = 0; i < STRIPES; i++) {
            stripes[i] = new Stripe(random.split());
        }
    }

    /** Whether everything came at least once, so that there is something to decide by. */
    boolean isHeld() {
        return held.leaseEnd > Double.NEGATIVE_INFINITY;
    }

    /** Whether the lease lasts; without it the baseline is served. */
    boolean isLive() {
        return seconds.getAsDouble() < held.leaseEnd;
    }

    /** Expects everything anew: a stream begins. What is held goes on serving until it is all there. */
    void begin() {
        coming = new HashMap<>();
    }

    /** Takes in a message of the stream; its lease counts from when it was sent, however long it travelled. */
    void take(WatchAllocationsResponse message) {
        Held before = held;
        Rules rules = message.hasPolicy() ? new Rules(message.getPolicy()) : before.rules;
        Map<String, Vector> vectors = coming == null ? new HashMap<>(before.vectors) : coming;
        for (var allocation : message.getAllocationsList()) {
            vectors.put(allocation.getBucket(), new Vector(allocation));
        }
        double sent = message.getServerTime().getSeconds() + message.getServerTime().getNanos() * 1e-9;
        if (readings.size() == READINGS) {
            readings.remove();
        }
        readings.add(sent - seconds.getAsDouble());
        double offset = Collections.max(readings);
        int mode = message.getEffectiveModeValue();
        if (!message.hasLease() || rules == null) {
            held = new Held(rules, coming == null ? vectors : before.vectors, mode, offset, before.leaseEnd);
            return;
        }
        coming = null;
        double lease = message.getLease().getSeconds() + message.getLease().getNanos() * 1e-9;
        held = new Held(rules, vectors, mode, offset, sent + lease - offset);
    }

    /** Chooses for an episode; the same again for one that was decided here, unless a freeze came between. */
    Choice decide(Question question) throws QuestionRefused {
        Held by = held;
        by.rules.buckets.check(question.categories, question.numbers);
        Stripe stripe = stripes[Math.floorMod(question.episodeId.hashCode(), STRIPES)];
        Made made;
        Choice choice;
        synchronized (stripe) {
            Map<String, Choice> remembered = by.isStopped() ? stripe.stopped : stripe.open;
            choice = remembered.get(question.episodeId);
            if (choice != null) {
                return choice;
            }
            made = made(question, by, stripe.random);
            choice = choice(made, by.rules);
            remembered.put(question.episodeId, choice);
        }
        report.accept(made);
        return choice;
    }

    private Made made(Question question, Held by, SplittableRandom random) throws QuestionRefused {
        double now = seconds.getAsDouble();
        if (now >= by.leaseEnd && !by.isStopped()) {
            return baseline(question, by, now, random, COLD, STALE);
        }
        String bucket = by.rules.buckets.of(question.categories, question.numbers);
        Vector vector = by.vectors.getOrDefault(bucket, by.vectors.get(COLD));
        if (vector == null
                || (vector.policyVersion != by.rules.version && !vector.places.containsKey(by.rules.baselineKey))) {
            return baseline(question, by, now, random, bucket, by.isStopped() ? Vector.reasonOf(by.mode) : STALE);
        }
        double u = Draw.uniform(tenant, policy, question.episodeId, vector.seedEpoch, vector.version);
        List<String> available = withoutRetired(question.available, vector, by.rules);
        Vector.Chosen chosen = vector.choose(question, available, by.mode, u);
        return made(
                question, by, now, random, bucket, available, vector.actions.get(chosen.place()), chosen,
                chosen.shadow() < 0 ? "" : vector.actions.get(chosen.shadow()),
                vector.policyVersion, vector.version, vector.seedEpoch);
    }

    private Made baseline(
            Question question, Held by, double now, SplittableRandom random, String bucket, int reason) {
        var chosen = new Vector.Chosen(0, 1.0, reason, false, -1);
        Rules rules = by.rules;
        return made(
                question, by, now, random, bucket, question.available, rules.baselineKey, chosen, "",
                rules.version, 0, rules.seedEpoch);
    }

    private Made made(
            Question question, Held by, double now, SplittableRandom random, String bucket, List<String> available,
            String actionKey, Vector.Chosen chosen, String shadowKey, long policyVersion, long version, long epoch) {
        long milliseconds = (long) ((now + by.offset) * 1e3);
        double rate = by.rules.judgeRate;
        return new Made(
                question.episodeId,
                question.requestId,
                Map.copyOf(question.categories),
                Map.copyOf(question.numbers),
                uuid7(milliseconds, random.nextLong(), random.nextLong()),
                milliseconds,
                bucket,
                available,
                actionKey,
                chosen.propensity(),
                chosen.reason(),
                chosen.isRandomised(),
                shadowKey,
                policyVersion,
                version,
                epoch,
                by.mode,
                Draw.judgeRequested(tenant, policy, question.episodeId, rate),
                rate);
    }

    private Choice choice(Made made, Rules rules) {
        return new Choice(
                name,
                made.episodeId(),
                rules.action(made.actionKey()),
                made.actionKey(),
                made.propensity(),
                made.isRandomised(),
                made.judgeRequested(),
                ByteString.EMPTY,
                made.name(name),
                Choice.reasonName(made.reason()),
                false,
                "",
                OptionalDouble.empty());
    }

    /** Leaves out actions that the policy no longer has, while the vector made before still serves. */
    private static List<String> withoutRetired(List<String> available, Vector vector, Rules rules) {
        if (vector.policyVersion == rules.version || vector.actions.equals(rules.live)) {
            return available;
        }
        return (available.isEmpty() ? vector.actions : available).stream().filter(rules.live::contains).toList();
    }

    /** Makes a UUIDv7 (RFC 9562 §5.7) of a time and 74 of the random bits. */
    static String uuid7(long milliseconds, long high, long low) {
        return new java.util.UUID(milliseconds << 16 | 0x7000 | high & 0xFFF, 0x8000000000000000L | low >>> 2).toString();
    }
}
