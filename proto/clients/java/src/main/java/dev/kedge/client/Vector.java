package dev.kedge.client;

import dev.kedge.bandit.v1.Allocation;
import dev.kedge.bandit.v1.DecisionReason;
import dev.kedge.bandit.v1.Mode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A published allocation, and how to choose from it; lists run over the actions in canonical order. */
final class Vector {
    /**
     * An action of a vector.
     *
     * @param place in its actions
     * @param propensity probability with which it was chosen, in (0, 1]
     * @param reason number of the DecisionReason
     * @param isRandomised whether it was drawn
     * @param shadow place of what would have been drawn, in OBSERVE; else -1
     */
    record Chosen(int place, double propensity, int reason, boolean isRandomised, int shadow) {}

    final long version;
    final long policyVersion;
    final long seedEpoch;
    final List<String> actions;
    final Map<String, Integer> places = new HashMap<>();
    private final double[] q;
    private final double[] mean;
    private final boolean[] eligible;
    private final double[] p;
    private final double[] caps;
    private final int baseline;
    private final double floor;
    private final double slice;
    private final int closed;

    Vector(Allocation message) {
        version = message.getAllocationVersion();
        policyVersion = message.getPolicyVersion();
        seedEpoch = message.getSeedEpoch();
        actions = List.copyOf(message.getActionKeysList());
        for (int i = 0; i < actions.size(); i++) {
            places.put(actions.get(i), i);
        }
        q = doubles(message.getProbabilityBestList());
        mean = doubles(message.getMeansList());
        p = doubles(message.getPropensitiesList());
        caps = doubles(message.getCapsList());
        eligible = new boolean[actions.size()];
        for (int i = 0; i < eligible.length; i++) {
            eligible[i] = message.getEligible(i);
        }
        baseline = message.getBaselineIndex();
        floor = message.getExploitationFloor();
        slice = message.getUniformSlice();
        closed = message.getClosedReasonValue();
        if (p.length != actions.size() || q.length != p.length || mean.length != p.length || Draw.pick(p, 1.0) < 0) {
            throw new IllegalArgumentException("allocation " + version + " has no probability for every action");
        }
    }

    /**
     * Chooses by mode, wish and draw.
     *
     * @param available action keys that can be served; empty: all
     * @param mode number of the effective Mode
     * @param u the episode's number in [0, 1)
     */
    Chosen choose(Question wish, List<String> available, int mode, double u) throws QuestionRefused {
        boolean applies = mode == Mode.MODE_APPLY_VALUE;
        boolean[] subset = subset(available);
        if (!wish.pinned.isEmpty() && applies) {
            Integer place = places.get(wish.pinned);
            if (place == null) {
                throw new QuestionRefused("UNKNOWN_ACTION");
            }
            return certain(place, DecisionReason.DECISION_REASON_PINNED_VALUE);
        }
        if (subset != null && !subset[baseline]) {
            return certain(best(available), DecisionReason.DECISION_REASON_BASELINE_UNAVAILABLE_VALUE);
        }
        if (!applies) {
            int shadow = mode == Mode.MODE_OBSERVE_VALUE ? drawn(subset, u).place : -1;
            return new Chosen(baseline, 1.0, reasonOf(mode), false, shadow);
        }
        if (wish.noExploration) {
            return certain(baseline, DecisionReason.DECISION_REASON_NO_EXPLORATION_VALUE);
        }
        if (wish.inToolLoop) {
            return certain(baseline, DecisionReason.DECISION_REASON_TOOL_LOOP_VALUE);
        }
        return drawn(subset, u);
    }

    /** The reason with which a mode other than APPLY serves the baseline. */
    static int reasonOf(int mode) {
        return switch (mode) {
            case Mode.MODE_FROZEN_VALUE -> DecisionReason.DECISION_REASON_FROZEN_VALUE;
            case Mode.MODE_BYPASS_VALUE -> DecisionReason.DECISION_REASON_BYPASS_VALUE;
            case Mode.MODE_OBSERVE_VALUE -> DecisionReason.DECISION_REASON_OBSERVE_VALUE;
            default -> throw new IllegalArgumentException("mode " + mode + " is newer than this client");
        };
    }

    private Chosen drawn(boolean[] subset, double u) {
        if (closed != 0) {
            return certain(baseline, closed);
        }
        double[] from = subset == null ? p : Draw.narrow(q, subset, baseline, floor, slice, caps);
        int place = Draw.pick(from, u);
        return new Chosen(place, from[place], DecisionReason.DECISION_REASON_DRAWN_VALUE, from[place] < 1.0, -1);
    }

    private static Chosen certain(int place, int reason) {
        return new Chosen(place, 1.0, reason, false, -1);
    }

    /** Marks what is both available and eligible; null when availability narrows nothing. */
    private boolean[] subset(List<String> available) {
        if (available.isEmpty()) {
            return null;
        }
        Set<String> able = new HashSet<>(available);
        var subset = new boolean[actions.size()];
        boolean narrows = false;
        for (int i = 0; i < subset.length; i++) {
            subset[i] = eligible[i] && able.contains(actions.get(i));
            narrows |= eligible[i] && !subset[i];
        }
        return narrows ? subset : null;
    }

    /** The available action of highest mean, an eligible one where there is one; the baseline if none is known. */
    private int best(List<String> available) {
        Set<String> able = new HashSet<>(available);
        int best = -1;
        for (int i = 0; i < actions.size(); i++) {
            if (able.contains(actions.get(i)) && (best < 0 || beats(i, best))) {
                best = i;
            }
        }
        return best < 0 ? baseline : best;
    }

    private boolean beats(int one, int other) {
        return eligible[one] == eligible[other] ? mean[one] > mean[other] : eligible[one];
    }

    private static double[] doubles(List<Double> values) {
        return values.stream().mapToDouble(Double::doubleValue).toArray();
    }
}
