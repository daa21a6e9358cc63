"""Draw what a divergence check asks: cases of the sensor part, and for each an action of what was learned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.context import Context, bucket
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.holdout import HoldoutCase
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import COLD, Allocation


@dataclass(frozen=True, slots=True)
class Drawn:
    """A case with the arms of one action, and the probability that its bucket is served otherwise than the baseline."""

    case: HoldoutCase
    arms: Sequence[Arm]
    weight: float


def draw_cases(
    cases: Sequence[HoldoutCase], spec: PolicySpec, allocations: Mapping[str, Allocation], count: int, seed: bytes
) -> list[Drawn]:
    """Draw cases without replacement, and for each an action from p without the baseline.

    That is what the reward lift is about: the learned part, in the contexts that it gets. A case in whose bucket the
    baseline alone is served is not drawn.

    Args:
        allocations: the newest by bucket, that of buckets without one of their own under `COLD`.
        count: drawn at most.
        seed: of this draw, fresh for every check.
    """
    shares = {name: _learned(allocation, spec) for name, allocation in allocations.items()}
    cold = shares.get(COLD, {})
    known = [(case, shares.get(bucket(_context(case), spec.features), cold)) for case in cases]
    exposed = [(case, learned) for case, learned in known if learned]
    chance = np.random.default_rng(int.from_bytes(seed))
    chosen = [exposed[place] for place in chance.permutation(len(exposed))[:count].tolist()]
    return [_drawn(case, learned, spec, chance) for case, learned in chosen]


def _context(case: HoldoutCase) -> Context:
    return Context(dict(case.categories), dict(case.numbers))


def _learned(allocation: Allocation, spec: PolicySpec) -> dict[str, float]:
    """Give the probabilities of the live actions beside the baseline."""
    published = zip(allocation.actions, allocation.p, strict=True)
    return {key: p for key, p in published if p > 0 and key in spec.index and key != spec.baseline_key}


def _drawn(case: HoldoutCase, learned: Mapping[str, float], spec: PolicySpec, chance: np.random.Generator) -> Drawn:
    weight = sum(learned.values())
    keys, probabilities = list(learned), np.array(list(learned.values())) / weight
    action = spec.actions[spec.index[keys[int(chance.choice(len(keys), p=probabilities))]]]
    return Drawn(case, action.arms, weight)
