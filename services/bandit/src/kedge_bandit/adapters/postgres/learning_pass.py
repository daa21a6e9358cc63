"""Read in one statement what a pass over a tenant reads: new rows, the episodes they belong to, what is due.

A pass has few rows, so what it costs is statements: each is sent, parsed and planned by itself. The rows come as JSON,
which prints floats exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Select, column, exists, literal_column, select, table, true
from sqlalchemy import Text as SqlText
from sqlalchemy.sql.selectable import LateralFromClause

from kedge_bandit.adapters.postgres import learning_reads as reads
from kedge_bandit.adapters.postgres import learning_rows as rows
from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.tenant_sql import SCHEMA, Text, sql_of, text
from kedge_bandit.application.learning_port import FoldPoint, FreshRows
from kedge_bandit.domain.identifiers import PolicyName

T = TypeVar("T")
log = structlog.get_logger(__name__)

LOCK: Final = text(f"SELECT 1 AS one FROM {SCHEMA}.fold_state FOR UPDATE SKIP LOCKED")  # noqa: S608 - a constant
LOCK_WAITING: Final = text(f"SELECT 1 AS one FROM {SCHEMA}.fold_state FOR UPDATE")  # noqa: S608 - a constant
TOUCH: Final = text(f"UPDATE {SCHEMA}.fold_state SET x = x")  # noqa: S608 - a constant
"""Become the one writer, and give the record another stamp."""

_IMPORT = "IMPORT"
_PARTS = ("outcomes", "events", "decisions", "files", "chosen", "entries", "due")
_TIMES = ("decision_time", "receive_time", "open_time", "due_time", "settle_time")
_keys, _files = (
    table(name, column("policy", SqlText), column("episode_id", SqlText), column("evidence_sequence"))
    for name in ("keys", "files")
)
_key, _decision, _episode = tables.decision_key.c, tables.decision.c, learning_tables.episode.c


def _one(wanted: Select[Any], name: str) -> LateralFromClause:
    """Look a row up for each row before it, by an index (ADR 0031).

    A join of few rows with tables that were never analysed, or with more rows guessed than there are, reads the tables.
    """
    return wanted.limit(literal_column("1")).lateral(name)


_file = _one(
    select(learning_tables.episode).where(_episode.policy == _keys.c.policy, _episode.episode_id == _keys.c.episode_id),
    "file",
)
_FILES = select(_file).select_from(_keys).join(_file, true())
_has_file = exists().where(_files.c.policy == _keys.c.policy, _files.c.episode_id == _keys.c.episode_id)
_named = _one(
    select(_key.decision_id, _key.decision_time).where(
        _key.policy == _keys.c.policy, _key.episode_id == _keys.c.episode_id
    ),
    "named",
)
_made = _one(
    select(*reads.CHOSEN_COLUMNS).where(
        _decision.decision_id == _named.c.decision_id, _decision.decision_time == _named.c.decision_time
    ),
    "made",
)
_CHOSEN = select(_made).select_from(_keys).join(_named, true()).join(_made, true()).where(~_has_file)
_entry = _one(
    select(learning_tables.evidence).where(learning_tables.evidence.c.evidence_sequence == _files.c.evidence_sequence),
    "entry",
)
_ENTRIES = (
    select(_entry).select_from(_files).join(_entry, true()).where(_files.c.evidence_sequence > literal_column("0"))
)


def _statement() -> Text:
    parts = {
        "outcomes": _unfolded(reads.FRESH_OUTCOMES),
        "events": _unfolded(reads.FRESH_EVENTS),
        "decisions": _unfolded(reads.FRESH_DECISIONS),
        "keys": "SELECT policy, episode_id FROM outcomes WHERE policy IS NOT NULL AND episode_id IS NOT NULL "
        "UNION SELECT policy, episode_id FROM events UNION SELECT policy, episode_id FROM decisions",
        "files": sql_of(_FILES),
        "chosen": sql_of(_CHOSEN),
        "entries": sql_of(_ENTRIES),
        "due": sql_of(reads.DUE_FILES).replace("%(now)s", "statement_timestamp()"),
    }
    named = ",\n".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in parts.items())
    wanted = ", ".join(f"(SELECT json_agg(r) FROM {name} AS r) AS {name}" for name in _PARTS)  # noqa: S608 - constants
    return text(f"WITH {named}\nSELECT {wanted}, {sql_of(reads.XMIN)} AS high")


def _unfolded(statement: Select[Any]) -> str:
    """Read from the lock's own row on: what is final by this statement's snapshot, and what is not yet."""
    low = f"(SELECT x FROM {SCHEMA}.fold_state)"  # noqa: S608 - a constant
    return sql_of(statement).replace("%(low)s", low).replace("%(high)s", str(2**63 - 1))


READ: Final = _statement()


@dataclass(slots=True)
class Read:
    """What the statement read: rows by name, as the tables' columns are named.

    Attributes:
        high: new rows below it are final, and only those are here.
        is_blocked: there are others, which a transaction that still runs keeps from being taken.
        keys: (policy, episode id) of the episodes whose files were looked for.
    """

    outcomes: list[Any]
    events: list[Any]
    decisions: list[Any]
    files: list[Any]
    chosen: list[Any]
    entries: list[Any]
    due: list[Any]
    high: int = field(kw_only=True)
    is_blocked: bool = field(default=False, kw_only=True)
    keys: set[tuple[str, str]] = field(default_factory=set, kw_only=True)

    @classmethod
    def of(cls, row: Any) -> "Read":
        """Take the statement's one row."""
        read = cls(*([_row(one) for one in getattr(row, name) or ()] for name in _PARTS), high=row.high)
        for part in (read.outcomes, read.events, read.decisions):
            read.is_blocked |= bool(part) and part[-1].x >= read.high
            part[:] = [one for one in part if one.x < read.high]
            read.keys.update((one.policy, one.episode_id) for one in part if one.policy and one.episode_id)
        return read

    @property
    def is_empty(self) -> bool:
        """Whether nothing is new and nothing is due."""
        return not (self.outcomes or self.events or self.decisions or self.due)

    def is_cut(self, limit: int) -> bool:
        """Whether there may be more new rows than were read."""
        return max(len(self.outcomes), len(self.events), len(self.decisions)) > limit


