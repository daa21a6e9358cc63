"""Hold the statements that count what was served beside the baseline, for the caps on it, from the raw rows."""

from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, DateTime, Double, Text, and_, bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import JSONB

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.domain.usage import DAY, HOUR, MINUTE

_policy, _baseline = bindparam("policy", type_=Text), bindparam("baseline", type_=Text)
_before = bindparam("before", type_=BigInteger)
_now = bindparam("now", type_=DateTime(timezone=True))


def _slot(time: ColumnElement[Any], length: int) -> ColumnElement[int]:
    return cast(func.floor(func.extract("epoch", time) / length), BigInteger)


def _is_inside(slot: ColumnElement[int], length: int, window: int) -> ColumnElement[bool]:
    """Say whether the last moment of a slot has not left the window yet."""
    return (slot + 1) * length + window > func.extract("epoch", _now)


def _decisions() -> Any:
    row = tables.decision.c
    slot = _slot(row.decision_time, MINUTE)
    return (
        select(slot.label("slot"), func.count().label("number"))
        .where(
            row.policy == _policy,
            row.x < _before,
            row.action != _baseline,
            ~row.superseded,
            row.decision_time > _now - func.make_interval(0, 0, 0, 0, 0, 0, HOUR + MINUTE),
            _is_inside(slot, MINUTE, HOUR),
        )
        .group_by(slot)
        .order_by(slot)
    )


def _cost() -> Any:
    event, file, decision = tables.episode_event.c, learning_tables.episode.c, tables.decision.c
    slot = _slot(event.receive_time, HOUR)
    calls = func.jsonb_array_elements(event.trajectory["llm_calls"]).table_valued(column("value", JSONB))
    usd = cast(calls.c.value["cost_usd"].astext, Double)
    return (
        select(slot.label("slot"), func.sum(usd).label("usd"))
        .select_from(tables.episode_event)
        .join(learning_tables.episode, and_(file.policy == event.policy, file.episode_id == event.episode_id))
        .join(tables.decision, decision.decision_id == file.decision_id)
        .join(calls, cast("true", Text) == "true")
        .where(
            event.policy == _policy,
            event.x < _before,
            event.kind == "LOG",
            func.coalesce(event.served_action, decision.action) != _baseline,
            event.receive_time > _now - func.make_interval(0, 0, 0, 0, 0, 0, DAY + HOUR),
            _is_inside(slot, HOUR, DAY),
        )
        .group_by(slot)
        .having(func.sum(usd) > 0)
        .order_by(slot)
    )


DECISIONS_BESIDE: Final = _decisions()
COST_BESIDE: Final = _cost()
