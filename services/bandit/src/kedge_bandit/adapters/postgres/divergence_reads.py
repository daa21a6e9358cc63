"""Hold the statement that compares what was learned with the baseline on the episodes between two divergence checks.

Randomised episodes by the first row of evidence that they were learned from, so that none counts in two checks and no
reward spec that is put later brings them again. A row of the learned part counts 1, one of the baseline (1 - p)/p: that
is the baseline in the contexts that the learned part got.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.orm import aliased

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.ramp_reads import SUMS, recent_from

_policy, _baseline = bindparam("policy", type_=Text), bindparam("baseline", type_=Text)
_after = bindparam("after", type_=BigInteger)
_ROW, _DRAWN = learning_tables.evidence.c, tables.decision.c
_EARLIER: Final = aliased(learning_tables.evidence, name="earlier")

QUANTITIES: Final[dict[str, ColumnElement[Any]]] = {
    "quality": case((_ROW.vetoed, 0.0), else_=cast(_ROW.verdict["components"]["quality"].astext, Double)),
}
"""What is compared, by name; NULL where an episode does not have it. A vetoed episode has quality 0."""


def _first() -> ColumnElement[bool]:
    """Say that no earlier row of the episode was learned from."""
    earlier = _EARLIER.c
    before = and_(
        earlier.policy == _ROW.policy,
        earlier.episode_id == _ROW.episode_id,
        earlier.evidence_sequence < _ROW.evidence_sequence,
        earlier.weight > 0,
    )
    return ~exists().where(before)


def _rows() -> Any:
    is_learned = _ROW.action != _baseline
    weight = case((is_learned, cast(1.0, Double)), else_=(1.0 - _DRAWN.propensity) / _DRAWN.propensity)
    return (
        select(
            cast(is_learned, Boolean).label("is_learned"),
            cast(weight, Double).label("w"),
            *(value.label(name) for name, value in QUANTITIES.items()),
        )
        .join(tables.decision, and_(_DRAWN.decision_id == _ROW.decision_id, _DRAWN.decision_time == _ROW.decision_time))
        .where(
            _ROW.policy == _policy,
            _ROW.evidence_sequence > func.greatest(_after, recent_from()),
            _ROW.weight > 0,
            _DRAWN.is_randomised,
            or_(is_learned, _DRAWN.propensity < 1.0),
            _first(),
        )
        .subquery("rows")
    )


def _compared() -> Any:
    row = _rows().c
    return select(
        row.is_learned,
        func.count().label("episodes"),
        *(one for name in QUANTITIES for one in _sums(row.w, row[name], name)),
    ).group_by(row.is_learned)


def _sums(w: ColumnElement[float], x: ColumnElement[float], name: str) -> list[ColumnElement[Any]]:
    known = and_(x.is_not(None), w > 0)
    sums = (w, w * x, w * w, w * w * x, w * w * x * x)
    totals: list[Any] = [func.count(), *(func.sum(one) for one in sums)]
    return [
        func.coalesce(total.filter(known), 0).label(f"{name}_{label}")
        for label, total in zip(SUMS, totals, strict=True)
    ]


COMPARED: Final = _compared()
LOG_END: Final = select(learning_tables.fold_state.c.evidence_sequence)
