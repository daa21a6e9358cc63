"""An experiment of nothing is hardly ever significant, however often one looks; nor does its split look broken."""

import numpy as np
import pytest

from kedge_bandit.domain.cluster_lift import Assigned, lift
from kedge_bandit.domain.experiment_report import ALPHA
from kedge_bandit.domain.sample_ratio import HIDES_BELOW, sample_ratio
from tests.trust.size import IS_FULL, of
from tests.trust.written import write_json

RUNS = of(60, 1_000)
DAYS, A_DAY = of(14, 28), 150
"""Daily looks from the first day on."""
TURNS_A_SESSION = 3.0
LARGEST = 0.05


def played(random: np.random.Generator, *, floor: float, in_sessions: bool) -> tuple[Assigned, np.ndarray]:
    """Draw rewards that owe nothing to the side: by bucket, and by session where sessions are assigned whole."""
    n = DAYS * A_DAY
    bucket = random.integers(0, 8, n)
    unit = np.repeat(np.arange(n), random.poisson(TURNS_A_SESSION - 1, n) + 1)[:n] if in_sessions else np.arange(n)
    learned = (random.random(n) < 1.0 - floor)[unit]
    known = (0.3 + 0.05 * bucket).astype(np.float64)
    habit = (random.random(n) - 0.5)[unit] * (0.6 if in_sessions else 0.0)
    reward = (random.random(n) < np.clip(known + habit, 0.0, 1.0)).astype(np.float64)
    assigned = Assigned(
        learned=learned,
        learned_share=np.full(n, 1.0 - floor),
        weight=np.where(learned, 1.0, (1.0 - floor) / floor),
        unit=unit.astype(np.int64),
        known=known,
    )
    return assigned, reward


def looks(seed: int, *, floor: float, in_sessions: bool) -> tuple[bool, bool]:
    """Say whether any daily look found a lift, and whether any would have hidden it."""
    assigned, reward = played(np.random.default_rng(seed), floor=floor, in_sessions=in_sessions)
    found = hidden = False
    for day in range(1, DAYS + 1):
        so_far = np.arange(len(reward)) < day * A_DAY
        seen = lift(reward[so_far], assigned.of(so_far), ALPHA)
        found |= seen.lower > 0.0 or seen.upper < 0.0
        hidden |= sample_ratio(assigned.of(so_far)).is_off
    return found, hidden


@pytest.mark.parametrize(
    ("floor", "in_sessions"),
    [(0.8, False), (0.5, False), (0.05, False), (0.5, True)],
    ids=["80", "50", "5", "sessions"],
)
def test_nothing_is_significant_in_at_most_one_run_of_twenty(floor: float, in_sessions: bool) -> None:
    seen = [looks(seed, floor=floor, in_sessions=in_sessions) for seed in range(RUNS)]
    ever, hid = (float(np.mean(column)) for column in zip(*seen, strict=True))
    name = f"floor {floor:g}{', sessions' if in_sessions else ''}"
    print(f"{name:<24} ever significant {ever:.4f}, ever hidden {hid:.4f} of {RUNS} runs, {DAYS} looks")
    if IS_FULL:
        write_json(
            f"experiment_aa_{floor:g}{'_sessions' if in_sessions else ''}", {"runs": RUNS, "ever": ever, "hid": hid}
        )
    slack = 0.0 if IS_FULL else 3.0 * (LARGEST * (1 - LARGEST) / RUNS) ** 0.5
    assert ever <= LARGEST + slack
    assert hid <= DAYS * HIDES_BELOW + slack
