"""Each secondary detector fires when its fault is planted, and stays silent over 200 healthy half-years.

`make trust ARGS=tests/trust/test_secondary_rates.py` plays all of them, 300 learned episodes a day, and writes
build/trust/secondary_rates.json; `make test` plays a sample. Every look goes through the detector's own code.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kedge_bandit.domain.detectors import (
    EPISODES_A_LOOK,
    VETO_EPISODES_A_LOOK,
    Look,
    Secondary,
    UsualVetoes,
    look_at,
)
from kedge_bandit.domain.divergence import Reading
from kedge_bandit.domain.ramp_metrics import Moments
from tests.trust import size
from tests.trust.written import write_json

HALF_YEARS = size.of(20, 200)
EPISODES = 180 * 300
FAULTY = 400
WORTH_FINDING = 30
"""Looks within which a planted fault has to be found."""

Draw = Callable[[np.random.Generator], NDArray[np.float64]]


def moments(values: NDArray[np.float64]) -> Moments:
    """Sum up episodes that all count the same."""
    n, x, xx = len(values), float(values.sum()), float((values**2).sum())
    return Moments(n, float(n), x, float(n), x, xx)


def looks_until(detector: Secondary, learned: Draw, baseline: Draw, *, looks: int, seed: int, before: int = 0) -> int:
    """Count the looks until the detector trips; 0: it does not.

    Args:
        before: healthy looks that only the baseline's veto rate is learned from.
    """
    rng = np.random.default_rng(seed)
    reading: dict[str, Reading] = {}
    usual = UsualVetoes()
    for _ in range(before):
        usual = usual.after(VETO_EPISODES_A_LOOK, int(baseline(rng).sum()))
    for at in range(1, looks + 1):
        look = Look(moments(learned(rng)), moments(baseline(rng)))
        usual = usual.after(look.baseline.n, round(look.baseline.wx))
        reading = {detector: look_at(detector, look, usual, reading)}
        if reading[detector].trips:
            return at
    return 0


def gap(judge_lift: float, verified_lift: float) -> Draw:
    """Draw judge minus task success: a coin the verifier sees, and a judge who half follows it."""

    def draw(rng: np.random.Generator) -> NDArray[np.float64]:
        success = (rng.random(EPISODES_A_LOOK) < 0.6 + verified_lift).astype(float)
        judged = 0.45 + 0.3 * (success - verified_lift) + judge_lift + rng.normal(0.0, 0.15, EPISODES_A_LOOK)
        seen: NDArray[np.float64] = np.clip(judged, 0.0, 1.0) - success
        return seen

    return draw


def length(ratio: float) -> Draw:
    """Draw the logarithm of an answer's tokens: 200 in the middle, some of them many times that."""
    return lambda rng: rng.normal(np.log(200 * ratio), 0.8, EPISODES_A_LOOK)


def vetoes(rate: float, episodes: int = VETO_EPISODES_A_LOOK) -> Draw:
    """Draw vetoes."""
    return lambda rng: (rng.random(episodes) < rate).astype(float)


HEALTHY: dict[str, tuple[Secondary, Draw, Draw]] = {
    "judge and verifier see nothing": (Secondary.JUDGE_GAP, gap(0, 0), gap(0, 0)),
    "judge and verifier see one gain": (Secondary.JUDGE_GAP, gap(0.06, 0.06), gap(0, 0)),
    "the verifier sees half of it": (Secondary.JUDGE_GAP, gap(0.06, 0.03), gap(0, 0)),
    "answers as long": (Secondary.ANSWER_LENGTH, length(1), length(1)),
    "answers a twentieth longer": (Secondary.ANSWER_LENGTH, length(1.05), length(1)),
    "vetoes 1 % on both sides": (Secondary.VETO_RATE, vetoes(0.01), vetoes(0.01)),
    "vetoes 1 %, a small floor": (Secondary.VETO_RATE, vetoes(0.01), vetoes(0.01, 10)),
    "vetoes 3 % on both sides": (Secondary.VETO_RATE, vetoes(0.03), vetoes(0.03)),
}
FAULTS: dict[str, tuple[Secondary, Draw, Draw]] = {
    "only the judge is pleased": (Secondary.JUDGE_GAP, gap(0.15, 0), gap(0, 0)),
    "answers a third longer": (Secondary.ANSWER_LENGTH, length(4 / 3), length(1)),
    "vetoes 1 to 5 %": (Secondary.VETO_RATE, vetoes(0.05), vetoes(0.01)),
}


def size_of_look(detector: Secondary) -> int:
    """Episodes of the learned side in one look."""
    return VETO_EPISODES_A_LOOK if detector is Secondary.VETO_RATE else EPISODES_A_LOOK


def test_healthy_half_years_trip_nothing() -> None:
    tripped = {
        name: sum(
            looks_until(detector, learned, baseline, looks=EPISODES // size_of_look(detector), seed=seed) > 0
            for seed in range(HALF_YEARS)
        )
        for name, (detector, learned, baseline) in HEALTHY.items()
    }
    write_json("secondary_rates", {"half_years": HALF_YEARS, "tripped": tripped})
    for name, count in tripped.items():
        print(f"{name:32} {count} of {HALF_YEARS}")

    assert all(count <= HALF_YEARS * 0.01 for count in tripped.values()), tripped


def test_planted_faults_are_found() -> None:
    found: dict[str, list[int]] = {}
    for name, (detector, learned, baseline) in FAULTS.items():
        before = 30 if detector is Secondary.VETO_RATE else 0
        found[name] = [
            looks_until(detector, learned, baseline, looks=WORTH_FINDING, seed=seed, before=before)
            * size_of_look(detector)
            for seed in range(FAULTY)
        ]
        print(f"{name:32} median {np.median(found[name]):.0f} learned episodes, at most {max(found[name])}")
    write_json("secondary_faults", {"runs": FAULTY, "learned_episodes": found})

    assert all(min(episodes) > 0 for episodes in found.values()), found
    rise = np.array(found["vetoes 1 to 5 %"])
    # 600 episodes are 300 of the learned side at a floor of one half.
    assert np.median(rise) <= 300, found
    assert np.mean(rise <= 600) >= 0.9, found
