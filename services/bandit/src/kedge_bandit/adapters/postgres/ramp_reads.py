"""Hold the statement that compares what a ramp gives traffic to with the baseline, from the newest evidence.

Randomised episodes that were decided since the stage began, each at its newest reward version. For a floor the learned
side is everything but the baseline, and a row of the baseline counts (1 − p)/p: that is the baseline in the contexts
that the learned side got. For an arm both sides count 1/p.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Double,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import distinct_on

from kedge_bandit.adapters.postgres import learning_tables, tables

NEWEST: Final = 20_000
"""Rows of the tenant's evidence that are looked at, so that a look costs the same in a full table."""
QUANTITIES: Final = ("reward", "cost_usd", "latency_ms")
SUMS: Final = ("n", "w", "wx", "ww", "wwx", "wwxx")

_policy, _baseline = bindparam("policy", type_=Text), bindparam("baseline", type_=Text)
_arm = bindparam("arm", type_=Text)
_since = bindparam("since", type_=DateTime(timezone=True))
_ROW, _DRAWN = learning_tables.evidence.c, tables.decision.c


def recent_from() -> ColumnElement[int]:
    """Give the sequence beyond which rows of evidence are the newest."""
    return select(cast(learning_tables.fold_state.c.evidence_sequence - NEWEST, BigInteger)).scalar_subquery()


def _newest() -> Any:
    """Give each episode's newest row of the stage."""
    return (
        select(learning_tables.evidence)
        .ext(distinct_on(_ROW.episode_id))
        .where(
            _ROW.evidence_sequence > recent_from(),
            _ROW.policy == _policy,
            _ROW.settle_time >= _since,
            _ROW.decision_time >= _since,
        )
        .order_by(_ROW.episode_id, _ROW.evidence_sequence.desc())
        .subquery("newest")
    )


def _rows() -> Any:
    row = _newest().c
    is_learned = case(
        (_arm == "", row.action != _baseline),
        else_=_arm == func.any(func.string_to_array(row.action, "|")),
    )
    weight = case(
        (_arm != "", 1.0 / _DRAWN.propensity),
        (is_learned, cast(1.0, Double)),
        else_=(1.0 - _DRAWN.propensity) / _DRAWN.propensity,
    )
    learned_from = row.weight > 0
    return (
        select(
            cast(is_learned, Boolean).label("is_learned"),
            cast(row.vetoed, Boolean).label("vetoed"),
            row.veto_weight.label("veto_weight"),
            cast(weight, Double).label("w"),
            case((learned_from, row.reward)).label("reward"),
            *(
                case((learned_from, cast(row.verdict["signals"][name].astext, Double))).label(name)
                for name in QUANTITIES[1:]
            ),
        )
        .join(tables.decision, and_(_DRAWN.decision_id == row.decision_id, _DRAWN.decision_time == row.decision_time))
        .where(_DRAWN.is_randomised, or_(is_learned, row.action == _baseline))
        .subquery("rows")
    )


def _compared() -> Any:
    row = _rows().c
    counts = row.veto_weight > 0
    return select(
        row.is_learned,
        func.count().filter(counts).label("episodes"),
        func.count().filter(and_(counts, row.vetoed)).label("vetoes"),
        *(one for name in QUANTITIES for one in _sums(row.w, row[name], name)),
    ).group_by(row.is_learned)


def _sums(w: ColumnElement[float], x: ColumnElement[float], name: str) -> list[ColumnElement[Any]]:
    known = x.is_not(None)
    sums = (func.sum(w), func.sum(w * x), func.sum(w * w), func.sum(w * w * x), func.sum(w * w * x * x))
    totals: list[ColumnElement[Any]] = [func.count(x).label(f"{name}_n")]
    return totals + [
        func.coalesce(total.filter(known), 0.0).label(f"{name}_{label}")
        for total, label in zip(sums, SUMS[1:], strict=True)
    ]


COMPARED: Final = _compared()
LAST_SETTLED: Final = select(func.max(_ROW.settle_time)).where(
    _ROW.evidence_sequence > recent_from(), _ROW.policy == _policy
)
