"""Report how a policy does: what was learned, what was counted, and what to look at."""

from collections.abc import Iterator
from dataclasses import dataclass

from kedge_bandit.application.administration_ports import GovernedLedgers, LearnedState, Override
from kedge_bandit.domain.advice import FEWEST_EFFECTIVE, effective_episodes, warnings_of
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.policy import Policy

_STATES = ("SETTLED", "VETOED", "UNSCORED", "PENDING", "CANCELLED")


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """A policy, its effective mode, what was learned, and sentences that say what to look at."""

    policy: Policy
    effective_mode: Mode
    learned: LearnedState
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Report on one policy."""

    ledgers: GovernedLedgers
    override: Override

    async def __call__(self, tenant: TenantId, name: PolicyName, *, with_cells: bool) -> PolicyStatus:
        """Read it. Raises TenantDenied, PolicyNotFound."""
        async with self.ledgers.open(tenant) as ledger:
            policy = await ledger.policies.get(name)
            modes = (policy.mode, await ledger.policies.tenant_mode(), await ledger.policies.global_mode())
            learned = await ledger.policies.learned(name, with_cells=with_cells)
        effective = most_restrictive((*modes, self.override(tenant, name)))
        return PolicyStatus(policy, effective, learned, (*warnings_of(policy.spec), *look_at(policy, learned)))


def look_at(policy: Policy, learned: LearnedState) -> Iterator[str]:
    """Say in sentences what the learned state shows."""
    if learned.learning_held:
        yield f"learning is held: {learned.learning_held}"
    if learned.self_check is not None and learned.self_check.alarm:
        yield f"the self-check alarms: p = {learned.self_check.p_value:.2g}; logged propensities and draws disagree"
    if learned.closed is Reason.BUDGET:
        yield "the exploration budget allows no exploring now: the baseline alone is published"
    keys = set(policy.spec.action_keys)
    for action in learned.actions:
        if action.is_ineligible and action.action_key in keys:
            yield f"{action.action_key} is not eligible: P(veto rate > cap) = {action.over_cap:.3f}"
    if learned.episode_counts.get("unmatched"):
        yield f"{learned.episode_counts['unmatched']} outcomes name decisions that have not arrived"
    yield from _thin_evidence(policy, learned)


def _thin_evidence(policy: Policy, learned: LearnedState) -> Iterator[str]:
    ended = sum(learned.episode_counts.get(state, 0) for state in _STATES)
    if not ended or not learned.decisions_per_second:
        return
    scored = sum(learned.episode_counts.get(state, 0) for state in ("SETTLED", "VETOED"))
    per_cell = effective_episodes(
        per_second=learned.decisions_per_second,
        half_life_seconds=policy.spec.half_life.total_seconds(),
        coverage=scored / ended,
        live_cells=max(1, learned.buckets) * len(policy.spec.actions),
    )
    if per_cell < FEWEST_EFFECTIVE:
        yield f"at this rate a live cell holds {per_cell:.0f} effective episodes; under 100 choose a longer half-life"
