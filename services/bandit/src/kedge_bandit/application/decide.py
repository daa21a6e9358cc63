"""Decide: the context falls into a bucket, the published allocation is looked up, a seeded draw picks the action.

Nothing here waits for I/O, but for one read where a caller says that an episode continues which this replica has not
seen, and for the commit where the tenant is durable. On any internal failure the answer is the baseline, with the
reason ERROR: never an exception on the user's path.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kedge_bandit.application.ports import Clock, Ledgers, RowWriter, Serving, Snapshot
from kedge_bandit.domain.context import Context, bucket, check_context
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import PLAIN, Choice, Wish, choose
from kedge_bandit.domain.errors import KedgeError, StoreUnavailable
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, decision_id, text_id
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import COLD, Allocation

MEMORY = 20_000
"""Episodes whose decision a replica remembers."""
COMMIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request for a decision.

    Attributes:
        earlier: the episode's first decision, read from its token; decides again without any lookup.
        continues: the episode has a decision that a replica which does not know it should read.
    """

    tenant: TenantId
    policy: PolicyName
    request_id: str
    episode_id: EpisodeId
    context: Context
    wish: Wish = PLAIN
    earlier: Decision | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """The answer.

    Attributes:
        actions: canonical actions of the distribution, with `vector` over them.
        reused: the answer of an earlier call of the same episode.
        is_pending: it has to be committed before it is answered.
    """

    decision: Decision
    serving: Serving
    allocation: Allocation | None
    vector: tuple[float, ...]
    reused: bool = False
    is_pending: bool = False


