"""Read a decision back with the distribution it was drawn from, and say why it came out so and what would change it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import accumulate

from kedge_bandit.application.ports import Ledgers
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.draw import interval_text, uniform
from kedge_bandit.domain.eligibility import Wish, choose, subset_of
from kedge_bandit.domain.identifiers import DecisionId, PolicyName, TenantId
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import Allocation

_WATCH_SECONDS = 1.0

_WHY = {
    Reason.DRAWN: "It was drawn from the published allocation.",
    Reason.FROZEN: "Something was frozen, so the baseline was served.",
    Reason.BYPASS: "Bypass was on, so the baseline was served.",
    Reason.OBSERVE: "The policy only observes: the baseline was served and a draw was logged beside it.",
    Reason.STALE: "The replica had no fresh allocation for this policy, so the baseline was served.",
    Reason.ERROR: "Something failed inside, so the baseline was served.",
    Reason.BUDGET: "The exploration budget was spent, so the published vector was the baseline alone.",
    Reason.CAP: "A cap on what exploring may do was reached, so the published vector was the baseline alone.",
    Reason.OVER_QUOTA: "The tenant was over its quota of decisions, so the baseline was served.",
    Reason.BASELINE_UNAVAILABLE: "The caller could not serve the baseline: the available action of highest mean.",
    Reason.PINNED: "The caller fixed the action.",
    Reason.NO_EXPLORATION: "The caller asked for no exploration.",
    Reason.TOOL_LOOP: "Inside a tool loop nothing is drawn.",
    Reason.BEST_ACTION: "The eligible action of highest mean was asked for.",
}


@dataclass(frozen=True, slots=True)
class FoundDecision:
    """A decision with the policy it was made under and the distribution it was drawn from."""

    decision: Decision
    spec: PolicySpec
    allocation: Allocation | None
    actions: tuple[str, ...]
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """Read one decision."""

    ledgers: Ledgers

    async def __call__(self, tenant: TenantId, decision_id: DecisionId) -> FoundDecision:
        """Read it. Raises DecisionNotFound, TenantDenied."""
        async with self.ledgers.open(tenant) as ledger:
            decision = await ledger.decisions.get(decision_id)
            policy = await ledger.policies.at_version(decision.policy, decision.policy_version)
            if decision.allocation_version == 0:
                return FoundDecision(decision, policy.spec, None, (decision.action,), (1.0,))
            allocation = await ledger.decisions.allocation(decision.policy, decision.allocation_version)
        return FoundDecision(decision, policy.spec, allocation, allocation.actions, vector_of(decision, allocation))

    async def arms(self, tenant: TenantId, policy: PolicyName) -> AsyncIterator[tuple[Arm, ...]]:
        """Give a policy's arms, and again after every change."""
        version = -1
        while True:
            async with self.ledgers.open(tenant) as ledger:
                found = await ledger.policies.get(policy)
            if found.version != version:
                version = found.version
                yield found.spec.arms
            await asyncio.sleep(_WATCH_SECONDS)


@dataclass(frozen=True, slots=True)
class Line:
    """One action as it stood: the draws in [draw_from, draw_to) would have chosen it."""

    action: str
    eligible: bool
    available: bool
    probability_best: float
    mean: float
    propensity: float
    draw_from: float
    draw_to: float


@dataclass(frozen=True, slots=True)
class Why:
    """An explanation."""

    found: FoundDecision
    lines: tuple[Line, ...]
    draw: float
    floor: float
    uniform_slice: float
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explain:
    """Explain one decision."""

    read: ReadDecision

    async def __call__(self, tenant: TenantId, decision_id: DecisionId) -> Why:
        """Explain it. Raises DecisionNotFound, TenantDenied."""
        found = await self.read(tenant, decision_id)
        decision, allocation = found.decision, found.allocation
        if allocation is None:
            return Why(found, (), 0.0, 1.0, 0.0, (_WHY[decision.reason],))
        u = uniform(tenant, decision.policy, decision.episode_id, decision.seed_epoch, decision.allocation_version)
        able = frozenset(decision.available or allocation.actions)
        upper = tuple(accumulate(found.vector))
        lines = tuple(
            Line(
                key,
                allocation.eligible[i],
                key in able,
                allocation.q[i],
                allocation.mean[i],
                found.vector[i],
                upper[i] - found.vector[i],
                upper[i],
            )
            for i, key in enumerate(allocation.actions)
        )
        return Why(found, lines, u, allocation.floor, allocation.uniform_slice, _sentences(found, lines, u))


def vector_of(decision: Decision, allocation: Allocation) -> tuple[float, ...]:
    """Recompute the distribution that a decision was drawn from, from its allocation's own row."""
    wish = Wish(available=decision.available or ())
    if decision.reason is Reason.DRAWN and subset_of(allocation, wish) is not None:
        u = uniform(
            decision.tenant, decision.policy, decision.episode_id, decision.seed_epoch, decision.allocation_version
        )
        return choose(allocation, wish, decision.mode, u).vector
    if decision.reason in (Reason.DRAWN, Reason.BUDGET):
        return allocation.p
    return tuple(1.0 if key == decision.action else 0.0 for key in allocation.actions)


def _sentences(found: FoundDecision, lines: tuple[Line, ...], u: float) -> tuple[str, ...]:
    decision = found.decision
    said = [_WHY[decision.reason]]
    if decision.reason is Reason.DRAWN:
        said.append(
            f"The draw u = {u:.6f} fell into the share of {decision.action}, propensity {decision.propensity:.4f}."
        )
        said.extend(
            f"A draw from {interval_text(line.draw_from, line.draw_to)} would have chosen {line.action}."
            for line in lines
            if line.propensity > 0 and line.action != decision.action
        )
    said.extend(
        f"{line.action} was not eligible: its veto rate is credibly over its cap."
        for line in lines
        if not line.eligible
    )
    said.extend(f"{line.action} was not available to the caller." for line in lines if not line.available)
    return tuple(said)
