"""Read what a replica serves from: what changed, in one query, and then of that what is new, many tenants at once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

import orjson
import structlog
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    DateTime,
    Row,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.decisions import allocation_of
from kedge_bandit.adapters.postgres.governance import spec_from_json
from kedge_bandit.adapters.postgres.identity_rows import binding_of, stored_key
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.identity import Binding
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.quota import Quota

log = structlog.get_logger(__name__)

POLICIES: Final = "policies"
ALLOCATIONS: Final = "allocations"
KEYS: Final = "keys"
MODES: Final = "modes"
_NOBODY: Final = ""

_TENANT = tables.control_tenant.c.name
_OF_POLICIES, _OF_ALLOCATIONS = tables.serving.alias(POLICIES), tables.serving.alias(ALLOCATIONS)
_VERSIONS: Final = (
    select(
        _TENANT.label("tenant"),
        func.coalesce(_OF_POLICIES.c.version, 0).label(POLICIES),
        func.coalesce(_OF_ALLOCATIONS.c.version, 0).label(ALLOCATIONS),
        tables.control_tenant.c.decisions_per_second,
        tables.control_tenant.c.rows_per_second,
    )
    .outerjoin(_OF_POLICIES, and_(_OF_POLICIES.c.tenant == _TENANT, _OF_POLICIES.c.kind == POLICIES))
    .outerjoin(_OF_ALLOCATIONS, and_(_OF_ALLOCATIONS.c.tenant == _TENANT, _OF_ALLOCATIONS.c.kind == ALLOCATIONS))
)
_SHARED: Final = select(tables.serving.c.kind, tables.serving.c.version).where(tables.serving.c.tenant == _NOBODY)
_POLICIES_OF: Final = select(
    func.control.read_policies(bindparam("names", type_=ARRAY(Text))).table_valued(
        column("tenant", Text),
        column("version", BigInteger),
        column("change_time", DateTime(timezone=True)),
        column("durable", Boolean),
        column("content", JSON),
    )
)
_ALLOCATIONS_OF: Final = select(
    func.control.read_allocations(cast(bindparam("asked", type_=Text), JSON)).table_valued(
        column("tenant", Text), column("version", BigInteger), column("content", JSON)
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """How often everything has changed, in one moment; a version that differs says that something is new.

    Attributes:
        policies: of each tenant's policies and modes; every tenant is there.
        allocations: of each tenant's allocations.
        keys, modes: of what belongs to no tenant.
        quotas: of each tenant that has one, as they are now.
    """

    policies: dict[TenantId, int]
    allocations: dict[TenantId, int]
    keys: int
    modes: int
    quotas: dict[TenantId, Quota]


@dataclass(frozen=True, slots=True)
class TenantPolicies:
    """A tenant's policies and own mode, at least as new as their version.

    Attributes:
        change_time: when they last changed, on the database's clock, shortly before that change was committed.
        durable: the tenant wants decisions committed before they are answered.
    """

    version: int
    change_time: datetime | None
    mode: Mode
    policies: tuple[Policy, ...]
    durable: bool


@dataclass(frozen=True, slots=True)
class TenantAllocations:
    """A tenant's allocations that were asked for, at least as new as their version."""

    version: int
    allocations: tuple[Allocation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeNotice:
    """What NOTIFY says of a changed mode.

    Attributes:
        policy: None: the tenant's own mode.
        version: of the tenant's policies; a read of that version has it.
        change_time: on the database's clock, shortly before the change was committed.
    """

    tenant: TenantId
    policy: PolicyName | None
    mode: Mode
    version: int
    change_time: datetime

    @classmethod
    def read(cls, payload: str) -> "ModeNotice":
        """Read a payload of the trigger `mode_changed`."""
        found = orjson.loads(payload)
        return cls(
            tenant=TenantId(found["tenant"]),
            policy=None if found["policy"] is None else PolicyName(found["policy"]),
            mode=Mode(found["mode"]),
            version=found["version"],
            change_time=datetime.fromisoformat(found["change_time"]),
        )


class ServingReads:
    """Read on a pooled connection, each call one statement and one round trip.

    Args:
        engine: of its own: calls of others that wait for the database must not keep a view from being renewed.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    async def close(self) -> None:
        """Close its connections; the next call opens a new one."""
        await self._engine.dispose()

    async def now(self) -> datetime:
        """Read the database's clock."""
        (row,) = await self._rows(select(func.clock_timestamp().label("now")))
        now: datetime = row.now
        return now

    async def versions(self) -> Versions:
        """Read all versions in one moment for tenants, and in one for what is shared."""
        shared = {row.kind: row.version for row in await self._rows(_SHARED)}
        found = await self._rows(_VERSIONS)
        return Versions(
            policies={TenantId(row.tenant): row.policies for row in found},
            allocations={TenantId(row.tenant): row.allocations for row in found},
            keys=shared.get(KEYS, 0),
            modes=shared.get(MODES, 0),
            quotas={
                TenantId(row.tenant): Quota(row.decisions_per_second, row.rows_per_second)
                for row in found
                if row.decisions_per_second or row.rows_per_second
            },
        )

    async def keys_version(self) -> int:
        """Read how often keys and bindings have changed."""
        return next((row.version for row in await self._rows(_SHARED) if row.kind == KEYS), 0)

    async def credentials(self) -> tuple[list[StoredKey], list[Binding]]:
        """Read all live API keys, and what certificates are bound to."""
        key, bound = tables.api_key, tables.identity_binding
        keys = await self._rows(select(key).where(key.c.revoke_time.is_(None)))
        return [stored_key(row) for row in keys], [binding_of(row) for row in await self._rows(select(bound))]

    async def everything_mode(self) -> tuple[Mode, datetime | None]:
        """Read the mode of everything, and when it changed."""
        row = tables.global_mode_change.c
        found = await self._rows(select(row.mode, row.change_time).order_by(row.change_id.desc()).limit(1))
        return (Mode(found[0].mode), found[0].change_time) if found else (Mode.APPLY, None)

    async def policies(self, tenants: Collection[TenantId]) -> dict[TenantId, TenantPolicies]:
        """Read the policies and modes of these tenants; one that is gone is not answered."""
        found = await self._rows(_POLICIES_OF, names=list(tenants))
        return {
            TenantId(row.tenant): TenantPolicies(
                row.version or 0,
                row.change_time,
                Mode(row.content["mode"] or Mode.APPLY),
                tuple(_readable(row.tenant, row.content["policies"])),
                row.durable,
            )
            for row in found
        }

    async def allocations(
        self, above: Mapping[TenantId, Mapping[PolicyName, int]]
    ) -> dict[TenantId, TenantAllocations]:
        """Read the newest allocation of each bucket of these tenants, those of a version above the policy's."""
        found = await self._rows(_ALLOCATIONS_OF, asked=orjson.dumps(above).decode())
        return {
            TenantId(row.tenant): TenantAllocations(row.version or 0, tuple(_allocation(each) for each in row.content))
            for row in found
        }

    async def _rows(self, statement: Select[Any], **parameters: object) -> Sequence[Row[Any]]:
        async with self._engine.connect() as connection:
            found: Sequence[Row[Any]] = (await connection.execute(statement, parameters)).all()
        return found


def _readable(tenant: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Policy]:
    """Read policies; one that somebody wrote by hand and that cannot be served stops no other."""
    for row in rows:
        try:
            yield _policy(row)
        except (KedgeError, ValueError) as error:
            log.error("snapshot.policy_unreadable", tenant=tenant, policy=row["policy"], error=type(error).__name__)


def _policy(row: Mapping[str, Any]) -> Policy:
    return Policy(
        name=PolicyName(row["policy"]),
        version=row["policy_version"],
        configuration_version=row["configuration_version"],
        mode=Mode(row["mode"]),
        seed_epoch=row["seed_epoch"],
        spec=spec_from_json(row["spec"]),
        create_time=datetime.fromisoformat(row["create_time"]),
        update_time=datetime.fromisoformat(row["update_time"]),
    )


def _allocation(row: dict[str, Any]) -> Allocation:
    """Read an allocation's row as JSON: numbers come in full, only the time is a text."""
    row["publish_time"] = datetime.fromisoformat(row["publish_time"])
    return allocation_of(SimpleNamespace(**row))
