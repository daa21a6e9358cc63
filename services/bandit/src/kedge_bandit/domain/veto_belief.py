"""Exclude actions that break hard rules too often, whatever their reward.

Per policy and action, pooled over buckets and discounted like evidence, the veto rate has the belief
Beta(.5 + vetoes, 24.5 + episodes − vetoes). An action is ineligible while P(rate > cap) > .99 with
cap = max(.02, 2 × the baseline's posterior mean rate), and comes back when decay brings P under .9. The prior's 25
episodes and the cap's own room keep good arms in: a rule relative to the bare baseline rate would exclude them in most
runs.
"""

import numpy as np
from scipy.special import betaincc

from kedge_bandit.domain.arrays import BoolArray, FloatArray

PRIOR_VETOES = 0.5
PRIOR_CLEAN = 24.5
LEAST_CAP = 0.02
CAP_OVER_BASELINE = 2.0
EXCLUDE_ABOVE = 0.99
READMIT_BELOW = 0.9


def veto_cap(episodes: FloatArray, vetoes: FloatArray, baseline: int) -> float:
    """Give the highest acceptable veto rate: .02, or twice the baseline's posterior mean rate if that is more.

    >>> veto_cap(np.array([975.0]), np.array([49.5]), 0)
    0.1
    """
    mean = (PRIOR_VETOES + vetoes[baseline]) / (PRIOR_VETOES + PRIOR_CLEAN + episodes[baseline])
    return max(LEAST_CAP, CAP_OVER_BASELINE * float(mean))


def eligibility(
    episodes: FloatArray, vetoes: FloatArray, baseline: int, was_ineligible: BoolArray
) -> tuple[BoolArray, FloatArray]:
    """Decide which actions may be served.

    Args:
        episodes: discounted episodes [K] of each action.
        vetoes: discounted vetoed episodes [K], at most `episodes`.
        baseline: index of the baseline, which is always eligible.
        was_ineligible: mask [K], the state before; an excluded action needs P < .9 to return.

    Returns:
        Mask [K] of eligible actions, and P(veto rate > cap) [K].

    >>> eligible, over = eligibility(np.array([100.0, 50.0]), np.array([0.0, 6.0]), 0, np.array([False, False]))
    >>> eligible.tolist()
    [True, False]
    """
    clean = np.maximum(episodes - vetoes, 0.0)
    cap = min(veto_cap(episodes, vetoes, baseline), 1.0)
    over = np.asarray(betaincc(PRIOR_VETOES + vetoes, PRIOR_CLEAN + clean, cap), dtype=np.float64)
    eligible = np.where(was_ineligible, over < READMIT_BELOW, over <= EXCLUDE_ABOVE)
    eligible[baseline] = True
    return eligible, over
