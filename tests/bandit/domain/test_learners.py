"""Hold every registered learner to the same promises; a new one is judged here without a line of its own."""

from datetime import timedelta

import numpy as np
import pytest

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import Belief, EvidenceTable, Learner
from kedge_bandit.domain.posterior import EvidenceRow, fold

NOW = 1.7e9
H = timedelta(days=14)
BUCKETS = ["long", "short", "tiny"]
ACTIONS = ["a", "b", "c", "d"]

every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


def table(rows: list[EvidenceRow], as_of: float = NOW) -> EvidenceTable:
    sums = np.zeros((3, len(BUCKETS), len(ACTIONS)))
    for cell, evidence in fold(rows, as_of=as_of, half_life=H).items():
        sums[:, BUCKETS.index(cell.bucket), ACTIONS.index(cell.action)] = evidence.n, evidence.s, evidence.s2
    return EvidenceTable(*sums)


def random_rows(seed: int, episodes: int = 400) -> list[EvidenceRow]:
    rng = np.random.default_rng(seed)
    return [
        EvidenceRow(
            policy="support",
            bucket=str(rng.choice(BUCKETS[:2])),
            action=str(rng.choice(ACTIONS)),
            episode_id=f"e{number}",
            reward_version=1,
            policy_time=NOW - float(rng.uniform(0.0, 3e6)),
            weight=1.0,
            reward=float(rng.beta(3.0, 1.5)),
        )
        for number in range(episodes)
    ]


def believe(
    learner: Learner, evidence: EvidenceTable, bucket: int | None = 0, eligible: BoolArray | None = None, seed: int = 1
) -> Belief:
    mask = np.ones(evidence.n.shape[1], bool) if eligible is None else eligible
    return learner.believe(evidence, bucket=bucket, eligible=mask, strength=6.0, seed=seed)


def gap(one: Belief, two: Belief) -> float:
    return float(max(np.abs(one.q - two.q).max(), np.abs(one.mean - two.mean).max()))


def extreme_tables() -> list[EvidenceTable]:
    """Nothing, almost nothing, a billion, only failures, only successes, and all of them in one row."""
    sizes: list[FloatArray] = [np.full((3, 4), n) for n in (0.0, 1e-300, 1e-9, 0.5, 1e9)]
    sizes.append(np.array([[0.0, 1e-9, 1e9, 3.0]] * 3))
    return [EvidenceTable(n, n * mean, n * mean * mean) for n in sizes for mean in (0.0, 1e-12, 0.5, 1.0 - 1e-12, 1.0)]


@every_learner
def test_the_registry_knows_a_learner_by_its_own_name(learner: Learner) -> None:
    assert LEARNERS[learner.name] is learner


@every_learner
def test_the_order_of_arrival_does_not_matter(learner: Learner) -> None:
    rows = random_rows(1)

    assert gap(believe(learner, table(rows)), believe(learner, table(rows[::-1]))) < 1e-9


@every_learner
def test_a_duplicate_changes_nothing(learner: Learner) -> None:
    rows = random_rows(2)

    assert gap(believe(learner, table(rows)), believe(learner, table(rows + rows[:100]))) == 0.0


@every_learner
def test_the_same_inputs_give_the_same_bits(learner: Learner) -> None:
    evidence = table(random_rows(3))

    assert gap(believe(learner, evidence), believe(learner, evidence)) == 0.0


@every_learner
def test_freezing_and_resuming_is_the_identity(learner: Learner) -> None:
    rows = random_rows(4)
    frozen = believe(learner, table(rows, as_of=NOW))

    resumed = believe(learner, table(rows, as_of=NOW))  # policy time did not pass

    assert gap(frozen, resumed) == 0.0


@every_learner
@pytest.mark.parametrize("bucket", [0, 1, 2, None])
def test_belief_is_a_simplex_over_the_eligible_actions_alone(learner: Learner, bucket: int | None) -> None:
    evidence = table(random_rows(5))
    for mask in ([True] * 4, [True, False, True, False], [False, False, False, True]):
        eligible = np.array(mask)

        belief = believe(learner, evidence, bucket, eligible)

        assert abs(belief.q.sum() - 1.0) < 1e-9
        assert belief.q.min() >= 0.0
        assert (belief.q[~eligible] == 0.0).all()
        assert ((belief.mean >= 0.0) & (belief.mean <= 1.0)).all()


@every_learner
def test_belief_is_finite_on_extreme_evidence(learner: Learner) -> None:
    for evidence in extreme_tables():
        for bucket in (0, 2, None):
            belief = believe(learner, evidence, bucket)
            assert np.isfinite(belief.q).all()
            assert np.isfinite(belief.mean).all()
            assert abs(belief.q.sum() - 1.0) < 1e-9


@every_learner
def test_equal_evidence_is_believed_equally(learner: Learner) -> None:
    n = np.full((3, 4), 50.0)

    belief = believe(learner, EvidenceTable(n, n * 0.6, n * 0.4))

    assert np.abs(belief.q - 0.25).max() < 0.05  # learners that draw are allowed their noise


@every_learner
def test_much_better_evidence_takes_most_of_the_belief(learner: Learner) -> None:
    n = np.full((2, 3), 400.0)
    mean = np.array([0.5, 0.9, 0.5])

    assert believe(learner, EvidenceTable(n, n * mean, n * mean * mean)).q[1] > 0.99


@every_learner
def test_the_order_of_buckets_and_actions_is_only_a_name(learner: Learner) -> None:
    evidence = table(random_rows(6))
    actions, buckets = [2, 0, 3, 1], [1, 2, 0]
    turned = EvidenceTable(*(sums[np.ix_(buckets, actions)] for sums in (evidence.n, evidence.s, evidence.s2)))

    one, two = believe(learner, evidence, 0), believe(learner, turned, buckets.index(0))

    assert gap(Belief(one.q[actions], one.mean[actions]), two) < 0.05


@every_learner
def test_a_bucket_without_evidence_believes_what_the_cold_belief_does(learner: Learner) -> None:
    evidence = table(random_rows(7))

    assert gap(believe(learner, evidence, BUCKETS.index("tiny")), believe(learner, evidence, None)) < 1e-12


@every_learner
def test_the_cold_belief_learns_from_other_buckets(learner: Learner) -> None:
    n = np.full((2, 2), 400.0)
    mean = np.array([0.3, 0.8])

    assert believe(learner, EvidenceTable(n, n * mean, n * mean * mean), None).q[1] > 0.6


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_sums_that_no_evidence_has_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite and non-negative"):
        EvidenceTable(np.full((1, 2), wrong), np.zeros((1, 2)), np.zeros((1, 2)))


def test_tables_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="equal"):
        EvidenceTable(np.zeros((1, 2)), np.zeros((1, 3)), np.zeros((1, 2)))
