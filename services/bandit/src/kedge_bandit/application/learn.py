"""Learn: the worker settles episodes, appends evidence, folds it and publishes allocations, one transaction per tenant.

Whatever a pass does is committed with the watermark or not at all, so a crash at any moment loses and doubles nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from kedge_bandit.application.allocation_memory import AllocationMemory
from kedge_bandit.application.check_draws import counted
from kedge_bandit.application.count_usage import count_usage, may_leave_the_baseline
from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.gather import gather
from kedge_bandit.application.hold import Holds
from kedge_bandit.application.learned import Changes
from kedge_bandit.application.learning_port import FoldPoint, FreshRows, Learning
from kedge_bandit.application.open_folds import FoldOpener
from kedge_bandit.application.ports import Ledger, Ledgers
from kedge_bandit.application.publish import publish
from kedge_bandit.application.release import release
from kedge_bandit.application.resettle import resettle
from kedge_bandit.application.settle import Ruling, Task, rule
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.episode import EpisodeState, SafetyVerdict
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import Learner
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.reward_spec import SafetySource

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Settled:
    """What a pass settled.

    Attributes:
        states: newly reached ones by policy.
        delays: seconds from when an episode was complete, or fell due, until it reached its state.
        signals: of episodes that have evidence for the first time, by policy.
    """

    states: Counter[tuple[PolicyName, EpisodeState]] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)
    signals: Counter[tuple[PolicyName, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What one pass over a tenant did.

    Attributes:
        is_truncated: more rows wait; go on at once.
        is_blocked: rows wait for a transaction that still runs; come back soon.
        lag_seconds: age of the oldest raw row that was taken; None where none was.
        revalued: models, judges and successors seen for the first time, by policy.
        counts: counts that changed, as they are now.
        p_values: of the self-checks that were looked at.
        held: why learning is held, by policy looked at; closed: why the baseline alone is published, likewise.
        audit_sequence: head of the audit chain when the pass began.
    """

    rows: int
    is_truncated: bool
    is_blocked: bool
    lag_seconds: float | None
    settled: Settled
    revalued: Mapping[PolicyName, int]
    counts: dict[tuple[PolicyName, str], int]
    allocations: int
    failures: int
    p_values: dict[PolicyName, float]
    held: dict[PolicyName, str | None]
    closed: dict[PolicyName, Reason | None]
    audit_sequence: int


@dataclass(slots=True, kw_only=True)
class Learn:
    """Run passes.

    Attributes:
        batch: raw rows of each kind in a pass, about.
        override: a mode of a policy from outside the database, which can only restrict; while it stops the policy,
            what would move its belief waits.
    """

    ledgers: Ledgers
    batch: int = 2_000
    override: Callable[[TenantId, PolicyName], Mode] = lambda _tenant, _policy: Mode.APPLY
    learners: Mapping[str, Learner] = field(default_factory=lambda: LEARNERS)
    policies: dict[tuple[TenantId, PolicyName], Policy] = field(default_factory=dict)
    modes: dict[tuple[TenantId, PolicyName], tuple[str, Sequence[ModeChange]]] = field(default_factory=dict)
    allocations: AllocationMemory = field(default_factory=AllocationMemory)

    async def __call__(self, tenant: TenantId) -> Passed | None:
        """Run one pass; None where another worker is at this tenant.

        Raises:
            TenantDenied: there is no such tenant.
            StoreUnavailable: the database cannot be reached.
        """
        published: list[Allocation] = []
        async with self.ledgers.open(tenant) as ledger:
            point = await ledger.learning.lock(limit=self.batch)
            if point is None:
                return None
            done = _idle(point)
            if point.has_work:
                one = _Pass(self, ledger, ledger.learning, point)
                done, published = await one.run(), one.published
        self.allocations.keep(tenant, published)
        return done


