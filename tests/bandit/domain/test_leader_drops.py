"""When the leader of many turns becomes worse, half of the free traffic has left it soon."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.best_arm import probability_best
from kedge_bandit.domain.known_change import factor_of

BASELINE, LEADER, OTHER = range(3)
HALF_LIFE, EVERY = 2_000, 50
"""In turns: of evidence, and between two publications."""
BEFORE = np.array([0.5, 0.8, 0.7])
AFTER = np.array([0.5, 0.4, 0.7])
FLOOR, SLICE = 0.2, 0.1


@dataclass
class Play:
    """One policy of three arms with discounted evidence."""

    rng: np.random.Generator
    n: np.ndarray = field(default_factory=lambda: np.zeros(3))
    s: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def shares(self) -> np.ndarray:
        q = probability_best(1.0 + self.s, 1.0 + self.n - self.s)
        return allocate(q, subset=[True] * 3, baseline=BASELINE, floor=FLOOR, uniform_slice=SLICE)

    def turns(self, means: np.ndarray) -> np.ndarray:
        """Play until the next publication; gives the shares that were played by."""
        p = self.shares()
        drawn = self.rng.choice(3, size=EVERY, p=p)
        kept = 2.0 ** (-EVERY / HALF_LIFE)
        self.n = self.n * kept + np.bincount(drawn, minlength=3)
        self.s = self.s * kept + np.bincount(drawn, self.rng.random(EVERY) < means[drawn], 3)
        return p

    def turns_until_half_has_left(self, most: int) -> int:
        """Count the turns after the drop until the leader has less than half of the free traffic."""
        for played in range(0, most, EVERY):
            p = self.turns(AFTER)
            if p[LEADER] < (1 - FLOOR - SLICE) / 2:
                return played
        return most


def led(seed: int) -> Play:
    """Play 50,000 turns in which one arm leads."""
    play = Play(np.random.default_rng(seed))
    for _ in range(0, 50_000, EVERY):
        play.turns(BEFORE)
    return play


@pytest.mark.parametrize("seed", range(2))
def test_within_one_and_a_half_half_lives_where_nobody_says_so(seed: int) -> None:
    play = led(seed)
    assert play.shares()[LEADER] > 0.6

    assert play.turns_until_half_has_left(3 * HALF_LIFE) <= 1.5 * HALF_LIFE


@pytest.mark.parametrize("seed", range(2))
def test_within_three_hundred_turns_of_a_known_change(seed: int) -> None:
    play = led(seed)
    factor = factor_of(float(play.n[LEADER]))
    play.n[LEADER] *= factor
    play.s[LEADER] *= factor

    assert play.turns_until_half_has_left(3 * HALF_LIFE) <= 300
