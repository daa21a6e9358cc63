"""Hold every registered learner to the same promises; a new one is judged here without a line of its own."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from math import sqrt

import numpy as np
import pytest

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.errors import NumericalFailure
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.anova import DRAWS
from kedge_bandit.domain.learners.learner import Belief, EvidenceTable, Learner, Posterior
from kedge_bandit.domain.learners.learner import believe as believe_with
from kedge_bandit.domain.posterior import EvidenceRow, fold

NOW = 1.7e9
H = timedelta(days=14)
BUCKETS = ("kind=long", "kind=short", "kind=tiny")  # nothing is ever seen in the last
ACTIONS = ("large|direct", "large|steps", "small|direct", "small|steps")
MANY = tuple("|".join(arms) for arms in product(("m0", "m1", "m2"), ("d0", "d1", "d2"), ("p0", "p1", "p2", "p3")))
NOISE = 5.0 * sqrt(0.25 / DRAWS)
"""Five standard errors of a share that a learner counts in its draws; those that integrate are far inside."""

every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


def table(rows: list[EvidenceRow], as_of: float = NOW) -> EvidenceTable:
    made = EvidenceTable.empty(BUCKETS, ACTIONS)
    for cell, evidence in fold(rows, as_of=as_of, half_life=H).items():
        at = BUCKETS.index(cell.bucket), ACTIONS.index(cell.action)
        made.n[at], made.s[at], made.s2[at] = evidence.n, evidence.s, evidence.s2
    return made


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


def of_mean(n: FloatArray, mean: FloatArray | float, actions: tuple[str, ...] = ()) -> EvidenceTable:
    """Sums of rewards that all equal their mean."""
    return EvidenceTable(n, n * mean, n * mean * mean, BUCKETS[: len(n)], actions)


def believe(
    learner: Learner, evidence: EvidenceTable, bucket: int | None = 0, eligible: BoolArray | None = None, seed: int = 1
) -> Belief:
    mask = np.ones(evidence.n.shape[1], bool) if eligible is None else eligible
    return believe_with(learner, evidence, bucket=bucket, eligible=mask, strength=6.0, seed=seed)


def gap(one: Belief, two: Belief) -> float:
    return float(max(np.abs(one.q - two.q).max(), np.abs(one.mean - two.mean).max()))


def extreme_tables() -> list[EvidenceTable]:
    """Nothing, almost nothing, a billion; only failures, only successes; all in one row; of 4 and of 36 actions."""
    made: list[EvidenceTable] = []
    for actions in (ACTIONS, MANY):
        sizes: list[FloatArray] = [np.full((3, len(actions)), n) for n in (0.0, 1e-300, 1e-9, 0.5, 1e9)]
        sizes.append(np.resize([0.0, 1e-300, 1e9, 3.0], (3, len(actions))))
        made += [of_mean(n, mean, actions) for n in sizes for mean in (0.0, 1e-12, 0.5, 1.0 - 1e-12, 1.0)]
    return made


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
def test_a_half_life_halves_the_sums_and_nothing_else(learner: Learner) -> None:
    rows = random_rows(8)
    now = table(rows)
    halved = EvidenceTable(now.n / 2.0, now.s / 2.0, now.s2 / 2.0, now.buckets, now.actions)

    later = table(rows, as_of=NOW + H.total_seconds())

    assert gap(believe(learner, halved), believe(learner, later)) < 1e-9


@every_learner
def test_evidence_of_long_ago_leaves_the_belief_of_no_evidence(learner: Learner) -> None:
    rows = random_rows(9)

    forgotten = believe(learner, table(rows, as_of=NOW + 60.0 * H.total_seconds()))

    assert gap(forgotten, believe(learner, EvidenceTable.empty(BUCKETS, ACTIONS))) < 1e-9


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
@pytest.mark.parametrize("strength", [0.0, 1e-9, 1000.0])
def test_any_allowed_strength_gives_a_belief(learner: Learner, strength: float) -> None:
    for evidence in (table(random_rows(10)), EvidenceTable.empty((), ACTIONS)):
        belief = believe_with(learner, evidence, bucket=None, eligible=np.ones(4, bool), strength=strength, seed=1)

        assert abs(belief.q.sum() - 1.0) < 1e-9


@every_learner
def test_equal_evidence_is_believed_equally(learner: Learner) -> None:
    for actions in (ACTIONS, MANY):
        n = np.full((3, len(actions)), 50.0)

        belief = believe(learner, EvidenceTable(n, n * 0.6, n * 0.4, BUCKETS, actions))

        assert np.abs(belief.q - 1.0 / len(actions)).max() < NOISE
        assert np.ptp(belief.mean) < 1e-9


@every_learner
def test_nothing_seen_favours_no_action(learner: Learner) -> None:
    belief = believe(learner, EvidenceTable.empty((), MANY), None)

    assert np.abs(belief.q - 1.0 / 36.0).max() < NOISE
    assert np.abs(belief.mean - 0.5).max() < 1e-12


@every_learner
def test_much_better_evidence_takes_most_of_the_belief(learner: Learner) -> None:
    n = np.full((2, 3), 400.0)
    mean = np.array([0.5, 0.9, 0.5])

    assert believe(learner, of_mean(n, mean)).q[1] > 0.99


@every_learner
def test_more_reward_for_an_action_is_never_believed_to_be_less(learner: Learner) -> None:
    n = np.full((2, 4), 30.0)
    low, high = (of_mean(n, np.array([0.5, 0.5, 0.5, mean]), ACTIONS) for mean in (0.5, 0.6))

    assert believe(learner, high).mean[3] > believe(learner, low).mean[3]
    assert believe(learner, high).q[3] > believe(learner, low).q[3]


@every_learner
def test_the_order_of_buckets_and_actions_is_only_a_name(learner: Learner) -> None:
    evidence = table(random_rows(6))
    actions, buckets = [2, 0, 3, 1], [1, 2, 0]
    place = np.ix_(buckets, actions)
    turned = EvidenceTable(
        evidence.n[place],
        evidence.s[place],
        evidence.s2[place],
        buckets=tuple(BUCKETS[i] for i in buckets),
        actions=tuple(ACTIONS[i] for i in actions),
    )

    one, two = believe(learner, evidence, 0), believe(learner, turned, buckets.index(0))

    assert np.abs(one.q[actions] - two.q).max() < sqrt(2.0) * NOISE
    assert np.abs(one.mean[actions] - two.mean).max() < 1e-9


@every_learner
def test_a_bucket_without_evidence_believes_what_the_cold_belief_does(learner: Learner) -> None:
    evidence = table(random_rows(7))

    assert gap(believe(learner, evidence, BUCKETS.index("kind=tiny")), believe(learner, evidence, None)) < 1e-12


@every_learner
def test_the_cold_belief_learns_from_other_buckets(learner: Learner) -> None:
    n = np.full((2, 2), 400.0)
    mean = np.array([0.3, 0.8])

    assert believe(learner, of_mean(n, mean), None).q[1] > 0.6


@every_learner
@pytest.mark.parametrize("bucket", [0, None])
def test_draws_of_the_belief_are_best_as_often_as_it_says(learner: Learner, bucket: int | None) -> None:
    draws = 40_000
    evidence = table(random_rows(11))
    belief = believe(learner, evidence, bucket)

    drawn = learner.posterior(evidence, bucket=bucket, strength=6.0).draw(np.random.default_rng(12), draws)

    assert drawn.shape == (draws, len(ACTIONS))
    often = np.bincount(drawn.argmax(axis=1), minlength=len(ACTIONS)) / draws
    assert np.abs(often - belief.q).max() < NOISE
    assert np.abs(drawn.mean(axis=0) - belief.mean).max() < 5.0 * drawn.std(axis=0).max() / sqrt(draws)


@dataclass(frozen=True, slots=True)
class Broken:
    """A belief that cannot be: it says what it is told."""

    says: FloatArray
    mean: FloatArray
    name: str = "broken"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float) -> Posterior:
        return self

    def best(self, eligible: BoolArray, seed: int) -> FloatArray:
        return self.says

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.tile(self.mean, (size, 1))


def test_what_is_no_belief_is_refused_and_never_published() -> None:
    sound = Broken(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    evidence = EvidenceTable.empty((), ("a", "b"))

    assert believe(sound, evidence, None).q.tolist() == [0.5, 0.5]
    for wrong in (
        replace(sound, says=np.array([np.nan, 1.0])),
        replace(sound, says=np.array([0.6, 0.5])),
        replace(sound, says=np.array([-0.5, 1.5])),
        replace(sound, mean=np.array([0.5, np.nan])),
    ):
        with pytest.raises(NumericalFailure):
            believe(wrong, evidence, None)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_sums_that_no_evidence_has_are_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite and non-negative"):
        EvidenceTable(np.full((1, 2), wrong), np.zeros((1, 2)), np.zeros((1, 2)))


def test_tables_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="equal"):
        EvidenceTable(np.zeros((1, 2)), np.zeros((1, 3)), np.zeros((1, 2)))
    with pytest.raises(ValueError, match="name"):
        EvidenceTable(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)), actions=("a", "b", "c"))
