"""Shape raw rows for `control.write_batch`, and read its answer back into statuses."""

import hashlib
from dataclasses import dataclass, field
from typing import Final

import orjson

from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.identifiers import TenantId

RECORDED: Final = "RECORDED"
DUPLICATE: Final = "DUPLICATE"
CONFLICT: Final = "CONFLICT"
REJECTED: Final = "REJECTED"

_ANSWERS: Final = (
    ("episode_events", "event_duplicates", DUPLICATE),
    ("episode_events", "event_conflicts", CONFLICT),
    ("outcomes", "outcome_duplicates", DUPLICATE),
    ("outcomes", "outcome_conflicts", CONFLICT),
)


@dataclass(slots=True)
class Row:
    """One keyed row on its way; `status` is set by the commit.

    Attributes:
        kind: "episode_events" or "outcomes".
        values: columns of the row.
        digest: hash of what makes two sends of one key the same.
    """

    kind: str
    key: str
    values: dict[str, object]
    digest: str
    status: str = RECORDED


def decision_row(decision: Decision) -> dict[str, object]:
    """Columns of a decision."""
    return {
        "decision_id": decision.decision_id,
        "decision_time": decision.time,
        "policy": decision.policy,
        "episode_id": decision.episode_id,
        "request_id": decision.request_id,
        "context": decision.context,
        "bucket": decision.bucket,
        "available": decision.available,
        "action": decision.action,
        "propensity": decision.propensity,
        "policy_version": decision.policy_version,
        "allocation_version": decision.allocation_version,
        "seed_epoch": decision.seed_epoch,
        "mode": decision.mode,
        "reason": decision.reason,
        "is_randomised": decision.is_randomised,
        "judge_requested": decision.judge_requested,
        "judge_rate": decision.judge_rate,
        "shadow_action": decision.shadow_action,
    }


def event_row(event: EpisodeEvent) -> Row:
    """Columns of an episode event."""
    values: dict[str, object] = {
        "key": event.key,
        "kind": event.kind,
        "policy": event.policy,
        "episode_id": event.episode_id,
        "decision_id": event.decision_id,
        "served_action": event.served_action,
        "trajectory": event.trajectory,
        "source": event.source,
    }
    return Row("episode_events", event.key, values, _digest(values))


def outcome_row(event: OutcomeEvent) -> Row:
    """Columns of an outcome; its own payload is stored whole."""
    values: dict[str, object] = {
        "key": event.outcome.key,
        "policy": event.policy,
        "episode_id": event.episode_id,
        "decision_id": event.decision_id,
        "signal": event.outcome.signal,
        "payload": event.outcome,
        "served_action": event.served_action,
    }
    return Row("outcomes", event.outcome.key, values, _digest(values))


def _digest(values: dict[str, object]) -> str:
    return hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(slots=True)
class Batch:
    """Rows of one commit by tenant; keys and decisions once each, as the SQL function demands."""

    decision_ids: set[str] = field(default_factory=set)
    _tenants: dict[TenantId, dict[str, list[dict[str, object]]]] = field(default_factory=dict)
    _decisions: dict[str, dict[str, object]] = field(default_factory=dict)
    _first: dict[tuple[TenantId, str, str], Row] = field(default_factory=dict)
    _repeats: list[tuple[Row, Row]] = field(default_factory=list)
    _placed: dict[tuple[TenantId, str], list[Row]] = field(default_factory=dict)

    def add_decision(self, tenant: TenantId, row: dict[str, object]) -> None:
        """Add a decision; of two rows of one decision the one with a context stays."""
        decision_id = str(row["decision_id"])
        known = self._decisions.get(decision_id)
        if known is not None:
            if known["context"] is None:
                known.update(row)
            return
        rows = self._tenants.setdefault(tenant, {}).setdefault("decisions", [])
        row["n"] = len(rows)
        rows.append(row)
        self._decisions[decision_id] = row
        self.decision_ids.add(decision_id)

    def add(self, tenant: TenantId, row: Row) -> None:
        """Add a keyed row; a second one of the same key gets its status from the first."""
        first = self._first.setdefault((tenant, row.kind, row.key), row)
        if first is not row:
            self._repeats.append((row, first))
            return
        rows = self._tenants.setdefault(tenant, {}).setdefault(row.kind, [])
        rows.append({**row.values, "payload_hash": row.digest, "n": len(rows)})
        self._placed.setdefault((tenant, row.kind), []).append(row)

    def json(self) -> str:
        """Encode for the SQL function."""
        return orjson.dumps(self._tenants).decode()

    def settle(self, answer: dict[str, dict[str, list[int]]]) -> None:
        """Set every row's status from the function's answer."""
        for tenant, found in answer.items():
            for kind, name, status in _ANSWERS:
                placed = self._placed.get((TenantId(tenant), kind), [])
                for n in found.get(name, ()):
                    placed[n].status = status
        for row, first in self._repeats:
            if row.digest != first.digest:
                row.status = CONFLICT
            else:
                row.status = first.status if first.status == CONFLICT else DUPLICATE
