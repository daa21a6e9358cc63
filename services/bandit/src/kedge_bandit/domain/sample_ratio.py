"""Compare how many units each side has with how many it was to have: what was lost on one side alone bends the rest.

Over units i that were assigned to the learned side with probability s_i: z = Σ (1[learned] − s_i) / √Σ s_i (1 − s_i),
and p is two-sided normal (Fabijan and others 2019).
"""

from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from scipy import special

from kedge_bandit.domain.cluster_lift import Assigned

HIDES_BELOW: Final = 1e-3
"""p under which no result is shown."""


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Units by side, the share that the learned side was to have, and how likely that is by chance."""

    learned: int
    baseline: int
    expected_share: float
    p_value: float

    @property
    def is_off(self) -> bool:
        """Whether the results must not be shown."""
        return self.p_value < HIDES_BELOW


def sample_ratio(assigned: Assigned) -> SampleRatio:
    """Test the split; a unit counts once, by its first episode.

    >>> learned = np.arange(1000) % 2 == 0
    >>> rows = Assigned(learned=learned, learned_share=np.full(1000, .5), weight=np.ones(1000), unit=np.arange(1000),
    ...                 known=np.zeros(1000))
    >>> sample_ratio(rows).p_value, sample_ratio(rows.of(learned | (np.arange(1000) < 700))).is_off
    (1.0, True)
    """
    _, first = np.unique(assigned.unit, return_index=True)
    learned, share = assigned.learned[first], assigned.learned_share[first]
    spread = float(np.sum(share * (1.0 - share)))
    z = float(np.sum(learned - share)) / sqrt(spread) if spread > 0.0 else 0.0
    count = int(np.count_nonzero(learned))
    return SampleRatio(
        learned=count,
        baseline=len(first) - count,
        expected_share=float(np.mean(share)) if len(first) else 0.0,
        p_value=float(2.0 * special.ndtr(-abs(z))),
    )
