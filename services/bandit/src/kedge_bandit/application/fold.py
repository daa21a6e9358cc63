"""Keep what one policy has learned while a pass runs: evidence is added and taken back row by row, exactly."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from kedge_bandit.application.learned import ActionRecord, BucketRecord, Changes, LearnedRecord, Release
from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.budget import holds
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.known_change import heirs, share
from kedge_bandit.domain.learners.learner import EvidenceTable
from kedge_bandit.domain.mode import Mode, PolicyClock
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.published import COLD
from kedge_bandit.domain.usage import Usage, is_capped
from kedge_bandit.domain.veto_belief import eligibility

SAFETY_WINDOW = 1_000
MISSING_ALLOWED = SAFETY_WINDOW // 100
"""Learnable episodes without a safety verdict among the last 1,000 above which learning is held."""


@dataclass(slots=True, kw_only=True)
class PolicyFold:
    """One policy's configuration, clock and fold, with the marks of what changed.

    Attributes:
        mode: the most restrictive of global, tenant and policy.
        live: keys of the present actions.
        is_put_off: stopped from outside the database; nothing may move until it is not, and policy time goes on.
        safety: for each learnable episode settled first in this pass, whether its safety verdict is missing.
    """

    policy: Policy
    clock: PolicyClock
    mode: Mode
    record: LearnedRecord
    live: frozenset[str]
    touched_cells: set[tuple[str, str]] = field(default_factory=set)
    touched_actions: set[str] = field(default_factory=set)
    touched_buckets: set[str] = field(default_factory=set)
    safety: list[bool] = field(default_factory=list)
    is_touched: bool = False
    is_put_off: bool = False

    @property
    def releases(self) -> tuple[Release, ...]:
        """What people decided about quarantined evidence, oldest first."""
        return self.record.releases

    def replace(self, old: EvidenceEntry | None, new: EvidenceEntry) -> None:
        """Put an episode's new evidence in the place of its old one."""
        if old is not None:
            self._move(old, add=False)
        self._move(new, add=True)

    def _move(self, entry: EvidenceEntry, *, add: bool) -> None:
        for action, factor in self._shares(entry):
            if entry.weight > 0:
                self._move_cell((entry.bucket, action), entry, factor, add=add)
            if entry.veto_weight > 0:
                self._move_vetoes(action, entry, factor, add=add)
        if entry.weight > 0:
            for bucket in {entry.bucket, COLD}:
                self.bucket(bucket).fresh += 1.0
                self.touched_buckets.add(bucket)
        if entry.weight > 0 and entry.policy_version >= self.policy.configuration_version:
            record = self.action(entry.action)
            record.episodes += 1 if add else -1
            record.reward_sum += (entry.reward or 0.0) if add else -(entry.reward or 0.0)

    def _shares(self, entry: EvidenceEntry) -> Iterable[tuple[str, float]]:
        """Name the actions that a row counts for, and how much: its own, and those that succeed it."""
        changes = [change for change in self.record.changes if change.bucket == entry.bucket]
        if not changes:
            return ((entry.action, 1.0),)
        return [
            (heir, share(changes, row_action=entry.action, action=heir, policy_time=entry.policy_time))
            for heir in heirs(changes, entry.action)
        ]

    def _move_cell(self, key: tuple[str, str], entry: EvidenceEntry, factor: float, *, add: bool) -> None:
        half_life = self.policy.spec.half_life
        part = Evidence.of(entry.reward or 0.0, entry.weight * factor, entry.policy_time)
        cell = self.record.cells.get(key) or Evidence.none(entry.policy_time)
        self.record.cells[key] = cell.plus(part, half_life) if add else cell.minus(part, half_life)
        self.touched_cells.add(key)

    def _move_vetoes(self, action: str, entry: EvidenceEntry, factor: float, *, add: bool) -> None:
        half_life, record = self.policy.spec.half_life, self.action(action)
        part = Evidence.of(float(entry.vetoed), entry.veto_weight * factor, entry.policy_time)
        record.vetoes = record.vetoes.plus(part, half_life) if add else record.vetoes.minus(part, half_life)

    def bucket(self, name: str) -> BucketRecord:
        """Find a bucket's record, a new one where there is none."""
        return self.record.buckets.setdefault(name, BucketRecord())

    def action(self, key: str) -> ActionRecord:
        """Find an action's record, and count anew where the configuration has changed since."""
        version = self.policy.configuration_version
        record = self.record.actions.get(key)
        if record is None:
            record = ActionRecord(vetoes=Evidence.none(0.0), configuration_version=version)
            self.record.actions[key] = record
        elif record.configuration_version != version:
            record.configuration_version, record.episodes, record.reward_sum = version, 0, 0.0
        self.touched_actions.add(key)
        return record

    def refold(self, log: EvidenceLog, *, as_of: float) -> None:
        """Compute every sum anew from the log, for a changed half-life or after a rebuild."""
        half_life = self.policy.spec.half_life
        for key in self.record.cells:
            self.record.cells[key] = Evidence.none(as_of)
        for record in self.record.actions.values():
            record.vetoes, record.episodes, record.reward_sum = Evidence.none(as_of), 0, 0.0
        for key, n, s, s2 in zip(log.cells, *log.sums(as_of=as_of, half_life=half_life), strict=True):
            self.record.cells[key] = Evidence(float(n), float(s), float(s2), as_of)
        episodes, vetoes = log.vetoes(as_of=as_of, half_life=half_life)
        counts, rewards = log.plain(configuration_version=self.policy.configuration_version)
        for place, (_, name) in enumerate(log.cells):
            action = self.action(name)
            seen = Evidence(float(episodes[place]), float(vetoes[place]), float(vetoes[place]), as_of)
            action.vetoes = action.vetoes.plus(seen, half_life)
            action.episodes += int(counts[place])
            action.reward_sum += float(rewards[place])
        self.touched_cells.update(self.record.cells)
        self.touched_actions.update(self.record.actions)

    def table(self, as_of: float) -> tuple[tuple[str, ...], EvidenceTable]:
        """Read the evidence that learners read, at a policy time; the buckets come sorted."""
        spec = self.policy.spec
        table = self.record.cells.table(spec.action_keys, as_of=as_of, half_life=spec.half_life)
        return table.buckets, table

    def vetoes(self, as_of: float) -> tuple[FloatArray, FloatArray]:
        """Read discounted episodes and vetoes [K] of the present actions."""
        half_life = self.policy.spec.half_life
        seen = [
            record.vetoes.at(as_of, half_life) if record is not None else Evidence.none(as_of)
            for record in map(self.record.actions.get, self.policy.spec.action_keys)
        ]
        return np.array([e.n for e in seen]), np.array([e.s for e in seen])

    def update_eligibility(self, as_of: float) -> list[tuple[str, bool, float]]:
        """Look at the veto belief; answers whose eligibility changed, whether they may serve now, and P(over cap)."""
        keys = self.policy.spec.action_keys
        before = np.array([key in self.record.actions and self.record.actions[key].ineligible for key in keys])
        eligible, over = eligibility(*self.vetoes(as_of), self.policy.spec.baseline_index, before)
        changed: list[tuple[str, bool, float]] = []
        for key in [key for key, record in self.record.actions.items() if record.ineligible and key not in self.live]:
            self.action(key).ineligible = False
        for key, was, now, probability in zip(keys, before, eligible, over, strict=True):
            record = self.record.actions.get(key)
            if record is None:
                continue
            if bool(was) is bool(now):
                changed.append((key, bool(now), float(probability)))
                self.touched_actions.add(key)
            record.ineligible, record.over_cap = not now, float(probability)
        return changed

    @property
    def eligible(self) -> BoolArray:
        """Mark the actions [K] that may be served."""
        actions = self.record.actions
        return np.array([not (key in actions and actions[key].ineligible) for key in self.policy.spec.action_keys])

    def usage(self, now: datetime) -> Usage | None:
        """Give what counts against the caps at a time of the store's clock; None without caps."""
        usage = self.record.policy.usage
        return None if usage is None else usage.at(now.timestamp())

    def closed(self, now: datetime) -> Reason | None:
        """Say why the baseline alone is to be published: a cap is reached, or exploring has cost its share."""
        usage = self.usage(now)
        exploration = self.policy.spec.exploration
        if usage is not None and is_capped(exploration, decisions=usage.decided, cost_usd=usage.cost_usd):
            return Reason.CAP
        return Reason.BUDGET if self._has_spent_budget() else None

    def _has_spent_budget(self) -> bool:
        spec = self.policy.spec
        if spec.exploration.budget_off:
            return False
        version = self.policy.configuration_version
        counted = [
            record if record is not None and record.configuration_version == version else None
            for record in map(self.record.actions.get, spec.action_keys)
        ]
        n = np.array([float(record.episodes) if record else 0.0 for record in counted])
        s = np.array([float(np.clip(record.reward_sum, 0.0, record.episodes)) if record else 0.0 for record in counted])
        return holds(n, s, spec.baseline_index, share=spec.exploration.budget_share)

    def close_safety_window(self) -> None:
        """Add the first-time verdicts of this pass to the window."""
        if self.safety:
            window = deque(self.record.policy.safety_window, maxlen=SAFETY_WINDOW)
            window.extend("1" if missing else "0" for missing in self.safety)
            self.record.policy.safety_window = "".join(window)
            self.safety, self.is_touched = [], True

    @property
    def is_resettling(self) -> bool:
        """Whether settled episodes are being judged anew, so that the old allocations serve."""
        return self.record.policy.resettle_after is not None

    @property
    def lacks_safety(self) -> bool:
        """Whether more than 1 % of the last 1,000 learnable episodes carry no safety verdict."""
        return self.record.policy.safety_window.count("1") > MISSING_ALLOWED

    def write_to(self, changes: Changes) -> None:
        """Add everything that changed to what the pass writes."""
        name = self.policy.name
        changes.cells += [(name, *key, self.record.cells[key]) for key in sorted(self.touched_cells)]
        changes.actions += [(name, key, self.record.actions[key]) for key in sorted(self.touched_actions)]
        changes.buckets += [(name, bucket, self.record.buckets[bucket]) for bucket in sorted(self.touched_buckets)]
        if self.is_touched:
            changes.policies.append((name, self.record.policy))


def stopped_at(clock: PolicyClock, moment: datetime) -> bool:
    """Say whether policy time stood still at a moment."""
    seconds = moment.timestamp()
    return any(begin <= seconds < end for begin, end in clock.stops)


def stopped_until(clock: PolicyClock, moment: datetime) -> timedelta:
    """Say for how long policy time has stood still before a moment."""
    return timedelta(seconds=moment.timestamp() - clock.at(moment))