@dataclass(slots=True)
class _Pass:
    learn: Learn
    ledger: Ledger
    learning: Learning
    point: FoldPoint
    folds: dict[PolicyName, PolicyFold] = field(default_factory=dict)
    settled: Settled = field(default_factory=Settled)
    published: list[Allocation] = field(default_factory=list)

    async def run(self) -> Passed:
        """Take rows, settle, fold, publish, write."""
        rows = await self.learning.fresh_rows(self.point, limit=self.learn.batch)
        changes = Changes(high=rows.high, evidence_sequence=self.point.evidence_sequence)
        if self.point.is_restored:
            log.warning("record.restored", tenant=self.ledger.tenant)
            changes.restored_time = self.point.now
        tasks = await gather(self.learning, self.point, rows, changes, limit=self.learn.batch)
        draws = counted(rows.decisions, self.point)
        await self._open(rows, tasks, draws.keys(), changes)
        goes_on = await release(self.learning, self.folds, tasks, changes, now=self.point.now, limit=self.learn.batch)
        goes_on |= await resettle(
            self.ledger, self.folds, tasks, now=self.point.now, limit=max(1, self.learn.batch // 4)
        )
        for task in tasks:
            self._settle(task, changes)
        holds = Holds(self.ledger, self.learn.allocations, self.point.now)
        for name, fold in self.folds.items():
            fold.close_safety_window()
            await holds.look(fold, draws.get(name, ()))
        allocations, failures = await self._publish(changes)
        self._count(rows, changes)
        for fold in self.folds.values():
            fold.write_to(changes)
        taken = len(rows.decisions) + len(rows.events) + len(rows.outcomes)
        counts = {} if taken == 0 and changes.is_empty else await self.learning.save(changes)
        return Passed(
            rows=taken,
            is_truncated=rows.is_truncated or goes_on,
            is_blocked=self.point.is_blocked,
            lag_seconds=_seconds_since(rows.oldest_time, self.point.now),
            settled=self.settled,
            revalued=Counter(name for name, _ in {(name, change.cause) for name, change in changes.cell_changes}),
            counts=counts,
            allocations=allocations,
            failures=failures,
            p_values=holds.p_values,
            held={name: fold.record.policy.learning_held for name, fold in self.folds.items()},
            closed={name: fold.record.policy.closed for name, fold in self.folds.items()},
            audit_sequence=self.point.audit_sequence,
        )

    async def _open(self, rows: FreshRows, tasks: Sequence[Task], drawn: Set[PolicyName], changes: Changes) -> None:
        """Open the folds of policies with news, count what goes against their caps, and revalue their evidence."""
        opener = FoldOpener(self.ledger, self.learn.policies, self.learn.modes, self.point, self.learn.override)
        served = may_leave_the_baseline(rows.decisions, self.point)
        self.folds = await opener.open({task.file.key.policy for task in tasks} | drawn | served.keys())
        await count_usage(self.learning, self.folds, served, tasks, self.point)
        await opener.revalue(self.folds, tasks, changes)

    def _settle(self, task: Task, changes: Changes) -> None:
        file = task.file
        fold = self.folds.get(file.key.policy)
        if fold is None:
            log.error("episode.without_policy", policy=file.key.policy)
            return
        before = (file.logged, file.state)
        ruling = rule(task, fold, now=self.point.now)
        if ruling.entry is not None:
            changes.evidence_sequence += 1
            entry = replace(ruling.entry, sequence=changes.evidence_sequence)
            changes.entries.append(entry)
            file.evidence_sequence, file.reward_version = entry.sequence, entry.reward_version
            fold.replace(task.previous, entry)
            if task.previous is None:
                self.settled.signals.update((file.key.policy, signal) for signal in _present(entry))
        if ruling.lacks_safety is not None:
            fold.safety.append(ruling.lacks_safety)
        file.logged = file.dossier.is_logged
        changes.files.append(file)
        self._count_episode(before, task, ruling, fold, changes)

    def _count_episode(
        self, before: tuple[bool, EpisodeState], task: Task, ruling: Ruling, fold: PolicyFold, changes: Changes
    ) -> None:
        """Keep every logged episode in exactly one state."""
        file, (was_logged, state) = task.file, before
        policy = file.key.policy
        if was_logged:
            changes.count(policy, state, -1)
        if file.logged:
            changes.count(policy, file.state)
        if file.state is not state:
            self.settled.states[policy, file.state] += 1
            self.settled.delays.append((self.point.now - task.trigger_time).total_seconds())
        if ruling.late:
            changes.count(policy, "late", ruling.late)
        if ruling.entry is not None:
            missing = _is_missing(ruling.entry, fold) - _is_missing(task.previous, fold)
            if missing:
                changes.count(policy, "no_safety_verdict", missing)

    async def _publish(self, changes: Changes) -> tuple[int, int]:
        failures = 0
        for fold in self.folds.values():
            done = publish(
                self.ledger.tenant,
                fold,
                self.learn.learners,
                now=self.point.now,
                evidence_sequence=changes.evidence_sequence,
            )
            for event in done.events:
                await self.ledger.audit.append(event)
            changes.allocations += done.allocations
            failures += done.failures
        self.published = changes.allocations
        return len(changes.allocations), failures

    def _count(self, rows: FreshRows, changes: Changes) -> None:
        """Count what belongs to no episode; the empty policy stands for the tenant as a whole."""
        tenant_wide = PolicyName("")
        for policy, number in rows.imported.items():
            changes.count(policy, "imported", number)
        if rows.unreadable:
            changes.count(tenant_wide, "unreadable", rows.unreadable)
        waiting = len(changes.unmatched) - changes.unmatched_taken
        if waiting:
            changes.count(tenant_wide, "unmatched", waiting)


def _idle(point: FoldPoint) -> Passed:
    return Passed(
        rows=0,
        is_truncated=False,
        is_blocked=point.is_blocked,
        lag_seconds=None,
        settled=Settled(),
        revalued={},
        counts={},
        allocations=0,
        failures=0,
        p_values={},
        held={},
        closed={},
        audit_sequence=point.audit_sequence,
    )


def _seconds_since(then: datetime | None, now: datetime) -> float | None:
    return None if then is None else (now - then).total_seconds()


def _present(entry: EvidenceEntry) -> Iterator[str]:
    """Name the signals that an episode came with, as the metrics do."""
    yield from entry.verdict.signals
    if entry.verdict.safety_verdict != SafetyVerdict.ABSENT:
        yield "safety"


def _is_missing(entry: EvidenceEntry | None, fold: PolicyFold) -> int:
    if entry is None or fold.policy.spec.reward.safety_source is SafetySource.NONE:
        return 0
    return int(entry.verdict.safety_verdict == SafetyVerdict.ABSENT)
