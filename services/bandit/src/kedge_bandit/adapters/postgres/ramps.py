"""Keep the ramps of one tenant, and read what they are judged by."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Double, Row, and_, cast, func, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.adapters.postgres.divergence import PostgresDivergences
from kedge_bandit.adapters.postgres.learned_state import finding_of
from kedge_bandit.adapters.postgres.ramp_reads import COMPARED, LAST_SETTLED, QUANTITIES, SUMS
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import IncidentState, name_of
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp import AUTOMATIC_FLOOR, Looked, Ramp, RampKind, RampState, Stage
from kedge_bandit.domain.ramp_metrics import LEAST_EPISODES, Compared, Moments, Side, over_cap

_STAGES: Final = TypeAdapter(tuple[Stage, ...])
_RAMP, _ACTION, _POLICY = tables.ramp.c, learning_tables.action_state.c, tables.policy.c
_DAY: Final = timedelta(days=1)


class PostgresRamps:
    """The ramps of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._tenant = tenant
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def of(self, policy: PolicyName) -> Sequence[Ramp]:
        """Read the stored ramps of a policy, the floor's first, and keep others from moving them until the end."""
        wanted = select(tables.ramp).where(_RAMP.policy == policy).order_by(_RAMP.kind.desc(), _RAMP.arm_id)
        return [_ramp(row) for row in await self._connection.execute(wanted.with_for_update())]

    async def put(self, ramp: Ramp, event: AuditEvent | None) -> None:
        """Store a ramp, with the event that explains it where it moved."""
        key = {"policy": ramp.policy, "kind": ramp.kind.value, "arm_id": ramp.arm_id}
        row = {
            "state": ramp.state.value,
            "stages": _STAGES.dump_python(ramp.stages, mode="json"),
            "at": ramp.at,
            "reached": ramp.reached,
            "stage_time": ramp.since,
            "why": ramp.why,
        }
        put = upsert(tables.ramp).values(key | row)
        await self._connection.execute(put.on_conflict_do_update(index_elements=[*key], set_=row))
        if event is not None:
            await self._audit.append(event)

    async def looked(self, policy: Policy, ramp: Ramp, *, is_applied: bool) -> Looked:
        """Read what is known of a ramp now."""
        baseline = policy.spec.baseline_key
        asked = {"policy": policy.name, "baseline": baseline, "arm": ramp.arm_id, "since": ramp.since}
        rows = {row.is_learned: row for row in await self._connection.execute(COMPARED, asked)}
        state = learning_tables.policy_state.c
        check = (
            await self._connection.execute(select(state.self_check).where(state.policy == policy.name))
        ).scalar_one_or_none()
        finding = finding_of(check)
        last = await self._connection.execute(LAST_SETTLED, {"policy": policy.name})
        settled, learned, over = await self._totals(policy, ramp)
        return Looked(
            now=(await self._connection.execute(select(func.now()))).scalar_one(),
            settled=settled,
            learned=learned,
            learned_over_cap=over,
            compared=Compared(_side(rows.get(True)), _side(rows.get(False))),
            ratio_p=1.0 if finding is None else finding.p_value,
            last_settled=last.scalar_one(),
            incidents=await self._open_incidents(policy.name),
            is_applied=is_applied,
            is_watched=await PostgresDivergences(self._connection).watch(policy.name) is not None,
        )

    async def decisions_per_day(self, policy: PolicyName) -> float:
        """Count the decisions of the last day; of a policy that is younger, as if it went on like that."""
        row = tables.decision.c
        wanted = select(func.count(), func.min(row.decision_time), func.now()).where(
            row.policy == policy, row.decision_time >= func.now() - _DAY
        )
        count, first, now = (await self._connection.execute(wanted)).one()
        return 0.0 if first is None else float(count * _DAY / max(now - first, timedelta(minutes=1)))

    async def due(self) -> Sequence[PolicyName]:
        """Read which policies have a ramp that may have to move; one that never moved once a mean can be judged."""
        settled = (
            select(func.coalesce(func.sum(_ACTION.episodes), 0))
            .where(_ACTION.policy == _POLICY.policy, _ACTION.configuration_version == _POLICY.configuration_version)
            .scalar_subquery()
        )
        floor = cast(_POLICY.spec["exploration"]["floor"].astext, Double)
        is_new = and_(_RAMP.policy.is_(None), floor > AUTOMATIC_FLOOR, settled >= 2 * LEAST_EPISODES)
        goes_on = or_(_RAMP.state == RampState.RUNNING, and_(_RAMP.state == RampState.PAUSED, _RAMP.at > 0))
        has_ramp = tables.policy.outerjoin(tables.ramp, _RAMP.policy == _POLICY.policy)
        wanted = select(_POLICY.policy).distinct().select_from(has_ramp).where(or_(is_new, goes_on))
        return [PolicyName(name) for name in (await self._connection.execute(wanted)).scalars()]

    async def _totals(self, policy: Policy, ramp: Ramp) -> tuple[int, int, float]:
        """Count what settled in this configuration, on the ramp's side too, and doubt that side's veto rate."""
        rows = (
            await self._connection.execute(select(learning_tables.action_state).where(_ACTION.policy == policy.name))
        ).all()
        live, baseline = set(policy.spec.action_keys), policy.spec.baseline_key
        counted = [row for row in rows if row.configuration_version == policy.configuration_version]
        beside = {key for key in live if key != baseline and (not ramp.arm_id or ramp.arm_id in key.split("|"))}
        vetoes = {row.action: (row.veto_episodes, row.vetoes) for row in rows if row.action in live}
        learned = [vetoes[key] for key in beside if key in vetoes]
        over = over_cap((sum(n for n, _ in learned), sum(v for _, v in learned)), vetoes.get(baseline, (0.0, 0.0)))
        return (
            sum(row.episodes for row in counted),
            sum(row.episodes for row in counted if row.action in beside),
            over,
        )

    async def _open_incidents(self, policy: PolicyName) -> tuple[str, ...]:
        row = tables.incident.c
        wanted = select(row.incident_id).where(row.policy == policy, row.state != IncidentState.CLOSED)
        numbers = (await self._connection.execute(wanted.order_by(row.incident_id))).scalars()
        return tuple(name_of(self._tenant, number) for number in numbers)


def _ramp(row: Row[Any]) -> Ramp:
    return Ramp(
        policy=PolicyName(row.policy),
        kind=RampKind(row.kind),
        arm_id=row.arm_id,
        state=RampState(row.state),
        stages=_STAGES.validate_python(row.stages),
        at=row.at,
        reached=row.reached,
        since=row.stage_time,
        why=row.why,
    )


def _side(row: Row[Any] | None) -> Side:
    if row is None:
        return Side()
    sums = {name: Moments(*(getattr(row, f"{name}_{label}") for label in SUMS)) for name in QUANTITIES}
    return Side(
        episodes=row.episodes,
        vetoes=row.vetoes,
        reward=sums["reward"],
        cost_usd=sums["cost_usd"],
        latency_ms=sums["latency_ms"],
    )
