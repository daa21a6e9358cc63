"""Keep exploration from costing more than a share of what the baseline alone would have earned.

Over settled, undiscounted episodes of the current configuration, with d the baseline and n = Σ n_a:

    Σ_{a≠d} n_a·max(0, LCB_a) + n_d·mean_d < (1 − share)·mean_d·(n + ahead)  →  publish the baseline alone
    LCB_a = mean_a − sqrt(ln(2K·log2(2·n_a + 2)/δ) / (2·n_a))

Conservative bandits (Wu, Shariff, Lattimore, Szepesvári 2016) with an anytime Hoeffding bound that holds for all
actions at once with probability 1 − δ. While the baseline has earned nothing the rule is read in the limit mean_d → 0,
where it counts episodes: read literally it would hold nothing back, and the first failures of a good baseline would
open the gate to everything.
"""

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray

LEAST_MEAN = 1e-9


def shortfall(
    n: FloatArray, s: FloatArray, baseline: int, *, share: float = 0.05, delta: float = 0.05, ahead: float = 1.0
) -> FloatArray:
    """Give how much reward is missing from the promise, in episodes' rewards; positive means the budget is spent.

    Args:
        n: undiscounted settled episodes [..., K].
        s: their sums of rewards [..., K], in [0, n].
        baseline: index of d.
        share: largest share of the baseline's reward that exploring may cost, in (0, 1].
        delta: probability with which the bounds may fail, in (0, 1).
        ahead: episodes for which the next vector may be served before the rule is looked at again; at least 1.

    Returns:
        Shortfall [...]; positive as long as the baseline itself has no settled episode, since nothing is known then.

    >>> float(shortfall(np.array([100.0, 10.0]), np.array([50.0, 0.0]), 0)) > 0
    True
    """
    seen = np.maximum(n, 1.0)
    mean = np.maximum(s / seen, LEAST_MEAN)
    width = np.sqrt(np.log(2.0 * n.shape[-1] * np.log2(2.0 * n + 2.0) / delta) / (2.0 * seen))
    certain = n * np.maximum(0.0, s / seen - width)
    certain[..., baseline] = (n * mean)[..., baseline]
    promised = (1.0 - share) * mean[..., baseline] * (n.sum(axis=-1) + ahead)
    return np.asarray(promised - certain.sum(axis=-1), dtype=np.float64)


def spent(
    n: FloatArray, s: FloatArray, baseline: int, *, share: float = 0.05, delta: float = 0.05, ahead: float = 1.0
) -> BoolArray:
    """Mark [...] where the budget is spent; arguments as of `shortfall`.

    >>> bool(spent(np.array([2000.0, 10.0]), np.array([1000.0, 0.0]), 0))
    False
    """
    marked: BoolArray = shortfall(n, s, baseline, share=share, delta=delta, ahead=ahead) > 0.0
    return marked


def holds(
    n: FloatArray, s: FloatArray, baseline: int, *, share: float = 0.05, delta: float = 0.05, ahead: float = 1.0
) -> bool:
    """Say whether one policy's published vector must be the baseline alone; arguments [K] as of `shortfall`.

    >>> holds(np.array([0.0, 0.0]), np.array([0.0, 0.0]), 0)
    True
    """
    return bool(spent(n, s, baseline, share=share, delta=delta, ahead=ahead))
