"""Keep where detectors stand, and read what settled since they last looked.

An episode counts once, with its first verdict; one that is vetoed only later counts again, as vetoed. Those count
that were randomised, of the policy's configuration; of an action that is excluded only where nothing else that was
learned is left. The sides meet as in `ramp_reads`: a row of the baseline counts (1 - p)/p, which is the baseline in the
contexts that the learned side got; in the veto rate every row counts 1.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import BigInteger, ColumnElement, Double, Text, and_, bindparam, case, cast, exists, func, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.domain.detectors import Look, Place, Secondary, UsualVetoes
from kedge_bandit.domain.divergence import Reading
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp_metrics import Moments

_PLACE, _ACTION = learning_tables.detector.c, learning_tables.action_state.c
_ROW, _DRAWN = learning_tables.evidence.c, tables.decision.c
_EARLIER = learning_tables.evidence.alias("earlier")
_READING: Final = TypeAdapter(Reading)
_USUAL: Final = TypeAdapter(UsualVetoes)


class PostgresDetectors:
    """The detectors of the open ledger."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def head(self) -> int:
        """Read how long the evidence log is."""
        found = await self._connection.execute(select(learning_tables.fold_state.c.evidence_sequence))
        return found.scalar_one_or_none() or 0

    async def places(self, policy: PolicyName) -> Mapping[Secondary, Place]:
        """Read where the detectors of a policy stand; one that never looked is missing."""
        wanted = select(learning_tables.detector).where(_PLACE.policy == policy)
        return {
            Secondary(row.detector): Place(
                through=row.through,
                looks=row.looks,
                usual=_USUAL.validate_python(row.usual),
                known=row.known,
                reading=None if row.reading is None else _READING.validate_python(row.reading),
            )
            for row in await self._connection.execute(wanted)
        }

    async def look(self, policy: Policy, detector: Secondary, *, after: int, through: int) -> Look:
        """Sum up what settled between two places in the log."""
        asked = {
            "policy": policy.name,
            "baseline": policy.spec.baseline_key,
            "configuration": policy.configuration_version,
            "after": after,
            "through": through,
        }
        sides = {row.is_learned: row for row in await self._connection.execute(_LOOKS[detector], asked)}
        return Look(_moments(sides.get(True)), _moments(sides.get(False)))

    async def put(self, policy: PolicyName, detector: Secondary, place: Place) -> None:
        """Store where a detector stands."""
        key = {"policy": policy, "detector": detector.value}
        row = {
            "through": place.through,
            "looks": place.looks,
            "look_time": func.now(),
            "usual": _USUAL.dump_python(place.usual, mode="json"),
            "known": place.known,
            "reading": None if place.reading is None else _READING.dump_python(place.reading, mode="json"),
        }
        put = upsert(learning_tables.detector).values(key | row)
        await self._connection.execute(put.on_conflict_do_update(index_elements=[*key], set_=row))


def _moments(row: Any) -> Moments:
    return Moments() if row is None else Moments(row.n, row.w, row.wx, row.ww, row.wwx, row.wwxx)


def _quantity(detector: Secondary) -> ColumnElement[Any]:
    """Give what a detector measures of an episode; NULL where it was not."""
    signal = _ROW.verdict["signals"]
    if detector is Secondary.VETO_RATE:
        return case((_ROW.veto_weight > 0, cast(case((_ROW.vetoed, 1.0), else_=0.0), Double)))
    if detector is Secondary.JUDGE_GAP:
        measured = cast(signal["judge"].astext, Double) - cast(signal["task_success"].astext, Double)
    else:
        measured = func.ln(func.greatest(cast(signal["answer_tokens"].astext, Double), 1.0))
    return case((_ROW.weight > 0, measured))


def _looks(detector: Secondary) -> Any:
    """Compare both sides in one quantity."""
    is_learned = _ROW.action != bindparam("baseline", type_=Text)
    w: ColumnElement[Any] = cast(1.0, Double)
    counts = _ROW.reward_version == 1
    if detector is Secondary.VETO_RATE:
        same = and_(_EARLIER.c.policy == _ROW.policy, _EARLIER.c.episode_id == _ROW.episode_id)
        was_vetoed = exists().where(same, _EARLIER.c.vetoed, _EARLIER.c.evidence_sequence < _ROW.evidence_sequence)
        counts = or_(counts, and_(_ROW.vetoed, ~was_vetoed))
    else:
        w = case((is_learned, w), else_=(1.0 - _DRAWN.propensity) / _DRAWN.propensity)
    rows = (
        select(is_learned.label("is_learned"), w.label("w"), _quantity(detector).label("x"))
        .join(tables.decision, and_(_DRAWN.decision_id == _ROW.decision_id, _DRAWN.decision_time == _ROW.decision_time))
        .where(
            _ROW.policy == bindparam("policy", type_=Text),
            _ROW.evidence_sequence > bindparam("after", type_=BigInteger),
            _ROW.evidence_sequence <= bindparam("through", type_=BigInteger),
            _ROW.policy_version >= bindparam("configuration", type_=BigInteger),
            _DRAWN.is_randomised,
            counts,
            ~and_(_is_excluded(), _is_not_alone()),
        )
        .subquery("rows")
        .c
    )
    w, x = rows.w, rows.x
    totals = {"w": w, "wx": w * x, "ww": w * w, "wwx": w * w * x, "wwxx": w * w * x * x}
    sums = [func.coalesce(func.sum(total), 0.0).label(name) for name, total in totals.items()]
    return select(rows.is_learned, func.count().label("n"), *sums).where(x.is_not(None)).group_by(rows.is_learned)


def _is_excluded() -> ColumnElement[bool]:
    """Say whether a row's action is excluded by the veto rule now."""
    return exists().where(_ACTION.policy == _ROW.policy, _ACTION.action == _ROW.action, _ACTION.ineligible)


def _is_not_alone() -> ColumnElement[bool]:
    """Say whether something else that was learned still serves."""
    is_other = and_(
        _ACTION.policy == _ROW.policy, _ACTION.action.not_in((_ROW.action, bindparam("baseline", type_=Text)))
    )
    return exists().where(is_other, ~_ACTION.ineligible)


_LOOKS: Final = {detector: _looks(detector) for detector in Secondary}
