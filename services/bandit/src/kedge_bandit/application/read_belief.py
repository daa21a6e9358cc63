"""Read what is believed of every action in one bucket, as its learner reads the evidence now."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kedge_bandit.application.administration_ports import GovernedLedgers, LearnedState
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.publish import seed_of
from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.cells import Cells
from kedge_bandit.domain.density import densities
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import Learner, believe
from kedge_bandit.domain.mode import policy_clock
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.posterior import Evidence

GRID: Final[FloatArray] = np.linspace(0.0, 1.0, 101)
_DRAWS: Final = 4096
_INTERVAL: Final = (0.025, 0.975)
_SEED: Final = 20_260
"""A belief that did not change is drawn as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionBelief:
    """What is believed of one action's mean reward.

    Attributes:
        weight: discounted episodes of the bucket.
        mean, lower, upper: posterior mean, and the interval that holds it with probability .95, in [0, 1].
        probability_best: in [0, 1]; 0 for an action that is not eligible.
        density: over `GRID`.
    """

    action: str
    weight: float
    mean: float
    lower: float
    upper: float
    probability_best: float
    density: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BucketBelief:
    """What is believed in one bucket, and which buckets have evidence of their own."""

    bucket: str
    buckets: tuple[str, ...]
    actions: tuple[ActionBelief, ...]


@dataclass(frozen=True, slots=True)
class ReadBelief:
    """Read the belief of one bucket."""

    ledgers: GovernedLedgers
    clock: Clock
    learners: Mapping[str, Learner] = field(default_factory=lambda: LEARNERS)

    async def __call__(self, tenant: TenantId, name: PolicyName, bucket: str) -> BucketBelief:
        """Read it; an empty bucket is the one that nothing was seen of.

        Raises:
            TenantDenied, PolicyNotFound: there is no such policy.
            InvalidValue: the bucket has no evidence of its own.
        """
        async with self.ledgers.open(tenant) as ledger:
            policy = await ledger.policies.get(name)
            learned = await ledger.policies.learned(name, with_cells=True)
            changes = await ledger.policies.mode_changes(name)
        as_of = policy_clock(changes).at(self.clock.now())
        return belief_of(policy, learned, bucket, as_of=as_of, learner=self.learners[policy.spec.learner_in_force])


def belief_of(policy: Policy, learned: LearnedState, bucket: str, *, as_of: float, learner: Learner) -> BucketBelief:
    """Believe as the worker would if it published the bucket at a policy time."""
    spec = policy.spec
    cells = Cells(((one.bucket, one.action_key), Evidence(one.n, one.s, one.s2, one.as_of)) for one in learned.cells)
    if bucket and bucket not in cells.buckets:
        raise InvalidValue(
            "bucket", repr(bucket[:80]), "one that has evidence: see `buckets` of an answer, or leave it out"
        )
    table = cells.table(spec.action_keys, as_of=as_of, half_life=spec.half_life)
    place = cells.buckets.index(bucket) if bucket else None
    excluded = {one.action_key for one in learned.actions if one.is_ineligible}
    eligible = np.array([key not in excluded for key in spec.action_keys])
    eligible[spec.baseline_index] = True
    seed = seed_of(policy.name, bucket, learned.allocation_version)
    belief = believe(learner, table, bucket=place, eligible=eligible, strength=spec.prior_strength, seed=seed)
    posterior = learner.posterior(table, bucket=place, strength=spec.prior_strength)
    draws = posterior.draw(np.random.default_rng(_SEED), _DRAWS)
    lower, upper = np.clip(np.quantile(draws, _INTERVAL, axis=0), 0.0, 1.0)
    weights, _, _ = table.own(place)
    drawn = densities(draws, GRID)
    actions = tuple(
        ActionBelief(
            action=key,
            weight=float(weights[i]),
            mean=float(belief.mean[i]),
            lower=float(lower[i]),
            upper=float(upper[i]),
            probability_best=float(belief.q[i]),
            density=tuple(drawn[i].tolist()),
        )
        for i, key in enumerate(spec.action_keys)
    )
    return BucketBelief(bucket, cells.buckets, actions)