def _row(fields: dict[str, Any]) -> SimpleNamespace:
    for name in _TIMES:
        value = fields.get(name)
        if value is not None:
            fields[name] = datetime.fromisoformat(value)
    return SimpleNamespace(**fields)


def fresh_rows_of(
    point: FoldPoint, decisions: Sequence[Any], events: Sequence[Any], outcomes: Sequence[Any], high: int
) -> FreshRows:
    """Read rows; imported ones are counted only."""
    imported: dict[PolicyName, int] = {}
    for row in events:
        if row.kind == _IMPORT:
            imported[PolicyName(row.policy)] = imported.get(PolicyName(row.policy), 0) + 1
    read_events, bad_events = _readable([row for row in events if row.kind != _IMPORT], rows.event_row)
    read_outcomes, bad_outcomes = _readable(outcomes, rows.outcome_row)
    return FreshRows(
        decisions=[rows.decision_row(row) for row in decisions],
        events=read_events,
        outcomes=read_outcomes,
        high=0 if point.is_restored else high,
        is_truncated=point.is_restored or high < point.high,
        imported=imported,
        unreadable=bad_events + bad_outcomes,
        oldest_time=min((row.receive_time for row in [*events, *outcomes]), default=None),
    )


def _readable(found: Sequence[Any], read: Callable[[Any], T]) -> tuple[list[T], int]:
    """Read what can be read; a row that nobody could have written through the API holds nothing up."""
    good: list[T] = []
    bad = 0
    for row in found:
        try:
            good.append(read(row))
        except rows.UNREADABLE as error:
            bad += 1
            log.error("row.unreadable", error=type(error).__name__)
    return good, bad
