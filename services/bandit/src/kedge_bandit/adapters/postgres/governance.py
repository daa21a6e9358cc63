"""Keep policies, their versions, arms and modes of one tenant; every change goes in with its audit event."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, Select, and_, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import control_tables, tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.adapters.postgres.learned_state import read_learned_state
from kedge_bandit.application.administration_ports import LearnedState, WriteId
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import ArmNotFound, IdempotencyConflict, PolicyNotFound, VersionMismatch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.policy import Policy, PolicySpec

_SPEC: Final = TypeAdapter(PolicySpec)
HEARD_FIRST: Final = select(func.set_config("synchronous_commit", "off", True))
"""Let NOTIFY go out before the disk has the change, which may take a tenth of a second (ADR 0025)."""
_TICK: Final = timedelta(microseconds=1)

_POLICY = tables.policy.c
_VERSION = tables.policy_version.c
_MODE = tables.mode_change.c
_GLOBAL_MODE = control_tables.global_mode_change.c
_KEY = tables.idempotency_key.c


def spec_to_json(spec: PolicySpec) -> object:
    """Write a spec as the jsonb of `policy.spec`."""
    return _SPEC.dump_python(spec, mode="json")


def spec_from_json(stored: object) -> PolicySpec:
    """Read a spec back; it is checked again, so a row that was tampered with does not serve."""
    return _checked(orjson.dumps(stored))


@lru_cache(maxsize=4_096)
def _checked(encoded: bytes) -> PolicySpec:
    """Check each spec once: a replica reads its policies at every news, and they hardly ever change."""
    return _SPEC.validate_json(encoded)


class PostgresPolicies:
    """Policies, arms and modes of the open ledger.

    Attributes:
        changed_mode: replicas hear of it before it is on disk; whoever asked for it is answered when it is.
    """

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)
        self.changed_mode = False

    async def get(self, name: PolicyName) -> Policy:
        """Read a policy."""
        found = (await self._connection.execute(select(tables.policy).where(_POLICY.policy == name))).one_or_none()
        if found is None:
            raise PolicyNotFound(name)
        return _policy(found, found.create_time, found.update_time)

    async def list(self) -> Sequence[Policy]:
        """Read all policies by name."""
        rows = await self._connection.execute(select(tables.policy).order_by(_POLICY.policy))
        return [_policy(row, row.create_time, row.update_time) for row in rows]

    async def at_version(self, name: PolicyName, version: int) -> Policy:
        """Read a policy as it was at a version."""
        wanted = (
            select(tables.policy_version, _POLICY.create_time)
            .join(tables.policy, _POLICY.policy == _VERSION.policy)
            .where(_VERSION.policy == name, _VERSION.policy_version == version)
        )
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None:
            raise PolicyNotFound(f"{name} at version {version}")
        return _policy(found, found.create_time, found.change_time)

    async def in_force(self, name: PolicyName, start: datetime, end: datetime) -> Sequence[Policy]:
        """Read the policy as it stood at any moment of an interval, newest first."""
        version = tables.policy_version.alias()
        began = (
            select(func.max(version.c.policy_version))
            .where(version.c.policy == name, version.c.change_time <= start)
            .scalar_subquery()
        )
        wanted = (
            select(tables.policy_version, _POLICY.create_time)
            .join(tables.policy, _POLICY.policy == _VERSION.policy)
            .where(_VERSION.policy == name, _VERSION.policy_version >= func.coalesce(began, 0))
            .where(_VERSION.change_time <= end)
            .order_by(_VERSION.policy_version.desc())
        )
        rows = await self._connection.execute(wanted)
        return [_policy(row, row.create_time, row.change_time) for row in rows]

    async def put(self, policy: Policy, event: AuditEvent) -> None:
        """Store a policy's next version with its event.

        Raises:
            VersionMismatch: the stored version is not the one before.
        """
        before = policy.version - 1
        wanted = select(_POLICY.policy_version, _POLICY.mode).where(_POLICY.policy == policy.name).with_for_update()
        found = (await self._connection.execute(wanted)).one_or_none()
        stored = 0 if found is None else found.policy_version
        if stored != before:
            raise VersionMismatch(expected=before, found=stored)
        row = {
            "policy": policy.name,
            "policy_version": policy.version,
            "configuration_version": policy.configuration_version,
            "mode": policy.mode.value,
            "seed_epoch": policy.seed_epoch,
            "spec": spec_to_json(policy.spec),
        }
        if found is None:
            await self._create(policy, row)
        else:
            changed = update(tables.policy).where(_POLICY.policy == policy.name)
            await self._connection.execute(changed.values(**row, update_time=policy.update_time))
        await self._connection.execute(insert(tables.policy_version).values(**row, change_time=policy.update_time))
        await self._keep_arms(policy)
        if (Mode.APPLY if found is None else Mode(found.mode)) is not policy.mode:
            await self._log_mode(policy.name, policy.mode, policy.update_time, event.actor.name)
        await self._audit.append(event)

    async def arm(self, content_hash: str) -> Arm:
        """Read an arm by its content's hash."""
        wanted = select(tables.arm).where(tables.arm.c.content_hash == content_hash).limit(1)
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None:
            raise ArmNotFound(f"no arm of this tenant has the content hash {content_hash[:64]!r}")
        return Arm(dimension=Dimension(found.dimension), name=found.name, content=found.content)

    async def tenant_mode(self) -> Mode:
        """Read the tenant's own mode."""
        newest = select(_MODE.mode).where(_MODE.policy.is_(None)).order_by(_MODE.change_id.desc()).limit(1)
        found = (await self._connection.execute(newest)).scalar_one_or_none()
        return Mode.APPLY if found is None else Mode(found)

    async def global_mode(self) -> Mode:
        """Read the mode of everything."""
        newest = select(_GLOBAL_MODE.mode).order_by(_GLOBAL_MODE.change_id.desc()).limit(1)
        async with self._outside_the_tenant():
            found = (await self._connection.execute(newest)).scalar_one_or_none()
        return Mode.APPLY if found is None else Mode(found)

    async def put_tenant_mode(self, mode: Mode, event: AuditEvent) -> None:
        """Change the tenant's mode with its event."""
        await self._log_mode(None, mode, event.time, event.actor.name)
        await self._audit.append(event)

    async def mode_changes(self, name: PolicyName) -> Sequence[ModeChange]:
        """Read every change of global, tenant and policy mode that bears on a policy, in the order of time."""
        own = await self._modes(_MODE.policy == name, "policy")
        tenant = await self.tenant_mode_changes()
        wanted = select(_GLOBAL_MODE.mode, _GLOBAL_MODE.change_time).order_by(_GLOBAL_MODE.change_id)
        async with self._outside_the_tenant():
            rows = (await self._connection.execute(wanted)).all()
        everything = [ModeChange("global", Mode(row.mode), row.change_time) for row in rows]
        return sorted([*own, *tenant, *everything], key=lambda change: change.time)

    async def tenant_mode_changes(self) -> Sequence[ModeChange]:
        """Read every change of the tenant's own mode, oldest first."""
        return await self._modes(_MODE.policy.is_(None), "tenant")

    async def release_quarantine(self, name: PolicyName, choice: str, at: datetime) -> None:
        """Ask the worker to REPLAY, KEEP or DROP the evidence quarantined so far."""
        asked = {"policy": name, "choice": choice, "release_time": at, "done": False}
        await self._connection.execute(insert(tables.quarantine_release).values(asked))

    async def is_first(self, write: WriteId) -> bool:
        """Remember a write; False when the same one was made before.

        Raises:
            IdempotencyConflict: the id was used for another payload.
        """
        if not write.request_id:
            return True
        row = {"scope": "write", "key": write.request_id, "payload_hash": write.payload_hash}
        added = upsert(tables.idempotency_key).values(row).on_conflict_do_nothing().returning(_KEY.key)
        if (await self._connection.execute(added)).one_or_none() is not None:
            return True
        wanted = select(_KEY.payload_hash).where(and_(_KEY.scope == "write", _KEY.key == write.request_id))
        if (await self._connection.execute(wanted)).scalar_one() != write.payload_hash:
            raise IdempotencyConflict(write.request_id)
        return False

    async def learned(self, name: PolicyName, *, with_cells: bool) -> LearnedState:
        """Read what the worker has learned of a policy."""
        return await read_learned_state(self._connection, name, with_cells=with_cells)

    async def _create(self, policy: Policy, row: dict[str, object]) -> None:
        times = {"create_time": policy.create_time, "update_time": policy.update_time}
        created = upsert(tables.policy).values(**row, **times).on_conflict_do_nothing().returning(_POLICY.policy)
        if (await self._connection.execute(created)).one_or_none() is None:
            raise VersionMismatch(expected=0, found=1)

    async def _keep_arms(self, policy: Policy) -> None:
        rows = [
            {
                "content_hash": arm.content_hash,
                "dimension": arm.dimension.value,
                "name": arm.name,
                "content": arm.content,
                "create_time": policy.update_time,
            }
            for arm in policy.spec.arms
        ]
        await self._connection.execute(upsert(tables.arm).on_conflict_do_nothing(), rows)

    async def _log_mode(self, name: PolicyName | None, mode: Mode, at: datetime, actor: str) -> None:
        """Log a change of mode, never before the one that it follows: policy time comes of their order in time."""
        level = _MODE.policy.is_(None) if name is None else _MODE.policy == name
        newest = (await self._connection.execute(select(func.max(_MODE.change_time)).where(level))).scalar_one()
        moment = at if newest is None else max(at, newest + _TICK)
        row = {"policy": name, "mode": mode.value, "change_time": moment, "actor": actor}
        await self._connection.execute(HEARD_FIRST)
        await self._connection.execute(insert(tables.mode_change).values(row))
        self.changed_mode = True

    async def _modes(self, level: ColumnElement[bool], name: str) -> Sequence[ModeChange]:
        wanted: Select[Any] = select(_MODE.mode, _MODE.change_time, _MODE.actor).where(level).order_by(_MODE.change_id)
        rows = await self._connection.execute(wanted)
        return [ModeChange(name, Mode(row.mode), row.change_time, row.actor) for row in rows]

    @asynccontextmanager
    async def _outside_the_tenant(self) -> AsyncIterator[None]:
        """Step out of the tenant's role, which sees its schema only, for one read of the control schema."""
        role = (await self._connection.execute(select(func.current_setting("role")))).scalar_one()
        await self._connection.execute(select(func.set_config("role", "none", True)))
        yield
        await self._connection.execute(select(func.set_config("role", role, True)))


def _policy(row: Row[Any], create_time: datetime, update_time: datetime) -> Policy:
    return Policy(
        name=PolicyName(row.policy),
        version=row.policy_version,
        configuration_version=row.configuration_version,
        mode=Mode(row.mode),
        seed_epoch=row.seed_epoch,
        spec=spec_from_json(row.spec),
        create_time=create_time,
        update_time=update_time,
    )