@dataclass(slots=True)
class Decide:
    """Choose an action for an episode; sticky per episode.

    Attributes:
        randomness: gives 74 random bits for a decision's id; the choice itself is a seeded draw.
        may_decide: takes a decision out of the tenant's quota; False where that is used up.
        failed: called with the exception whenever the answer is the baseline because something broke.
        commit_seconds: how long a durable decision waits for its commit before the baseline is served.
    """

    snapshot: Snapshot
    rows: RowWriter
    ledgers: Ledgers
    clock: Clock
    randomness: Callable[[], int]
    failed: Callable[[Exception], None]
    may_decide: Callable[[TenantId], bool] = lambda _tenant: True
    commit_seconds: float = COMMIT_SECONDS
    memory: OrderedDict[tuple[TenantId, PolicyName, EpisodeId], Decided] = field(default_factory=OrderedDict)

    async def __call__(self, ask: Ask) -> Decided:
        """Decide.

        Raises:
            KedgeError: the request itself is wrong (unknown tenant or policy, undeclared feature, bad id, ...).
        """
        decided = self.at_once(ask)
        if decided is None:
            decided = await self._read(ask)
        return await self.commit(ask, decided) if decided.is_pending else decided

    def at_once(self, ask: Ask) -> Decided | None:
        """Decide without waiting; None where the episode's decision has to be read first. Raises like a call.

        What comes back as pending is no answer yet: `commit` it.
        """
        serving = self._checked(ask)
        try:
            within = self.may_decide(ask.tenant)
            reused = self._remembered(ask, serving)
            if reused is not None:
                return reused
            if not within:  # neither written nor remembered: a flood takes no room from others
                return self._baseline(ask, serving, Reason.OVER_QUOTA)
            if ask.continues and ask.earlier is None and not self.snapshot.stale:
                return None
            return self._first(ask, serving)
        except KedgeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever broke, the user's turn goes on with the baseline
            return self._fallback(ask, serving, error)

    async def commit(self, ask: Ask, decided: Decided) -> Decided:
        """Commit what is pending; where another call of the episode was first, its decision is the answer."""
        try:
            async with asyncio.timeout(self.commit_seconds):
                return self._remember(ask, await self._committed(ask, decided))
        except Exception as error:  # noqa: BLE001 - whatever broke, the user's turn goes on with the baseline
            return self._fallback(ask, decided.serving, error)

    async def _read(self, ask: Ask) -> Decided:
        serving = self._checked(ask)
        try:
            return await self._recorded(ask, serving) or self._first(ask, serving)
        except StoreUnavailable as error:
            return self._fallback(ask, serving, error)
        except KedgeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever broke, the user's turn goes on with the baseline
            return self._fallback(ask, serving, error)

    def _checked(self, ask: Ask) -> Serving:
        serving = self.snapshot.serving(ask.tenant, ask.policy)
        text_id(ask.episode_id, field="episode_id")
        text_id(ask.request_id, field="request_id")
        check_context(ask.context, serving.policy.spec.features)
        return serving

    def _first(self, ask: Ask, serving: Serving) -> Decided:
        """Decide; pending where the tenant is durable, but breaking the glass and a stale view wait for nothing."""
        chosen = self._chosen(ask, serving)
        if serving.durable and serving.mode is not Mode.BYPASS and not self.snapshot.stale:
            return replace(chosen, is_pending=True)
        return self._kept(ask, chosen)

    async def _committed(self, ask: Ask, decided: Decided) -> Decided:
        winner = None
        if not await self.rows.first_decision(decided.decision):
            winner = await self._recorded(ask, decided.serving)
            if winner is None:  # made before a freeze or under one that is over: it does not stand now
                await self.rows.decisions(ask.tenant, [decided.decision])
        return winner or replace(decided, is_pending=False)

    def _fallback(self, ask: Ask, serving: Serving, error: Exception) -> Decided:
        self.failed(error)
        return self._kept(ask, self._baseline(ask, serving, Reason.ERROR))

    def _chosen(self, ask: Ask, serving: Serving) -> Decided:
        mode = serving.mode
        if self.snapshot.stale and not mode.stops_time:
            return self._baseline(ask, serving, Reason.STALE)
        name = bucket(ask.context, serving.policy.spec.features)
        allocation = serving.allocations.get(name) or serving.allocations.get(COLD)
        if allocation is None or not self._servable(allocation, serving):
            reason = {Mode.FROZEN: Reason.FROZEN, Mode.BYPASS: Reason.BYPASS}.get(mode, Reason.STALE)
            return self._baseline(ask, serving, reason, name)
        u = uniform(ask.tenant, ask.policy, ask.episode_id, allocation.seed_epoch, allocation.version)
        wish = _without_retired(ask.wish, allocation, serving)
        choice = choose(allocation, wish, mode, u)
        decision = self._decision(ask, serving, name, choice, allocation, wish.available)
        return Decided(decision, serving, allocation, choice.vector)

    def _servable(self, allocation: Allocation, serving: Serving) -> bool:
        return (
            allocation.policy_version == serving.policy.version or serving.policy.spec.baseline_key in allocation.index
        )

    def _baseline(self, ask: Ask, serving: Serving, reason: Reason, name: str = COLD) -> Decided:
        choice = Choice(0, 1.0, reason, False, (1.0,))
        decision = self._decision(ask, serving, name, choice, None, ask.wish.available)
        return Decided(decision, serving, None, choice.vector)

    def _decision(
        self,
        ask: Ask,
        serving: Serving,
        name: str,
        choice: Choice,
        allocation: Allocation | None,
        available: tuple[str, ...],
    ) -> Decision:
        """Put a choice on record: an action of an allocation, or without one the baseline."""
        policy = serving.policy
        now = self.clock.now()
        rate = policy.spec.settlement.judge_rate
        return Decision(
            decision_id=decision_id(int(now.timestamp() * 1000), self.randomness()),
            tenant=ask.tenant,
            policy=ask.policy,
            episode_id=ask.episode_id,
            request_id=ask.request_id,
            time=now,
            context=ask.context,
            bucket=name,
            available=available or None,
            action=policy.spec.baseline_key if allocation is None else allocation.actions[choice.index],
            propensity=choice.propensity,
            policy_version=policy.version if allocation is None else allocation.policy_version,
            allocation_version=0 if allocation is None else allocation.version,
            seed_epoch=policy.seed_epoch if allocation is None else allocation.seed_epoch,
            mode=serving.mode,
            reason=choice.reason,
            is_randomised=choice.is_randomised,
            judge_requested=judge_requested(ask.tenant, ask.policy, ask.episode_id, rate),
            judge_rate=rate,
            shadow_action=None if allocation is None or choice.shadow is None else allocation.actions[choice.shadow],
        )

    def _remembered(self, ask: Ask, serving: Serving) -> Decided | None:
        """Answer an episode's earlier decision, unless a freeze or bypass came between."""
        if ask.earlier is not None:
            if ask.earlier.episode_id == ask.episode_id and ask.earlier.policy == ask.policy:
                return self._reuse(ask.earlier, serving)
            return None
        known = self.memory.get((ask.tenant, ask.policy, ask.episode_id))
        if known is None or _overruled(known.decision, serving):
            return None
        return Decided(known.decision, serving, known.allocation, known.vector, reused=True)

    async def _recorded(self, ask: Ask, serving: Serving) -> Decided | None:
        async with self.ledgers.open(ask.tenant) as ledger:
            found = await ledger.decisions.first_of_episode(ask.policy, ask.episode_id)
        return None if found is None else self._reuse(found, serving)

    def _reuse(self, earlier: Decision, serving: Serving) -> Decided | None:
        if _overruled(earlier, serving) or earlier.action not in serving.policy.spec.index:
            return None
        return Decided(earlier, serving, None, (earlier.propensity,), reused=True)

    def _kept(self, ask: Ask, decided: Decided) -> Decided:
        self.rows.decision(decided.decision)
        return self._remember(ask, decided)

    def _remember(self, ask: Ask, decided: Decided) -> Decided:
        memory = self.memory
        memory[ask.tenant, ask.policy, ask.episode_id] = decided
        if len(memory) > MEMORY:
            memory.popitem(last=False)
        return decided


def _overruled(earlier: Decision, serving: Serving) -> bool:
    """Freeze and bypass beat stickiness; an episode decided under them is decided anew afterwards."""
    return serving.mode.stops_time is not earlier.mode.stops_time


def _without_retired(wish: Wish, allocation: Allocation, serving: Serving) -> Wish:
    """Leave out actions that the policy no longer has, while the allocation made before still serves."""
    if allocation.policy_version == serving.policy.version or allocation.actions == serving.policy.spec.action_keys:
        return wish
    live = serving.policy.spec.index
    able = tuple(key for key in wish.available or allocation.actions if key in live)
    return Wish(
        available=able,
        pinned=wish.pinned,
        no_exploration=wish.no_exploration,
        in_tool_loop=wish.in_tool_loop,
        best=wish.best,
    )
