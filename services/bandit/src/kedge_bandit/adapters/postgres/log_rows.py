"""Read a policy's evidence log as columns, with the snapshot that its beginning was folded into in front."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from sqlalchemy import Row

from kedge_bandit.adapters.postgres import learning_reads as reads
from kedge_bandit.adapters.postgres import learning_rows as rows
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.evidence_snapshot import Sealed, Snapshot, SnapshotRow
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.known_change import CellChange

Execute = Callable[..., Awaitable[Sequence[Any]]]
"""Runs a statement with named parameters in the open transaction."""


async def read_log(execute: Execute, policy: PolicyName, upto: int) -> EvidenceLog:
    """Read the log up to a sequence."""
    found = await execute(reads.CHANGES, policies=[policy])
    changes = [rows.change_of(row) for row in found if row.evidence_sequence <= upto]
    sealed = await read_snapshot(execute, policy)
    after = 0 if sealed is None else sealed.snapshot.through
    log = await execute(reads.LOG, policy=policy, after=after, upto=upto)
    return evidence_log(log, changes, None if sealed is None else sealed.snapshot)


async def read_snapshot(execute: Execute, policy: PolicyName) -> Sealed | None:
    """Read the snapshot; None where the whole log is there."""
    seals = await execute(reads.SEAL, policy=policy)
    return snapshot_of(seals[0], await execute(reads.SNAPSHOT, policy=policy)) if seals else None


def evidence_log(
    rows: Sequence[Row[Any]], changes: Sequence[CellChange], snapshot: Snapshot | None = None
) -> EvidenceLog:
    """Build columns from rows in order of sequence, those of a snapshot in front."""
    if snapshot is not None:
        return _after(snapshot, rows).with_changes(changes)
    return _columns(rows).with_changes(changes)


def snapshot_of(seal: Row[Any], rows: Sequence[Row[Any]]) -> Sealed:
    """Read a snapshot with its signature."""
    names = [field.name for field in fields(SnapshotRow)]
    made = tuple(SnapshotRow(**{name: getattr(row, name) for name in names}) for row in rows)
    return Sealed(Snapshot(through=seal.through, end=seal.log_end, rows=made), seal.key_id, seal.signature)


def _after(snapshot: Snapshot, rows: Sequence[Row[Any]]) -> EvidenceLog:
    """Put a snapshot's rows in front, each an episode of its own that nothing replaces."""
    front = [
        SimpleNamespace(**asdict(row), evidence_sequence=snapshot.through, episode_id=("snapshot", place))
        for place, row in enumerate(snapshot.rows)
    ]
    log = _columns([*front, *rows])
    counts = [*(row.episodes for row in snapshot.rows), *(row.weight for row in rows)]
    totals = [*(row.reward_sum for row in snapshot.rows), *(row.reward or 0.0 for row in rows)]
    return replace(
        log,
        episodes=np.array(counts, dtype=np.float64),
        reward_sums=np.array(totals, dtype=np.float64),
        readable_from=snapshot.end,
    )


def _columns(rows: Sequence[Any]) -> EvidenceLog:
    cells: dict[tuple[str, str], int] = {}
    episodes: dict[object, int] = {}
    cell = [cells.setdefault((row.bucket, row.action), len(cells)) for row in rows]
    episode = [episodes.setdefault(row.episode_id, len(episodes)) for row in rows]
    return EvidenceLog(
        cells=tuple(cells),
        sequence=np.array([row.evidence_sequence for row in rows], dtype=np.int64),
        cell=np.array(cell, dtype=np.int64),
        episode=np.array(episode, dtype=np.int64),
        policy_version=np.array([row.policy_version for row in rows], dtype=np.int64),
        policy_time=np.array([row.policy_time for row in rows], dtype=np.float64),
        weight=np.array([row.weight for row in rows], dtype=np.float64),
        reward=np.array([row.reward or 0.0 for row in rows], dtype=np.float64),
        vetoed=np.array([row.vetoed for row in rows], dtype=np.bool_),
        veto_weight=np.array([row.veto_weight for row in rows], dtype=np.float64),
    )
