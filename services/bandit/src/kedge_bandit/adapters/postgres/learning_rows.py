"""Map the learn flow's rows: raw facts and the worker's record between columns and domain values."""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row

from kedge_bandit.application.learned import (
    ActionRecord,
    BucketRecord,
    EpisodeFile,
    EpisodeKey,
    OutcomeRow,
    PolicyRecord,
)
from kedge_bandit.application.learning_port import DecisionRow, EventRow
from kedge_bandit.domain.decision import Reason, SetAside
from kedge_bandit.domain.dossier import Chosen, Dossier, Event, EventKind
from kedge_bandit.domain.episode import EpisodeState, Trajectory
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.evidence_log import EvidenceEntry, VerdictNote
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName
from kedge_bandit.domain.known_change import CellChange
from kedge_bandit.domain.outcome import Outcome
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.self_check import SelfCheck
from kedge_bandit.domain.settlement import Arrival
from kedge_bandit.domain.usage import Usage

UNREADABLE = (ValidationError, KedgeError, KeyError, ValueError, TypeError)
"""What reading a row that nobody validated can raise."""

_outcome = TypeAdapter(Outcome)
_trajectory = TypeAdapter(Trajectory)
_dossier = TypeAdapter(Dossier)
_note = TypeAdapter(VerdictNote)
_usage = TypeAdapter(Usage)


def chosen_of(row: Row[Any]) -> Chosen:
    """Read what learning needs of a decision row."""
    return Chosen(
        decision_id=DecisionId(str(row.decision_id)),
        time=row.decision_time,
        bucket=row.bucket,
        action=row.action,
        policy_version=row.policy_version,
        reason=Reason(row.reason),
        judge_requested=row.judge_requested,
        set_aside=None if row.set_aside is None else SetAside(row.set_aside),
    )


def decision_row(row: Row[Any]) -> DecisionRow:
    """Read a decision row."""
    return DecisionRow(
        key=EpisodeKey(PolicyName(row.policy), EpisodeId(row.episode_id)),
        chosen=chosen_of(row),
        available=None if row.available is None else tuple(row.available),
        allocation_version=row.allocation_version,
        is_randomised=row.is_randomised,
        superseded=row.superseded,
    )


def event_row(row: Row[Any]) -> EventRow:
    """Read an event row. Raises one of `UNREADABLE`."""
    trajectory = None if row.trajectory is None else _trajectory.validate_python(row.trajectory)
    event = Event(row.key, EventKind(row.kind), row.receive_time, trajectory, row.served_action)
    return EventRow(EpisodeKey(PolicyName(row.policy), EpisodeId(row.episode_id)), event)


def outcome_row(row: Row[Any]) -> OutcomeRow:
    """Read an outcome row. Raises one of `UNREADABLE`."""
    known = row.policy is not None and row.episode_id is not None
    return OutcomeRow(
        EpisodeKey(PolicyName(row.policy), EpisodeId(row.episode_id)) if known else None,
        None if row.decision_id is None else DecisionId(str(row.decision_id)),
        Arrival(_outcome.validate_python(row.payload), row.receive_time),
        row.served_action,
    )


def waiting_row(row: Row[Any]) -> OutcomeRow:
    """Read an outcome that waited for its decision."""
    arrival = Arrival(_outcome.validate_python(row.payload), row.receive_time)
    return OutcomeRow(None, DecisionId(str(row.decision_id)), arrival, row.served_action)


def waiting_values(row: OutcomeRow) -> dict[str, object]:
    """Columns of an outcome that waits for its decision."""
    return {
        "decision_id": row.decision_id,
        "key": row.arrival.outcome.key,
        "payload": row.arrival.outcome,
        "served_action": row.served_action,
        "receive_time": row.arrival.received_time,
    }


def file_of(row: Row[Any]) -> EpisodeFile:
    """Read an episode."""
    return EpisodeFile(
        key=EpisodeKey(PolicyName(row.policy), EpisodeId(row.episode_id)),
        open_time=row.open_time,
        state=EpisodeState(row.state),
        logged=row.logged,
        dossier=_dossier.validate_python(row.facts),
        due_time=row.due_time,
        quarantined=row.quarantined,
        reward_version=row.reward_version,
        evidence_sequence=row.evidence_sequence,
    )


def file_values(file: EpisodeFile) -> dict[str, object]:
    """Columns of an episode."""
    chosen = file.dossier.chosen
    return {
        "policy": file.key.policy,
        "episode_id": file.key.episode_id,
        "open_time": file.open_time,
        "state": file.state,
        "logged": file.logged,
        "decision_id": None if chosen is None else chosen.decision_id,
        "facts": file.dossier,
        "due_time": file.due_time,
        "quarantined": file.quarantined,
        "reward_version": file.reward_version,
        "evidence_sequence": file.evidence_sequence,
    }


