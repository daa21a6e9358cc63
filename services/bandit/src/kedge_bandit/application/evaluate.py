"""Evaluate: value a policy that was never served from the randomised traffic of one that was."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from kedge_bandit.application.ports import Decisions, Ledgers, LoggedDecision
from kedge_bandit.application.take_turns import MOST_READ, TakeTurns, giving_way
from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.doubly_robust import Log
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import choose
from kedge_bandit.domain.errors import InvalidValue, UnknownAction
from kedge_bandit.domain.evaluation import Evaluation, evaluate
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.local_decision import asked_for
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation

MOST_EPISODES: Final = 100_000
"""Rows of one evaluation; with 36 actions they take some 100 MB for as long as it lasts."""
_PAGE: Final = 2_000
_FEWEST: Final = 2
_OFF: Final = 1e-6

Distribution = Mapping[str, float]
"""Probability by action key; what it leaves out has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a policy would serve: the same in every bucket, but for those that are named."""

    everywhere: Distribution
    by_bucket: Mapping[str, Distribution] = field(default_factory=dict)

    def check(self, policy: Policy) -> None:
        """Refuse what is no distribution over the policy's actions. Raises InvalidValue, UnknownAction."""
        for where, shares in (("", self.everywhere), *self.by_bucket.items()):
            for key in shares:
                if key not in policy.spec.action_keys:
                    raise UnknownAction(key)
            total = sum(shares.values())
            if min(shares.values(), default=0.0) < 0.0 or not abs(total - 1.0) <= _OFF:
                found = f"{dict(shares)!r}, which sums to {total:g}"
                raise InvalidValue(f"target of {where[:80]!r}", found, "probabilities of action keys that sum to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation and what it is of.

    Attributes:
        left_out: decisions of the time that are no row, by why: the reason they were served for, or what became of
            their episode.
        evaluation: None where fewer than two rows are left.
    """

    left_out: Mapping[str, int]
    evaluation: Evaluation | None


@dataclass(frozen=True, slots=True)
class EvaluatePolicy:
    """Evaluate a target on one policy's log."""

    ledgers: Ledgers
    turns: TakeTurns = field(default_factory=TakeTurns)
    most_read: int = MOST_READ

    async def __call__(
        self, tenant: TenantId, name: PolicyName, target: Target, *, start: datetime | None, end: datetime | None
    ) -> Evaluated:
        """Evaluate it. A transaction reads the log; the sums are made beside the event loop.

        Args:
            start, end: of the decisions that count; None: from the first, to the last.

        Raises:
            InvalidValue: the target is no distribution, or the time holds more than 100,000 rows or 500,000 decisions.
            UnknownAction, PolicyNotFound, TenantDenied: there is none.
        """
        async with self.turns.turn(tenant):
            async with self.ledgers.open(tenant, one_view=True) as ledger:
                policy = await ledger.policies.get(name)
                target.check(policy)
                rows = _Rows(policy, ledger.decisions)
                async for logged in giving_way(ledger.decisions.export(name, start=start, end=end)):
                    if len(rows.kept) + rows.left_out.total() == self.most_read:
                        found = f"more than {self.most_read} decisions"
                        raise InvalidValue("evaluated time", found, "a later start_time")
                    await rows.add(logged)
                await rows.look_up()
            is_enough = len(rows.rewards) >= _FEWEST
            valued = await asyncio.to_thread(rows.evaluation, target) if is_enough else None
        return Evaluated(left_out=dict(sorted(rows.left_out.items())), evaluation=valued)


def reward_or_why_not(logged: LoggedDecision) -> float | str:
    """Give what a decision earned, or why it is no row of an evaluation.

    Its action has to be drawn from a published vector, once for its episode, and its reward learned from.
    """
    decision, episode = logged.decision, logged.episode
    if decision.reason is not Reason.DRAWN:
        return decision.reason.value
    if not decision.is_randomised:
        return "NOT_RANDOMISED"
    if decision.set_aside is not None:
        return decision.set_aside.value
    if decision.superseded:
        return "SUPERSEDED"
    if episode is None:
        return "NOT_LOGGED"
    if episode.reward is None:
        return episode.state
    return episode.reward if episode.weight > 0.0 else episode.weight_reason or "NOT_LEARNED_FROM"


@dataclass(slots=True)
class _Rows:
    """Gathers rows, looking their allocations up page by page."""

    policy: Policy
    decisions: Decisions
    left_out: Counter[str] = field(default_factory=Counter)
    kept: list[Decision] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    vectors: list[Sequence[float]] = field(default_factory=list)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    async def add(self, logged: LoggedDecision) -> None:
        reward = reward_or_why_not(logged)
        if isinstance(reward, str):
            self.left_out[reward] += 1
            return
        if len(self.rewards) >= MOST_EPISODES:
            raise InvalidValue("evaluated time", f"more than {MOST_EPISODES} episodes", "a later start_time")
        self.kept.append(logged.decision)
        self.rewards.append(reward)
        if len(self.kept) - len(self.vectors) >= _PAGE:
            await self.look_up()

    async def look_up(self) -> None:
        """Find the vectors that the newest rows were drawn from."""
        new = self.kept[len(self.vectors) :]
        published = await self.decisions.published(self.policy.name, {one.allocation_version for one in new})
        by_version = {allocation.version: allocation for allocation in published}
        for decision in new:
            allocation = by_version[decision.allocation_version]
            self.vectors.append(_vector(decision, allocation))
            self.keys.append(allocation.actions)
            self.places.append(allocation.index[decision.action])

    def evaluation(self, target: Target) -> Evaluation:
        """Lay the rows out over every action that any of them could draw, and evaluate."""
        known = dict.fromkeys(self.policy.spec.action_keys)
        known.update((key, None) for keys in dict.fromkeys(self.keys) for key in keys)
        column = {key: place for place, key in enumerate(known)}
        columns = {keys: [column[key] for key in keys] for keys in dict.fromkeys(self.keys)}
        logged = np.zeros((len(self.kept), len(column)))
        for row, (vector, keys) in enumerate(zip(self.vectors, self.keys, strict=True)):
            logged[row, columns[keys]] = vector
        buckets = {name: place for place, name in enumerate(dict.fromkeys(one.bucket for one in self.kept))}
        log = Log(
            rewards=np.array(self.rewards),
            actions=np.array([columns[keys][place] for keys, place in zip(self.keys, self.places, strict=True)]),
            buckets=np.array([buckets[one.bucket] for one in self.kept]),
            logged=logged,
        )
        served = np.stack([_over(target.by_bucket.get(name, target.everywhere), column) for name in buckets])
        baseline = column[self.policy.spec.baseline_key]
        wanted = served[log.buckets]
        _narrow(wanted, self.kept, column, baseline)
        only_baseline = np.zeros_like(wanted)
        only_baseline[:, baseline] = 1.0
        return evaluate(log, wanted, only_baseline)


def _vector(decision: Decision, allocation: Allocation) -> Sequence[float]:
    """Give what a decision was drawn from, narrowed to what its caller could serve."""
    if decision.available is None:
        return allocation.p
    epoch, version = decision.seed_epoch, allocation.version
    u = uniform(decision.tenant, decision.policy, decision.episode_id, epoch, version)
    return choose(allocation, asked_for(decision), decision.mode, u).vector


def _over(shares: Distribution, column: Mapping[str, int]) -> FloatArray:
    vector = np.zeros(len(column))
    for key, share in shares.items():
        vector[column[key]] = share
    return vector


def _narrow(wanted: FloatArray, decisions: Sequence[Decision], column: Mapping[str, int], baseline: int) -> None:
    """Give to the baseline what a target would have served but the caller could not."""
    for row, decision in enumerate(decisions):
        if decision.available is not None:
            able = list({column[key] for key in decision.available if key in column})  # callers may name one twice
            kept = wanted[row, able]
            wanted[row] = 0.0
            wanted[row, able] = kept
            wanted[row, baseline] += 1.0 - kept.sum()
