"""Keep the peek ledger of one tenant's holdout, the answers of its queries, and who gives them."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, and_, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import holdout_tables as tables
from kedge_bandit.application.holdout_ports import (
    Answer,
    AnswererKind,
    AnswererPart,
    AnswererSettings,
    KeptAnswer,
    LedgerRow,
)
from kedge_bandit.domain.candidate import digest
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.gate import AskedOf
from kedge_bandit.domain.identifiers import PolicyName, TenantId

_Q: Final = tables.query.c
_A: Final = tables.answer.c
_W: Final = tables.answerer.c
_COLUMNS: Final = [field.name for field in fields(LedgerRow)]


class PostgresPeekLedger:
    """Queries and their answers."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant, self._connection = tenant, connection

    async def rows(self, policy: PolicyName, since: int) -> Sequence[LedgerRow]:
        """Read the queries of the versions from a number on, oldest first."""
        ours = and_(_Q.tenant == self._tenant, _Q.policy == policy, _Q.version_number >= since)
        asked = select(tables.query).where(ours).order_by(_Q.query)
        return [_row(row) for row in await self._connection.execute(asked)]

    async def of_proposal(self, proposal: str) -> tuple[PolicyName, LedgerRow] | None:
        """Read a proposal's newest query."""
        ours = and_(_Q.tenant == self._tenant, _Q.proposal == proposal)
        asked = select(tables.query).where(ours).order_by(_Q.open_time.desc()).limit(1)
        found = (await self._connection.execute(asked)).one_or_none()
        return None if found is None else (PolicyName(found.policy), _row(found))

    async def open(self, policy: PolicyName, row: LedgerRow) -> None:
        """Write a query down, before the gate part is opened."""
        written = asdict(row) | {"tenant": self._tenant, "policy": policy}
        await self._connection.execute(insert(tables.query).values(written))

    async def beat(self, policy: PolicyName, row: LedgerRow) -> bool:
        """Say that it runs on; False where somebody closed it meanwhile."""
        going = update(tables.query).where(self._is(_Q, policy, row), _Q.close_time.is_(None))
        beaten = going.values(done=row.done, lease_until=row.lease_until).returning(_Q.query)
        return (await self._connection.execute(beaten)).one_or_none() is not None

    async def close(self, policy: PolicyName, row: LedgerRow) -> None:
        """Write how it ended."""
        ended = {name: getattr(row, name) for name in ("close_time", "verdict", "discordance", "done")}
        await self._connection.execute(update(tables.query).where(self._is(_Q, policy, row)).values(ended))

    async def keep(self, policy: PolicyName, row: LedgerRow, answers: Sequence[KeptAnswer]) -> None:
        """Keep answers of a query."""
        place = {"tenant": self._tenant, "policy": policy, "version_number": row.version_number, "query": row.query}
        rows = [
            place
            | {"case_hash": kept.case_hash, "side": kept.side, "score": kept.score}
            | {name: value for name, value in asdict(kept.answer).items() if name != "score"}
            for kept in answers
        ]
        if rows:
            await self._connection.execute(insert(tables.answer), rows)

    async def answers(self, policy: PolicyName, row: LedgerRow) -> Sequence[KeptAnswer]:
        """Read them."""
        asked = select(tables.answer).where(self._is(_A, policy, row)).order_by(_A.case_hash, _A.side)
        return [_kept(found) for found in await self._connection.execute(asked)]

    def _is(self, column: Any, policy: PolicyName, row: LedgerRow) -> ColumnElement[bool]:
        version, query = column.version_number == row.version_number, column.query == row.query
        return and_(column.tenant == self._tenant, column.policy == policy, version, query)


class PostgresAnswerers:
    """Who answers and judges."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant, self._connection = tenant, connection

    async def get(self, policy: PolicyName, part: AnswererPart) -> tuple[AnswererSettings, str] | None:
        """Read the settings, and the model that was seen to answer last."""
        found = (await self._connection.execute(select(tables.answerer).where(self._is(policy, part)))).one_or_none()
        if found is None:
            return None
        settings = dict(found.settings)
        return AnswererSettings(**(settings | {"kind": AnswererKind(settings["kind"])})), found.model_seen

    async def put(self, policy: PolicyName, part: AnswererPart, settings: AnswererSettings, change: Change) -> None:
        """Replace the settings, and remember who did."""
        changed = {"settings": asdict(settings), "change_time": change.at, "set_by": change.actor.name}
        row = changed | {"tenant": self._tenant, "policy": policy, "part": part.value, "model_seen": ""}
        stored = upsert(tables.answerer).values(row)
        await self._connection.execute(
            stored.on_conflict_do_update(index_elements=["tenant", "policy", "part"], set_=changed)
        )

    async def asked(self, policy: PolicyName) -> tuple[AskedOf, ...]:
        """Say who is asked, by part, and who set that."""
        ours = select(tables.answerer).where(_W.tenant == self._tenant, _W.policy == policy).order_by(_W.part)
        return tuple(
            AskedOf(
                part=row.part,
                kind=row.settings["kind"],
                address=row.settings["address"],
                model=row.settings["model"],
                settings_hash=digest(dict(row.settings)),
                set_by=row.set_by,
                set_time=row.change_time.astimezone(UTC),
            )
            for row in await self._connection.execute(ours)
        )

    async def seen(self, policy: PolicyName, part: AnswererPart, model_id: str) -> None:
        """Remember the model that answered."""
        await self._connection.execute(
            update(tables.answerer).where(self._is(policy, part)).values(model_seen=model_id)
        )

    def _is(self, policy: PolicyName, part: AnswererPart) -> ColumnElement[bool]:
        return and_(_W.tenant == self._tenant, _W.policy == policy, _W.part == part.value)


def _row(row: Row[Any]) -> LedgerRow:
    return LedgerRow(**{name: getattr(row, name) for name in _COLUMNS})


def _kept(row: Row[Any]) -> KeptAnswer:
    answer = Answer(
        output=row.output,
        cost_usd=row.cost_usd,
        latency_ms=row.latency_ms,
        vetoed=row.vetoed,
        model_id=row.model_id,
    )
    return KeptAnswer(case_hash=row.case_hash, side=row.side, answer=answer, score=row.score)
