"""Test the self-check: its statistic, its looks, actions that come and go, and its two errors over many runs."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import gammaincc

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.self_check import Finding, SelfCheck

KEYS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]


def drawn(rng: np.random.Generator, p: FloatArray, decisions: int) -> IntArray:
    return np.minimum(np.searchsorted(np.cumsum(p), rng.random(decisions), side="right"), p.size - 1)


def repeated(p: FloatArray, decisions: int) -> FloatArray:
    return np.tile(p, (decisions, 1))


def test_with_one_vector_it_is_the_classical_statistic() -> None:
    rng = np.random.default_rng(9)
    p, n = np.array([0.5, 0.3, 0.2]), 1_000
    chosen = drawn(rng, p, n)

    found = SelfCheck.start().add(KEYS[:3], repeated(p, n), chosen).finding()

    observed = np.bincount(chosen, minlength=3)
    pearson = float(((observed - n * p) ** 2 / (n * p)).sum())
    assert found.chi_square == pytest.approx(pearson, rel=1e-9)
    assert found.degrees_of_freedom == 2
    assert found.p_value == pytest.approx(float(gammaincc(1.0, pearson / 2.0)), rel=1e-9)


def test_batches_and_their_order_do_not_matter() -> None:
    rng = np.random.default_rng(10)
    p = rng.dirichlet(np.ones(4), size=900)
    chosen = np.array([drawn(rng, row, 1)[0] for row in p])

    whole = SelfCheck.start().add(KEYS[:4], p, chosen)
    parts = SelfCheck.start()
    for rows in (slice(600, 900), slice(0, 1), slice(1, 600)):
        parts = parts.add(KEYS[:4], p[rows], chosen[rows])

    assert parts.count == whole.count == 900
    assert parts.finding().chi_square == pytest.approx(whole.finding().chi_square, rel=1e-9)


def test_columns_are_matched_by_key_not_by_place() -> None:
    rng = np.random.default_rng(11)
    p = np.array([0.7, 0.2, 0.1])
    chosen = drawn(rng, p, 500)

    one = SelfCheck.start().add(["a", "b", "c"], repeated(p, 500), chosen)
    turned = one.add(["c", "a", "b"], repeated(p[[2, 0, 1]], 500), np.array([1, 2, 0])[chosen])

    assert turned.excess.tolist() == pytest.approx((2.0 * one.excess).tolist(), abs=1e-9)


def test_actions_may_enter_and_leave() -> None:
    rng = np.random.default_rng(12)
    check = SelfCheck.start()
    for keys in (["b", "d"], ["a", "b", "d"], ["a", "c"]):
        p = rng.dirichlet(np.full(len(keys), 5.0))
        check = check.add(keys, repeated(p, 400), drawn(rng, p, 400))

    assert check.keys == ("a", "b", "c", "d")
    assert check.expected.sum() == pytest.approx(1_200.0)
    assert check.finding().degrees_of_freedom == 3
    assert check.finding().p_value > 1e-3


def test_groups_of_actions_that_never_met_lose_a_degree_of_freedom() -> None:
    rng = np.random.default_rng(13)
    check = SelfCheck.start()
    for keys in (["a", "b"], ["c", "d"]):
        check = check.add(keys, repeated(np.array([0.4, 0.6]), 300), drawn(rng, np.array([0.4, 0.6]), 300))

    assert check.finding().degrees_of_freedom == 2


def test_rare_actions_are_judged_together() -> None:
    rng = np.random.default_rng(14)
    p = np.array([0.984, 0.006, 0.004, 0.003, 0.003])

    check = SelfCheck.start().add(KEYS[:5], repeated(p, 1_000), drawn(rng, p, 1_000))

    assert check.finding().degrees_of_freedom == 2  # 984, 6 and the other three together


def test_a_rare_action_alone_is_joined_to_the_next_rarest() -> None:
    p = np.array([0.9, 0.099, 0.001])

    check = SelfCheck.start().add(KEYS[:3], repeated(p, 1_000), drawn(np.random.default_rng(15), p, 1_000))

    assert check.finding().degrees_of_freedom == 1


def test_one_action_alone_can_never_disagree() -> None:
    check = SelfCheck.start().add(["a"], np.ones((500, 1)), np.zeros(500, np.int64))

    assert check.finding() == Finding(500, 0.0, 0, 1.0)


def test_nothing_seen_is_no_finding() -> None:
    assert SelfCheck.start().finding() == Finding(0, 0.0, 0, 1.0)


def test_an_action_chosen_without_any_probability_alarms_at_once() -> None:
    check = SelfCheck.start().add(["a", "b"], np.array([[1.0, 0.0]]), np.array([1]))

    assert check.finding().alarm


def test_looks_come_at_200_and_then_at_every_fifth_more() -> None:
    check, looks = SelfCheck.start(), []
    for _ in range(1_000):
        check = check.add(["a", "b"], np.full((1, 2), 0.5), np.array([check.count % 2]))
        if check.due:
            looks.append(check.count)
            check, _ = check.look()

    assert looks[0] == 200
    assert all(later == pytest.approx(1.2 * earlier, abs=2.0) for earlier, later in pairwise(looks))


def test_a_large_batch_is_looked_at_once() -> None:
    check = SelfCheck.start().add(["a", "b"], np.full((5_000, 2), 0.5), np.arange(5_000) % 2)

    after, _ = check.look()

    assert check.due
    assert not after.due


def run(rng: np.random.Generator, *, actions: int, decisions: int, floor: float, batch: int, swapped: bool) -> bool:
    """Play one policy whose belief wanders; say whether the check alarms.

    Swapped: the log gives the leading challenger's propensity to the last one and the other way round.
    """
    check, keys = SelfCheck.start(), KEYS[:actions]
    centre = rng.dirichlet(np.ones(actions))
    order = 1 + np.argsort(centre[1:])
    places = np.arange(actions)
    if swapped:
        places[[order[0], order[-1]]] = order[-1], order[0]
    for _ in range(decisions // batch):
        q = rng.dirichlet(60.0 * centre + 0.05)
        p = allocate(q, subset=np.ones(actions, bool), baseline=0, floor=floor, uniform_slice=0.1)
        check = check.add(keys, repeated(p[places], batch), drawn(rng, p, batch))
        if check.due:
            check, finding = check.look()
            if finding.alarm:
                return True
    return False


@pytest.mark.parametrize(("actions", "floor"), [(5, 0.8), (5, 0.3), (12, 0.3)])
def test_two_swapped_propensities_are_found_within_3000_decisions(actions: int, floor: float) -> None:
    runs = 100

    found = sum(
        run(np.random.default_rng(seed), actions=actions, decisions=3_000, floor=floor, batch=50, swapped=True)
        for seed in range(runs)
    )

    assert found >= 0.95 * runs


def test_400_healthy_runs_raise_no_alarm() -> None:
    alarms = sum(
        run(np.random.default_rng(seed), actions=5, decisions=5_000, floor=0.8, batch=200, swapped=False)
        for seed in range(400)
    )

    assert alarms == 0


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "floor"), [(2, 0.8), (12, 0.05), (12, 0.8)])
def test_healthy_long_runs_alarm_no_more_often_than_chance(actions: int, floor: float) -> None:
    alarms = sum(
        run(np.random.default_rng(seed), actions=actions, decisions=10_000, floor=floor, batch=200, swapped=False)
        for seed in range(400)
    )

    assert alarms <= 1  # 400 runs of 22 looks at 1e-5 make 0.09 on average, so two come up in 0.4 % of suites
