"""Replay: recompute a decision from the database alone, as if nothing but the log and the configuration were left.

Evidence up to the allocation's place in the log is folded anew at its policy time, the learner reads it, the vector and
the budget are recomputed, and the seeded draw is made again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kedge_bandit.application.ports import Ledger, Ledgers
from kedge_bandit.application.publish import seed_of, vector
from kedge_bandit.domain.arrays import BoolArray
from kedge_bandit.domain.budget import holds
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import choose
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.identifiers import DecisionId, PolicyName, TenantId
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import Learner, believe
from kedge_bandit.domain.local_decision import asked_for
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.usage import is_capped
from kedge_bandit.domain.veto_belief import EXCLUDE_ABOVE, READMIT_BELOW, eligibility

TOLERANCE = 1e-9
"""Largest difference of a recomputed probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay found.

    Attributes:
        vector_error: largest difference between the recomputed and the recorded q, p, mean or propensity.
        detail: what does not match, in words; empty where all does.
    """

    decision_id: DecisionId
    matches: bool
    vector_error: float
    recomputed_action: str
    stored_action: str
    detail: str


@dataclass(frozen=True, slots=True)
class Recomputed:
    """An allocation made again from the log.

    Attributes:
        allocation: as recorded, with q, p, mean and the budget recomputed.
        error: largest difference to the recorded numbers.
        problems: what contradicts the record beyond numbers.
    """

    allocation: Allocation
    error: float
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """Replay decisions."""

    ledgers: Ledgers
    learners: Mapping[str, Learner] = field(default_factory=lambda: LEARNERS)

    async def __call__(self, tenant: TenantId, decision_id: DecisionId) -> Replayed:
        """Replay one decision.

        Raises:
            DecisionNotFound, TenantDenied: there is none.
        """
        (replayed,) = await self.many(tenant, [decision_id])
        return replayed

    async def sample(self, tenant: TenantId, policy: PolicyName, *, size: int) -> list[Replayed]:
        """Replay decisions of a policy picked at random."""
        async with self.ledgers.open(tenant) as ledger:
            chosen = await ledger.learning.sample(policy, size=size)
        return await self.many(tenant, chosen)

    async def many(self, tenant: TenantId, decision_ids: Iterable[DecisionId]) -> list[Replayed]:
        """Replay decisions in order; the log of each policy is read once and each allocation made again once."""
        async with self.ledgers.open(tenant, one_view=True) as ledger:
            source = _Source(ledger, self.learners)
            return [await source.replay(await ledger.decisions.get(decision_id)) for decision_id in decision_ids]


@dataclass(slots=True)
class _Source:
    ledger: Ledger
    learners: Mapping[str, Learner]
    logs: dict[PolicyName, EvidenceLog] = field(default_factory=dict)
    policies: dict[tuple[PolicyName, int], Policy] = field(default_factory=dict)
    made: dict[tuple[PolicyName, int], Recomputed] = field(default_factory=dict)

    async def replay(self, decision: Decision) -> Replayed:
        if decision.allocation_version == 0:
            policy = await self._policy(decision.policy, decision.policy_version)
            return _report(decision, policy.spec.baseline_key, 0.0, ())
        key = (decision.policy, decision.allocation_version)
        if key not in self.made:
            recorded = await self.ledger.decisions.allocation(*key)
            policy = await self._policy(decision.policy, recorded.policy_version)
            log = await self._log(decision.policy)
            self.made[key] = recompute(recorded, policy, log, self.learners[policy.spec.learner_in_force])
        found = self.made[key]
        allocation = found.allocation
        u = uniform(decision.tenant, decision.policy, decision.episode_id, decision.seed_epoch, allocation.version)
        choice = choose(allocation, asked_for(decision), decision.mode, u)
        error = max(found.error, abs(choice.propensity - decision.propensity))
        problems = [*found.problems]
        if decision.seed_epoch != allocation.seed_epoch:
            problems.append("the decision names another seed epoch than its allocation")
        if choice.reason is not decision.reason:
            problems.append(f"the recomputed reason is {choice.reason}")
        return _report(decision, allocation.actions[choice.index], error, problems)

    async def _policy(self, name: PolicyName, version: int) -> Policy:
        if (name, version) not in self.policies:
            self.policies[name, version] = await self.ledger.policies.at_version(name, version)
        return self.policies[name, version]

    async def _log(self, name: PolicyName) -> EvidenceLog:
        if name not in self.logs:
            self.logs[name] = await self.ledger.learning.evidence_log(name)
        return self.logs[name]


def recompute(recorded: Allocation, policy: Policy, log: EvidenceLog, learner: Learner) -> Recomputed:
    """Make an allocation again from the log up to its place.

    Args:
        recorded: as published.
        policy: as it was configured then.
        log: of the policy; later rows are left out.
        learner: the policy's.
    """
    spec, upto = policy.spec, recorded.evidence_sequence
    if 0 < upto < log.readable_from:  # its evidence is folded, and the vector stands as it was published
        return Recomputed(recorded, 0.0, ())
    buckets, table = log.table(actions=spec.action_keys, as_of=recorded.as_of, half_life=spec.half_life, upto=upto)
    eligible = np.array(recorded.eligible)
    belief = believe(
        learner,
        table,
        bucket=buckets.index(recorded.bucket) if recorded.bucket in buckets else None,
        eligible=eligible,
        strength=spec.prior_strength,
        seed=seed_of(policy.name, recorded.bucket, recorded.version),
    )
    closed = _closed(recorded, policy, log)
    p = vector(belief.q, policy, eligible, is_closed=closed is not None)
    again = replace(recorded, q=tuple(belief.q.tolist()), p=p, mean=tuple(belief.mean.tolist()), closed=closed)
    pairs = ((recorded.q, again.q), (recorded.p, again.p), (recorded.mean, again.mean))
    error = max(float(np.abs(np.subtract(one, two)).max()) for one, two in pairs)
    problems = _eligibility_problems(recorded, policy, log, eligible)
    if closed is not recorded.closed:
        problems.append(f"the recomputed vector is {'closed by ' + closed if closed else 'open'}")
    return Recomputed(again, error, tuple(problems))


def _closed(recorded: Allocation, policy: Policy, log: EvidenceLog) -> Reason | None:
    """Say why the baseline alone was to be published, from what the caps saw and from the log."""
    decisions, cost_usd = recorded.non_baseline_decisions, recorded.non_baseline_cost_usd
    if is_capped(policy.spec.exploration, decisions=decisions, cost_usd=cost_usd):
        return Reason.CAP
    return Reason.BUDGET if _is_spent(recorded, policy, log) else None


def _is_spent(recorded: Allocation, policy: Policy, log: EvidenceLog) -> bool:
    spec = policy.spec
    if spec.exploration.budget_off:
        return False
    counts = log.plain(configuration_version=recorded.configuration_version, upto=recorded.evidence_sequence)
    n, s = (log.over_actions(sums, spec.action_keys) for sums in counts)
    return holds(n, s, spec.baseline_index, share=spec.exploration.budget_share)


def _eligibility_problems(recorded: Allocation, policy: Policy, log: EvidenceLog, eligible: BoolArray) -> list[str]:
    """Compare the mask with the veto belief: out means P > .9 at least, in means P ≤ .99; between, history decides."""
    spec = policy.spec
    sums = log.vetoes(as_of=recorded.as_of, half_life=spec.half_life, upto=recorded.evidence_sequence)
    episodes, vetoes = (log.over_actions(part, spec.action_keys) for part in sums)
    _, over = eligibility(episodes, vetoes, spec.baseline_index, ~eligible)
    return [
        f"{key} is recorded as {'eligible' if may else 'ineligible'} at P(over cap) = {probability:.6f}"
        for i, (key, may, probability) in enumerate(zip(spec.action_keys, eligible, over, strict=True))
        if i != spec.baseline_index
        and (probability > EXCLUDE_ABOVE + TOLERANCE if may else probability < READMIT_BELOW - TOLERANCE)
    ]


def _report(decision: Decision, action: str, error: float, problems: Iterable[str]) -> Replayed:
    said = list(problems)
    if action != decision.action:
        said.append(f"the recomputed action is {action}")
    if error > TOLERANCE:
        said.append(f"the recomputed vector differs by {error:.3e}")
    return Replayed(
        decision_id=decision.decision_id,
        matches=not said,
        vector_error=error,
        recomputed_action=action,
        stored_action=decision.action,
        detail="; ".join(said),
    )
