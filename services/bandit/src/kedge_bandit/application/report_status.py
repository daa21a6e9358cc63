"""Report how a policy does: what was learned, what was counted, and what to look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from kedge_bandit.application.administration_ports import GovernedLedgers, LearnedState, Override
from kedge_bandit.domain.advice import FEWEST_EFFECTIVE, effective_episodes, warnings_of
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.policy import Exploration, Policy
from kedge_bandit.domain.usage import Usage

BEHIND_AFTER = timedelta(seconds=10)
"""Age of a raw row from which the worker is said to be behind; it takes rows after a second at most."""
_STATES = ("SETTLED", "VETOED", "UNSCORED", "PENDING", "CANCELLED")


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """A policy, its effective mode, what was learned, and sentences that say what to look at.

    Attributes:
        effective_episodes: per live cell in the long run, at the present rate; None while there is no rate.
    """

    policy: Policy
    effective_mode: Mode
    learned: LearnedState
    warnings: tuple[str, ...]
    effective_episodes: float | None


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
        outside = {by: mode for by, mode in self.override.levels(tenant, name).items() if mode.restriction}
        effective = most_restrictive((*modes, *outside.values()))
        restricted = (f"{by} says {mode}, from outside the database" for by, mode in outside.items())
        objections = (self.override.complaint(),) if self.override.complaint() else ()
        warnings = (*objections, *restricted, *warnings_of(policy.spec), *look_at(policy, learned))
        return PolicyStatus(policy, effective, learned, warnings, effective_per_cell(policy, learned))


def look_at(policy: Policy, learned: LearnedState) -> Iterator[str]:
    """Say in sentences what the learned state shows."""
    if learned.backlog and learned.backlog_age > BEHIND_AFTER:
        waited = learned.backlog_age.total_seconds()
        yield f"{learned.backlog} rows wait for the worker, the oldest for {waited:.0f} s: see whether it runs"
    if learned.learning_held:
        yield f"learning is held: {learned.learning_held}"
    if learned.self_check is not None and learned.self_check.alarm:
        yield f"the self-check alarms: p = {learned.self_check.p_value:.2g}; logged propensities and draws disagree"
    if learned.closed is Reason.BUDGET:
        yield "the exploration budget allows no exploring now: the baseline alone is published"
    if learned.closed is Reason.CAP and learned.usage is not None:
        yield _capped(learned.usage, policy.spec.exploration)
    keys = set(policy.spec.action_keys)
    for action in learned.actions:
        if action.is_ineligible and action.action_key in keys:
            yield f"{action.action_key} is not eligible: P(veto rate > cap) = {action.over_cap:.3f}"
    if learned.episode_counts.get("unmatched"):
        yield f"{learned.episode_counts['unmatched']} outcomes name decisions that have not arrived"
    per_cell = effective_per_cell(policy, learned)
    if per_cell is not None and per_cell < FEWEST_EFFECTIVE:
        yield f"at this rate a live cell holds {per_cell:.0f} effective episodes; under 100 choose a longer half-life"


def _capped(usage: Usage, exploration: Exploration) -> str:
    said = []
    if most := exploration.max_non_baseline_decisions_per_hour:
        said.append(f"{usage.decided} of {most} decisions in the hour")
    if most_usd := exploration.max_non_baseline_cost_usd_per_day:
        said.append(f"{usage.cost_usd:.2f} of {most_usd:.2f} US dollars in the day")
    return f"a cap on what is not the baseline is reached, {' and '.join(said)}: the baseline alone is published"


def effective_per_cell(policy: Policy, learned: LearnedState) -> float | None:
    """Give the effective episodes that a live cell holds in the long run; None while there is no rate to tell it by."""
    ended = sum(learned.episode_counts.get(state, 0) for state in _STATES)
    if not ended or not learned.decisions_per_second:
        return None
    scored = sum(learned.episode_counts.get(state, 0) for state in ("SETTLED", "VETOED"))
    return effective_episodes(
        per_second=learned.decisions_per_second,
        half_life_seconds=policy.spec.half_life.total_seconds(),
        coverage=scored / ended,
        live_cells=max(1, learned.buckets) * len(policy.spec.actions),
    )
