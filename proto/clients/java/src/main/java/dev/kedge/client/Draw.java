package dev.kedge.client;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/**
 * Draws as the server draws: pure functions of identifiers and a vector, fixed by golden files for every language.
 *
 * <p>Every step is one IEEE operation, sums run from left to right; since Java 17 all floating point is strict, so the
 * results have the server's very bits.
 */
final class Draw {
    /** P(best) of a subset below which its actions count as equally good. */
    static final double LEAST_MASS = 1e-9;

    private static final ThreadLocal<MessageDigest> SHA_256 = ThreadLocal.withInitial(Arm::sha256);
    private static final int SPARE_BITS = 11;
    private static final double ULP = 0x1p-53;

    private Draw() {}

    /** The episode's number in [0, 1), a multiple of 2⁻⁵³. */
    static double uniform(String tenant, String policy, String episodeId, long seedEpoch, long allocationVersion) {
        return share("kedge.draw.v1\0" + tenant + '\0' + policy + '\0' + episodeId + '\0' + seedEpoch + '\0'
                + allocationVersion);
    }

    /** Whether a judge is asked about an episode; the rate is a share in [0, 1]. */
    static boolean judgeRequested(String tenant, String policy, String episodeId, double rate) {
        if (rate <= 0.0 || rate >= 1.0) {
            return rate >= 1.0;
        }
        return share("kedge.judge.v1\0" + tenant + '\0' + policy + '\0' + episodeId) < rate;
    }

    /** Place of the first action whose cumulative probability exceeds u, else of the last one with p > 0. */
    static int pick(double[] p, double u) {
        double reached = 0.0;
        int last = -1;
        for (int place = 0; place < p.length; place++) {
            if (p[place] > 0.0) {
                reached += p[place];
                last = place;
                if (reached > u) {
                    break;
                }
            }
        }
        return last;
    }

    /**
     * Probabilities of a subset of the actions, 0 elsewhere.
     *
     * @param q P(best) of every action
     * @param subset which actions can be served and are eligible; the baseline is one of them
     * @param baseline its place
     * @param floor exploitation floor
     * @param slice share of the rest that is spread evenly
     * @param caps largest probability of every action; empty where there is none. The excess goes to the baseline
     */
    static double[] narrow(double[] q, boolean[] subset, int baseline, double floor, double slice, double[] caps) {
        int size = 0;
        double mass = 0.0;
        for (int i = 0; i < q.length; i++) {
            size += subset[i] ? 1 : 0;
            mass += subset[i] ? q[i] : 0.0;
        }
        double even = slice / size;
        double explored = 1.0 - floor;
        double kept = 1.0 - slice;
        var p = new double[q.length];
        for (int i = 0; i < q.length; i++) {
            if (subset[i]) {
                double learned = mass < LEAST_MASS ? 1.0 / size : q[i] / mass;
                p[i] = explored * (kept * learned + even);
            }
        }
        if (caps.length > 0) {
            double excess = 0.0;
            for (int i = 0; i < p.length; i++) {
                double most = i == baseline ? p[i] : Math.min(p[i], caps[i]);
                excess += p[i] - most;
                p[i] = most;
            }
            p[baseline] += excess;
        }
        p[baseline] += floor;
        return p;
    }

    private static double share(String message) {
        byte[] digest = SHA_256.get().digest(message.getBytes(StandardCharsets.UTF_8));
        return (ByteBuffer.wrap(digest).getLong() >>> SPARE_BITS) * ULP;
    }
}
