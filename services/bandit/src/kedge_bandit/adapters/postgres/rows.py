"""Shape raw rows for `control.write_batch`, and read its answer back into statuses."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.identifiers import TenantId

RECORDED: Final = "RECORDED"
DUPLICATE: Final = "DUPLICATE"
CONFLICT: Final = "CONFLICT"
REJECTED: Final = "REJECTED"
SUPERSEDED: Final = "SUPERSEDED"

DECISION_BYTES: Final = 2_048
"""What a decision counts for in bounds on bytes."""

_DECISIONS: Final = "decisions"

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
        kind: "episode_events", "outcomes" or "decisions"; the last for a decision whose sender waits.
        encoded: its columns as a JSON object; made once, for the digest, the bound on bytes and the batch alike.
        digest: hash of what makes two sends of one key the same.
        decision: columns of a decision, which is encoded with its batch.
    """

    kind: str
    key: str
    encoded: bytes = b""
    digest: str = ""
    decision: dict[str, object] | None = None
    status: str = RECORDED

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.encoded) if self.decision is None else DECISION_BYTES


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
        "is_local": decision.is_local,
        "set_aside": decision.set_aside,
    }


def waiting_decision(decision: Decision, *, only_first: bool = False) -> Row:
    """A decision whose sender waits for the commit; `only_first`: not stored where its episode has another one."""
    values = decision_row(decision)
    if only_first:
        values["only_first"] = True
    return Row(_DECISIONS, decision.decision_id, decision=values)


def event_row(event: EpisodeEvent) -> Row:
    """Columns of an episode event."""
    values: dict[str, object] = {
        "key": event.key,
        "kind": event.kind,
        "policy": event.policy,
        "episode_id": event.episode_id,
        "decision_id": event.decision_id,
        "served_action": event.served_action,
        "trajectory": _trajectory(event),
        "source": event.source,
    }
    return _keyed("episode_events", event.key, values)


def _trajectory(event: EpisodeEvent) -> object:
    """The trajectory; whom it served stands in it, where erasing looks."""
    if event.end_user is None or event.trajectory is None:
        return event.trajectory
    return {**orjson.loads(orjson.dumps(event.trajectory)), "end_user": event.end_user}


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
    return _keyed("outcomes", event.outcome.key, values)


def _keyed(kind: str, key: str, values: dict[str, object]) -> Row:
    encoded = orjson.dumps(values, option=orjson.OPT_SORT_KEYS)
    return Row(kind, key, encoded, hashlib.sha256(encoded).hexdigest())


def _numbered(rows: list[Row]) -> Iterator[bytes]:
    """Give each row its place in the batch, and the hash that its key stands for."""
    for n, row in enumerate(rows):
        yield b'%b,"payload_hash":"%b","n":%d}' % (row.encoded[:-1], row.digest.encode(), n)


@dataclass(slots=True)
class Batch:
    """Rows of one commit by tenant; keys and decisions once each, as the SQL function demands."""

    decision_ids: set[str] = field(default_factory=set)
    _tenants: dict[TenantId, dict[str, list[Row]]] = field(default_factory=dict)
    _decisions: dict[TenantId, list[dict[str, object]]] = field(default_factory=dict)
    _known: dict[str, dict[str, object]] = field(default_factory=dict)
    _first: dict[tuple[TenantId, str, str], Row] = field(default_factory=dict)
    _repeats: list[tuple[Row, Row]] = field(default_factory=list)
    _awaited: list[Row] = field(default_factory=list)

    def add_decision(self, tenant: TenantId, row: dict[str, object]) -> None:
        """Add a decision; of two rows of one decision the one with a context stays."""
        decision_id = str(row["decision_id"])
        known = self._known.get(decision_id)
        if known is not None:
            if known["context"] is None:
                known.update(row)
            return
        rows = self._decisions.setdefault(tenant, [])
        row["n"] = len(rows)
        rows.append(row)
        self._known[decision_id] = row
        self.decision_ids.add(decision_id)

    def add(self, tenant: TenantId, row: Row) -> None:
        """Add a keyed row; a second one of the same key gets its status from the first."""
        if row.decision is not None:
            self.add_decision(tenant, row.decision)
            self._awaited.append(row)
            return
        first = self._first.setdefault((tenant, row.kind, row.key), row)
        if first is not row:
            self._repeats.append((row, first))
            return
        self._tenants.setdefault(tenant, {}).setdefault(row.kind, []).append(row)

    def json(self) -> str:
        """Encode for the SQL function."""
        tenants = []
        for tenant in self._decisions.keys() | self._tenants.keys():
            kinds = [
                b'"%b":[%b]' % (kind.encode(), b",".join(_numbered(rows)))
                for kind, rows in self._tenants.get(tenant, {}).items()
            ]
            if tenant in self._decisions:
                kinds.append(b'"decisions":' + orjson.dumps(self._decisions[tenant]))
            tenants.append(orjson.dumps(tenant) + b":{" + b",".join(kinds) + b"}")
        return (b"{" + b",".join(tenants) + b"}").decode()

    def settle(self, answer: dict[str, dict[str, list[Any]]]) -> None:
        """Set every row's status from the function's answer."""
        if self._awaited:
            self._settle_decisions(answer)
        for tenant, found in answer.items():
            for kind, name, status in _ANSWERS:
                for n in found.get(name, ()):
                    self._tenants[TenantId(tenant)][kind][n].status = status
        for row, first in self._repeats:
            if row.digest != first.digest:
                row.status = CONFLICT
            else:
                row.status = first.status if first.status == CONFLICT else DUPLICATE

    def _settle_decisions(self, answer: dict[str, dict[str, list[Any]]]) -> None:
        """Another decision of the episode may have been recorded first."""
        lost = {
            self._decisions[TenantId(tenant)][found["n"]]["decision_id"]
            for tenant, answered in answer.items()
            for found in answered.get("superseded", ())
        }
        for row in self._awaited:
            row.status = SUPERSEDED if row.key in lost else RECORDED
