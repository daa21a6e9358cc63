"""Keep versions and cases of one tenant's holdout, and what may be trained on, in the open transaction."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, Double, Row, and_, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import holdout_tables as tables
from kedge_bandit.application.holdout_ports import Version
from kedge_bandit.domain.case_effects import CaseLifts
from kedge_bandit.domain.holdout import CHECKS, CheckKind, HoldoutCase, Message, Part, is_near, sequences
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.rotation import Held

_V: Final = tables.version.c
_I: Final = tables.item.c
_O: Final = tables.opening.c
_T: Final = tables.training_text.c


class PostgresCases:
    """Versions, cases and training texts."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant, self._connection = tenant, connection

    async def lock(self, policy: PolicyName) -> None:
        """Let nobody else change this policy's holdout, or open a query of it, until the transaction ends."""
        digest = hashlib.sha256(f"holdout {self._tenant} {policy}".encode()).digest()
        await self._connection.execute(select(func.pg_advisory_xact_lock(int.from_bytes(digest[:8], signed=True))))

    async def policies(self) -> Sequence[PolicyName]:
        """Name the tenant's policies that have a holdout."""
        asked = select(_V.policy).where(_V.tenant == self._tenant).distinct().order_by(_V.policy)
        return [PolicyName(row.policy) for row in await self._connection.execute(asked)]

    async def newest(self, policy: PolicyName) -> Version | None:
        """Read the version in force."""
        rows = (await self._connection.execute(select(tables.version).where(self._ours(_V, policy)))).all()
        if not rows:
            return None
        newest = max(rows, key=lambda row: row.version_number)
        return Version(
            number=newest.version_number,
            digest=newest.version,
            since=max((row.version_number for row in rows if row.is_rotation), default=1),
            create_time=newest.create_time,
            actor=newest.actor,
            stale_because=newest.stale_because,
        )

    async def rotations(self, policy: PolicyName, since: datetime) -> int:
        """Count rotations since a time."""
        asked = select(func.count()).where(self._ours(_V, policy), _V.is_rotation, _V.create_time >= since)
        return int((await self._connection.execute(asked)).scalar_one())

    async def read(self, policy: PolicyName, part: Part, through: int) -> Sequence[HoldoutCase]:
        """Read the cases of one part that a query asks."""
        ours = and_(self._asked(policy, through), _I.part == part.value)
        asked = select(tables.item).where(ours).order_by(_I.case_hash)
        return [_case(row) for row in await self._connection.execute(asked)]

    async def sizes(self, policy: PolicyName, through: int) -> tuple[int, int]:
        """Count the cases of the gate part that a query asks: those that count for quality, and adversarial ones."""
        ours = and_(self._asked(policy, through), _I.part == Part.GATE.value)
        asked = select(_I.adversarial, func.count().label("cases")).where(ours).group_by(_I.adversarial)
        counted = {row.adversarial: row.cases for row in await self._connection.execute(asked)}
        return counted.get(False, 0), counted.get(True, 0)

    async def added(self, policy: PolicyName, after: int, through: int) -> Mapping[str, int]:
        """Count the cases that a query asks and that came after a version, by who imported them."""
        ours = and_(self._asked(policy, through), _I.part == Part.GATE.value, _I.added_version > after)
        came = and_(_V.tenant == _I.tenant, _V.policy == _I.policy, _V.version_number == _I.added_version)
        asked = select(_V.actor, func.count().label("cases")).join(tables.item, came).where(ours).group_by(_V.actor)
        return {row.actor: row.cases for row in await self._connection.execute(asked.order_by(_V.actor))}

    async def of(self, policy: PolicyName, case_hashes: Collection[str]) -> Sequence[HoldoutCase]:
        """Read cases by hash, also those that have left."""
        asked = select(tables.item).where(self._ours(_I, policy), _I.case_hash.in_(case_hashes))
        return [_case(row) for row in await self._connection.execute(asked)]

    async def held(self, policy: PolicyName) -> Sequence[Held]:
        """Read what a rotation needs to know of the cases in force."""
        asked = select(_I.case_hash, _I.part, _I.add_time, _I.open_time, _I.near_time)
        return [
            Held(
                case_hash=row.case_hash,
                part=row.part,
                add_time=row.add_time,
                is_opened=row.open_time is not None,
                is_near=row.near_time is not None,
            )
            for row in await self._connection.execute(asked.where(self._in_force(policy)))
        ]

    async def kinds(self, policy: PolicyName) -> Mapping[tuple[str, Part, bool], int]:
        """Count the cases in force by kind, part and whether they are adversarial."""
        by = (_I.kind, _I.part, _I.adversarial)
        asked = select(*by, func.count().label("cases")).where(self._in_force(policy)).group_by(*by)
        rows = await self._connection.execute(asked)
        return {(row.kind, Part(row.part), row.adversarial): row.cases for row in rows}

    async def ids(self, policy: PolicyName) -> Collection[str]:
        """Read the names of the cases in force, and the hashes of all that ever were."""
        rows = (await self._connection.execute(select(_I.case_id, _I.case_hash).where(self._ours(_I, policy)))).all()
        return {row.case_hash for row in rows} | {row.case_id for row in rows}

    async def add(
        self, policy: PolicyName, version: Version, added: Sequence[HoldoutCase], removed: Collection[str]
    ) -> None:
        """Make the next version; it is a rotation where `since` is its own number and another came before."""
        row = {
            "tenant": self._tenant,
            "policy": policy,
            "version_number": version.number,
            "version": version.digest,
            "is_rotation": version.since == version.number > 1,
            "create_time": version.create_time,
            "actor": version.actor,
            "stale_because": "",
        }
        await self._connection.execute(insert(tables.version).values(row))
        if removed:
            leaving = update(tables.item).where(self._in_force(policy), _I.case_hash.in_(removed))
            await self._connection.execute(leaving.values(removed_version=version.number))
        if added:
            rows = [self._row(policy, version, case) for case in added]
            await self._connection.execute(insert(tables.item), rows)

    async def training_like(self, policy: PolicyName, words: Collection[int]) -> Sequence[frozenset[int]]:
        """Read the word sequences of training texts that share any of these."""
        if not words:
            return []
        asked = select(_T.shingles).where(self._ours(_T, policy), _T.shingles.overlap(sorted(words)))
        return [frozenset(row.shingles) for row in await self._connection.execute(asked)]

    async def add_training(self, policy: PolicyName, texts: Mapping[str, frozenset[int]], at: datetime) -> int:
        """Remember texts by hash, and which cases are like them. Gives how many were new."""
        rows = [
            {"tenant": self._tenant, "policy": policy, "text_hash": text_hash, "shingles": sorted(words)}
            for text_hash, words in texts.items()
        ]
        if not rows:
            return 0
        stored = upsert(tables.training_text).values(rows).on_conflict_do_nothing().returning(_T.text_hash)
        fresh = {row.text_hash for row in await self._connection.execute(stored)}
        words = frozenset[int]().union(*(texts[text_hash] for text_hash in fresh))
        asked = select(_I.case_hash, _I.shingles).where(self._in_force(policy), _I.shingles.overlap(sorted(words)))
        like = [
            row.case_hash
            for row in await self._connection.execute(asked)
            if any(is_near(frozenset(row.shingles), texts[text_hash]) for text_hash in fresh)
        ]
        near = and_(self._ours(_I, policy), _I.case_hash.in_(like), _I.near_time.is_(None))
        await self._connection.execute(update(tables.item).where(near).values(near_time=at))
        return len(fresh)

    async def openers(self, policy: PolicyName, since: int) -> Collection[str]:
        """Name who saw cases since a version was made."""
        made = select(_V.create_time).where(self._ours(_V, policy), _V.version_number == since).scalar_subquery()
        asked = select(_O.actor).where(self._ours(_O, policy), _O.open_time >= made)
        return {row.actor for row in await self._connection.execute(asked)}

    async def mark_opened(self, policy: PolicyName, case_hashes: Collection[str], at: datetime, by: str) -> None:
        """Say that somebody saw them."""
        row = {"tenant": self._tenant, "policy": policy, "actor": by, "open_time": at}
        await self._connection.execute(upsert(tables.opening).values(row).on_conflict_do_nothing())
        seen = and_(self._ours(_I, policy), _I.case_hash.in_(case_hashes), _I.open_time.is_(None))
        await self._connection.execute(update(tables.item).where(seen).values(open_time=at))

    async def add_lifts(self, policy: PolicyName, lifts: Mapping[str, float]) -> CaseLifts:
        """Add what a divergence check saw of cases, by hash; gives the sensor part's sums over all checks."""
        added = update(tables.item).where(self._ours(_I, policy), _I.case_hash == bindparam("seen"))
        added = added.values(
            lift_count=_I.lift_count + 1,
            lift_total=_I.lift_total + bindparam("lift", type_=Double),
            lift_squares=_I.lift_squares + bindparam("lift", type_=Double) * bindparam("lift", type_=Double),
        )
        if lifts:
            rows = [{"seen": case_hash, "lift": lift} for case_hash, lift in sorted(lifts.items())]
            await self._connection.execute(added, rows)
        asked = select(_I.lift_count, _I.lift_total, _I.lift_squares).where(self._in_force(policy))
        found = (await self._connection.execute(asked.where(_I.part == Part.SENSOR.value))).all()
        sums = np.array([tuple(row) for row in found], dtype=np.float64).reshape(-1, 3)
        return CaseLifts(count=sums[:, 0], total=sums[:, 1], squares=sums[:, 2])

    async def mark_stale(self, policy: PolicyName, because: str) -> None:
        """Say that the version in force is not comparable any more."""
        newest = select(func.max(_V.version_number)).where(self._ours(_V, policy)).scalar_subquery()
        stale = update(tables.version).where(self._ours(_V, policy), _V.version_number == newest)
        await self._connection.execute(stale.values(stale_because=because))

    async def secret(self, fresh: bytes) -> bytes:
        """Read the tenant's secret; a fresh one is kept where there is none."""
        row = {"tenant": self._tenant, "secret": fresh}
        await self._connection.execute(upsert(tables.secret).values(row).on_conflict_do_nothing())
        asked = select(tables.secret.c.secret).where(tables.secret.c.tenant == self._tenant)
        return bytes((await self._connection.execute(asked)).scalar_one())

    def _ours(self, column: Any, policy: PolicyName) -> ColumnElement[bool]:
        return and_(column.tenant == self._tenant, column.policy == policy)

    def _in_force(self, policy: PolicyName) -> ColumnElement[bool]:
        return and_(self._ours(_I, policy), _I.removed_version.is_(None))

    def _asked(self, policy: PolicyName, through: int) -> ColumnElement[bool]:
        return and_(self._in_force(policy), _I.open_time.is_(None), _I.added_version <= through)

    def _row(self, policy: PolicyName, version: Version, case: HoldoutCase) -> dict[str, object]:
        return {
            "tenant": self._tenant,
            "policy": policy,
            "case_hash": case.case_hash,
            "case_id": case.name,
            "part": case.part.value,
            "kind": case.kind.value,
            "adversarial": case.adversarial,
            "content": asdict(case) | {"check": {"kind": case.kind, **asdict(case.check)}},
            "shingles": sorted(sequences(case.text)),
            "added_version": version.number,
            "add_time": version.create_time,
        }


def _case(row: Row[Any]) -> HoldoutCase:
    facts = dict(row.content)
    check = dict(facts.pop("check"))
    kind = CheckKind(check.pop("kind"))
    messages = tuple(Message(**message) for message in facts.pop("messages"))
    return HoldoutCase(check=CHECKS[kind](**check), messages=messages, **facts)