def entry_of(row: Row[Any]) -> EvidenceEntry:
    """Read a row of the evidence log."""
    return EvidenceEntry(
        sequence=row.evidence_sequence,
        settle_time=row.settle_time,
        policy=PolicyName(row.policy),
        bucket=row.bucket,
        action=row.action,
        episode_id=EpisodeId(row.episode_id),
        decision_id=DecisionId(str(row.decision_id)),
        reward_version=row.reward_version,
        policy_version=row.policy_version,
        decision_time=row.decision_time,
        policy_time=row.policy_time,
        weight=row.weight,
        weight_reason=row.weight_reason,
        reward=row.reward,
        vetoed=row.vetoed,
        veto_weight=row.veto_weight,
        verdict=_note.validate_python(row.verdict),
    )


def entry_values(entry: EvidenceEntry) -> dict[str, object]:
    """Columns of a row of the evidence log."""
    return {
        "evidence_sequence": entry.sequence,
        "settle_time": entry.settle_time,
        "policy": entry.policy,
        "bucket": entry.bucket,
        "action": entry.action,
        "episode_id": entry.episode_id,
        "decision_id": entry.decision_id,
        "reward_version": entry.reward_version,
        "policy_version": entry.policy_version,
        "decision_time": entry.decision_time,
        "policy_time": entry.policy_time,
        "weight": entry.weight,
        "weight_reason": entry.weight_reason,
        "reward": entry.reward,
        "vetoed": entry.vetoed,
        "veto_weight": entry.veto_weight,
        "verdict": entry.verdict,
    }


def cell_of(row: Row[Any]) -> tuple[tuple[str, str], Evidence]:
    """Read a cell; names are the same objects in all tenants."""
    return (sys.intern(row.bucket), sys.intern(row.action)), Evidence(row.n, row.s, row.s2, row.as_of)


def action_of(row: Row[Any]) -> ActionRecord:
    """Read what is kept of an action."""
    return ActionRecord(
        vetoes=Evidence(row.veto_episodes, row.vetoes, row.vetoes, row.as_of),
        configuration_version=row.configuration_version,
        episodes=row.episodes,
        reward_sum=row.reward_sum,
        ineligible=row.ineligible,
        over_cap=row.over_cap,
    )


def bucket_of(row: Row[Any]) -> BucketRecord:
    """Read what is kept of a bucket."""
    return BucketRecord(
        allocation_version=row.allocation_version, publish_time=row.publish_time, n=row.n, fresh=row.fresh
    )


def policy_of(row: Row[Any]) -> PolicyRecord:
    """Read what is kept of a policy as a whole."""
    return PolicyRecord(
        allocation_version=row.allocation_version,
        policy_version=row.policy_version,
        half_life=timedelta(seconds=row.half_life_seconds),
        settled_version=row.settled_version,
        features_version=row.features_version,
        resettle_after=None if row.resettle_time is None else (row.resettle_time, row.resettle_episode),
        self_check=_self_check(row.self_check),
        learning_held=row.learning_held,
        safety_window=row.safety_window,
        closed=None if row.closed is None else Reason(row.closed),
        usage=usage_of(row.usage),
        capped_until=row.capped_until,
    )


def usage_of(stored: object) -> Usage | None:
    """Read what counts against the caps; None where there are none."""
    return None if stored is None else _usage.validate_python(stored)


def _self_check(kept: dict[str, Any] | None) -> SelfCheck:
    if kept is None:
        return SelfCheck.start()
    return SelfCheck(
        keys=tuple(kept["keys"]),
        count=kept["count"],
        expected=np.array(kept["expected"], dtype=np.float64),
        excess=np.array(kept["excess"], dtype=np.float64),
        variance=np.array(kept["variance"], dtype=np.float64).reshape(len(kept["keys"]), len(kept["keys"])),
        impossible=kept["impossible"],
        looks=kept["looks"],
    )


def change_of(row: Row[Any]) -> CellChange:
    """Read a known change or a succession."""
    return CellChange(
        sequence=row.evidence_sequence,
        bucket=row.bucket,
        action=row.action,
        source=row.source,
        policy_time=row.policy_time,
        factor=row.factor,
        cause=row.cause,
    )


def as_json(values: Sequence[dict[str, object]]) -> str:
    """Encode rows for `jsonb_to_recordset`; dataclasses and arrays become what the readers above take."""
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY).decode()
