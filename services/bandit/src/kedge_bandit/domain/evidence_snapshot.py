"""Fold the oldest evidence of a policy into a few rows that weigh as much as all of it, so that the rows may go.

A snapshot's rows stand in the log where the folded ones stood: every sum over the log is what it was, discounting and
later known changes included. They say nothing of any episode.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from math import sqrt

import numpy as np

from kedge_bandit.domain.arrays import BoolArray
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.identifiers import PolicyName, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One row of a snapshot: as one of the log, but that it stands for many episodes.

    Attributes:
        policy_time: up to which the sums are discounted, seconds.
        weight, reward: two such rows of a cell have its N, S and S2.
        veto_weight: discounted episodes of the veto belief, vetoed ones where `vetoed`.
        episodes, reward_sum: undiscounted, of one `policy_version`.
    """

    bucket: str
    action: str
    policy_version: int = 0
    policy_time: float
    weight: float = 0.0
    reward: float = 0.0
    vetoed: bool = False
    veto_weight: float = 0.0
    episodes: float = 0.0
    reward_sum: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The folded beginning of a policy's log.

    Attributes:
        through: sequence of the last row that is folded.
        end: the log's end when it was folded; only from there on can the log be read as it was at a sequence.
    """

    through: int
    end: int
    rows: tuple[SnapshotRow, ...]

    def body(self, tenant: TenantId, policy: PolicyName) -> bytes:
        """Write down what is signed; floating point numbers in full."""
        content = (tenant, policy, self.through, self.end, [astuple(row) for row in self.rows])
        return json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode()


@dataclass(frozen=True, slots=True)
class Sealed:
    """A snapshot with its signature and the id of the key that made it."""

    snapshot: Snapshot
    key_id: int
    signature: str


def fold(log: EvidenceLog, *, through: int, half_life: timedelta) -> Snapshot:
    """Fold what stands of the rows up to a sequence, with the known changes and successions that are in the log.

    Args:
        log: the whole of it, with an earlier snapshot in its place.
        through: the last sequence to be folded; no later row may replace an earlier one any more.
        half_life: that the sums are discounted with.
    """
    rows = log.standing() & (log.sequence <= through)
    old = _only(log, rows)
    # Changes that are in the log lie before it, so they are not counted a second time; later ones come after it.
    as_of = max([0.0, *old.policy_time.tolist(), *(change.policy_time for change in log.changes)])
    end = max([through, *log.sequence.tolist(), *(change.sequence for change in log.changes)])
    sums = old.sums(as_of=as_of, half_life=half_life)
    vetoes = old.vetoes(as_of=as_of, half_life=half_life)
    made: list[SnapshotRow] = []
    for place, (bucket, action) in enumerate(log.cells):
        cell = SnapshotRow(bucket=bucket, action=action, policy_time=as_of)
        made += _weighing(cell, *(float(part[place]) for part in sums))
        made += _vetoing(cell, *(float(part[place]) for part in vetoes))
        made += _counting(cell, old, old.cell == place)
    return Snapshot(through=through, end=end, rows=tuple(made))


def _only(log: EvidenceLog, rows: BoolArray) -> EvidenceLog:
    return replace(
        log,
        sequence=log.sequence[rows],
        cell=log.cell[rows],
        episode=log.episode[rows],
        policy_version=log.policy_version[rows],
        policy_time=log.policy_time[rows],
        weight=log.weight[rows],
        reward=log.reward[rows],
        vetoed=log.vetoed[rows],
        veto_weight=log.veto_weight[rows],
        episodes=None if log.episodes is None else log.episodes[rows],
        reward_sums=None if log.reward_sums is None else log.reward_sums[rows],
    )


def _weighing(cell: SnapshotRow, n: float, s: float, s2: float) -> Iterator[SnapshotRow]:
    """Give rows with these sums: half of the weight one deviation above the mean, half below."""
    if n <= 0.0:
        return
    mean = s / n
    deviation = sqrt(max(0.0, s2 / n - mean * mean))
    for reward in (mean - deviation, mean + deviation):
        yield replace(cell, weight=n / 2, reward=reward)


def _vetoing(cell: SnapshotRow, episodes: float, vetoes: float) -> Iterator[SnapshotRow]:
    if episodes > vetoes:
        yield replace(cell, veto_weight=episodes - vetoes)
    if vetoes > 0.0:
        yield replace(cell, veto_weight=vetoes, vetoed=True)


def _counting(cell: SnapshotRow, log: EvidenceLog, here: BoolArray) -> Iterator[SnapshotRow]:
    counts, totals = log.counted
    mine = here & (counts > 0)
    for version in np.unique(log.policy_version[mine]).tolist():
        rows = mine & (log.policy_version == version)
        yield replace(
            cell, policy_version=version, episodes=float(counts[rows].sum()), reward_sum=float(totals[rows].sum())
        )


def largest_difference(
    one: EvidenceLog, other: EvidenceLog, *, as_of: float, half_life: timedelta, versions: Sequence[int]
) -> float:
    """Find the largest |difference| / max(1, N) between the sums of two logs, over cells, vetoes and counts."""
    found = [0.0]
    for first, second in (
        (one.sums(as_of=as_of, half_life=half_life), other.sums(as_of=as_of, half_life=half_life)),
        (one.vetoes(as_of=as_of, half_life=half_life), other.vetoes(as_of=as_of, half_life=half_life)),
        *((one.plain(configuration_version=v), other.plain(configuration_version=v)) for v in versions),
    ):
        number = dict(zip(other.cells, second[0], strict=True))
        for mine, theirs in zip(first, second, strict=True):
            values = dict(zip(other.cells, theirs, strict=True))
            for cell, value in zip(one.cells, mine, strict=True):
                scale = max(1.0, abs(float(number.get(cell, 0.0))))
                found.append(abs(float(value) - float(values.get(cell, 0.0))) / scale)
    return max(found)
