"""Hold the evidence log of one policy as columns, so that it is folded at any position and policy time in one sweep.

This is the second way to the sums that the worker keeps row by row: rebuild and replay use it, and the two must agree
to 1e-9 relative to max(1, N).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from math import inf

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray, IntArray
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName
from kedge_bandit.domain.known_change import CellChange, heirs, share
from kedge_bandit.domain.learners.learner import EvidenceTable
from kedge_bandit.domain.posterior import LARGEST_GROWTH


@dataclass(frozen=True, slots=True)
class VerdictNote:
    """What a verdict rests on, kept for the explanation.

    Attributes:
        safety_verdict: CLEAN, TRIPPED or ABSENT.
        components: e.g. "quality", "cost", "raw".
        signals: raw signals reduced to one value each; absent ones are missing.
    """

    spec_version: int
    safety_verdict: str
    veto_reasons: tuple[str, ...]
    components: dict[str, float]
    signals: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceEntry:
    """One row of the evidence log: an episode's verdict at one reward version.

    Attributes:
        sequence: its place in the tenant's log, from 1.
        policy_version: of the decision.
        policy_time: of the decision, seconds.
        weight: 1 learned from, 0 stored only.
        weight_reason: why the weight is 0; None where it is not.
        reward: in [0, 1]; None where there is none.
        veto_weight: 1 where the episode counts for the veto belief.
    """

    sequence: int
    settle_time: datetime
    policy: PolicyName
    bucket: str
    action: str
    episode_id: EpisodeId
    decision_id: DecisionId
    reward_version: int
    policy_version: int
    decision_time: datetime
    policy_time: float
    weight: float
    weight_reason: str | None
    reward: float | None
    vetoed: bool
    veto_weight: float
    verdict: VerdictNote

    @property
    def moves_belief(self) -> bool:
        """Whether any sum would change without it."""
        return self.weight > 0 or self.veto_weight > 0

    def says_the_same_as(self, other: "EvidenceEntry") -> bool:
        """Whether storing this one after the other would tell nothing new."""
        return self._said() == other._said()

    def _said(self) -> tuple[object, ...]:
        weights = (self.weight, self.weight_reason, self.veto_weight)
        return self.bucket, self.action, *weights, self.reward, self.vetoed, self.verdict


@dataclass(frozen=True, slots=True)
class _Shares:
    """Which rows count for which cells, and how much: three arrays [M]."""

    row: IntArray
    cell: IntArray
    factor: FloatArray


@dataclass(frozen=True, kw_only=True)
class EvidenceLog:
    """Columns over the rows [R] of one policy, in order of sequence.

    Attributes:
        cells: (bucket, action) by number; those of the rows, and those that changes name.
        cell: number of each row's cell.
        episode: number of each row's episode; within an episode a later row has the higher reward version.
        changes: known changes and successions.
        episodes, reward_sums: undiscounted episodes and rewards of each row, where some rows stand for many; None: a
            row counts its weight and its reward.
        readable_from: sequence from which on the log can be read as it was; 0 but for one that begins with a snapshot.
    """

    cells: tuple[tuple[str, str], ...]
    sequence: IntArray
    cell: IntArray
    episode: IntArray
    policy_version: IntArray
    policy_time: FloatArray
    weight: FloatArray
    reward: FloatArray
    vetoed: BoolArray
    veto_weight: FloatArray
    changes: tuple[CellChange, ...] = ()
    episodes: FloatArray | None = None
    reward_sums: FloatArray | None = None
    readable_from: int = 0

    @property
    def counted(self) -> tuple[FloatArray, FloatArray]:
        """Undiscounted episodes and rewards of each row [R]."""
        return (
            self.weight if self.episodes is None else self.episodes,
            self.reward if self.reward_sums is None else self.reward_sums,
        )

    def with_changes(self, changes: Sequence[CellChange]) -> "EvidenceLog":
        """Give the same rows with these known changes and successions."""
        named = {(change.bucket, change.action) for change in changes}
        return replace(self, cells=(*self.cells, *sorted(named - set(self.cells))), changes=tuple(changes))

    @cached_property
    def replaced_at(self) -> IntArray:
        """Sequence [R] of the row that replaces each one; larger than any sequence where none does."""
        order = np.lexsort((self.sequence, self.episode))
        replaced = np.full(self.sequence.size, np.iinfo(np.int64).max)
        same = self.episode[order][1:] == self.episode[order][:-1]
        replaced[order[:-1][same]] = self.sequence[order[1:][same]]
        return replaced

    def standing(self, upto: int | None = None) -> BoolArray:
        """Mark the rows [R] that count when the log ends at a sequence (None: at its end)."""
        last = _end(upto)
        return (self.sequence <= last) & (self.replaced_at > last)

    def sums(
        self, *, as_of: float, half_life: timedelta, upto: int | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Fold into N, S, S2 of each cell [C] at a policy time."""
        shares = self._shares(upto)
        weight, reward = self.weight[shares.row] * self._worth(shares, as_of, half_life), self.reward[shares.row]
        n, s, s2 = (self._over_cells(shares.cell, weight * reward**power) for power in (0, 1, 2))
        return n, s, s2

    def vetoes(self, *, as_of: float, half_life: timedelta, upto: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Fold into discounted episodes and vetoes of each cell [C]; an action's are the sum over its buckets."""
        shares = self._shares(upto)
        weight = self.veto_weight[shares.row] * self._worth(shares, as_of, half_life)
        return self._over_cells(shares.cell, weight), self._over_cells(shares.cell, weight * self.vetoed[shares.row])

    def plain(self, *, configuration_version: int, upto: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Count learned episodes of a configuration and add their rewards, undiscounted, for each cell [C]."""
        counts, totals = self.counted
        rows = self.standing(upto) & (counts > 0) & (self.policy_version >= configuration_version)
        cell = self.cell[rows]
        return self._over_cells(cell, counts[rows]), self._over_cells(cell, totals[rows])

    def over_actions(self, sums: FloatArray, actions: Sequence[str]) -> FloatArray:
        """Add a cell sum [C] over buckets, for the given actions [K]."""
        place = {action: i for i, action in enumerate(actions)}
        total = np.zeros(len(actions))
        for (_, action), value in zip(self.cells, sums, strict=True):
            if action in place:
                total[place[action]] += value
        return total

    def table(
        self, *, actions: Sequence[str], as_of: float, half_life: timedelta, upto: int | None = None
    ) -> tuple[tuple[str, ...], EvidenceTable]:
        """Fold into the table that learners read; the buckets come sorted."""
        buckets = tuple(sorted({bucket for bucket, _ in self.cells}))
        row = {bucket: i for i, bucket in enumerate(buckets)}
        column = {action: i for i, action in enumerate(actions)}
        table = EvidenceTable.empty(buckets, tuple(actions))
        for sums, target in zip(
            self.sums(as_of=as_of, half_life=half_life, upto=upto), (table.n, table.s, table.s2), strict=True
        ):
            for (bucket, action), value in zip(self.cells, sums, strict=True):
                if action in column:
                    target[row[bucket], column[action]] = value
        return buckets, table

    def _worth(self, shares: _Shares, as_of: float, half_life: timedelta) -> FloatArray:
        age = as_of - self.policy_time[shares.row]
        by = np.exp2(np.minimum(-age / half_life.total_seconds(), LARGEST_GROWTH)) * shares.factor
        return np.asarray(by, dtype=np.float64)

    def _over_cells(self, cell: IntArray, values: FloatArray) -> FloatArray:
        """Add values for each cell [C]."""
        return np.asarray(np.bincount(cell, values, len(self.cells)), dtype=np.float64)

    def _shares(self, upto: int | None) -> _Shares:
        rows = np.flatnonzero(self.standing(upto))
        changes = [change for change in self.changes if change.sequence <= _end(upto)]
        if not changes:
            return _Shares(rows, self.cell[rows], np.ones(rows.size))
        number = {cell: i for i, cell in enumerate(self.cells)}
        parts: list[_Shares] = []
        for here, (bucket, action) in enumerate(self.cells):
            mine = rows[self.cell[rows] == here]
            of_bucket = [change for change in changes if change.bucket == bucket]
            for heir in heirs(of_bucket, action) if mine.size else ():
                factor = _factors(of_bucket, action, heir, self.policy_time[mine])
                parts.append(_Shares(mine, np.full(mine.size, number[bucket, heir]), factor))
        if not parts:
            return _Shares(rows, self.cell[rows], np.ones(rows.size))
        return _Shares(*(np.concatenate([getattr(part, name) for part in parts]) for name in _Shares.__slots__))


def _end(upto: int | None) -> int:
    return np.iinfo(np.int64).max - 1 if upto is None else upto


def _factors(changes: Sequence[CellChange], row_action: str, action: str, policy_time: FloatArray) -> FloatArray:
    """Give the share of each row: it only steps at the times of changes."""
    times = sorted({change.policy_time for change in changes})
    steps = np.array(
        [share(changes, row_action=row_action, action=action, policy_time=edge) for edge in (-inf, *times)]
    )
    return np.asarray(steps[np.searchsorted(times, policy_time, side="right")], dtype=np.float64)
