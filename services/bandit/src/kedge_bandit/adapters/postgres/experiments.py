"""Keep the experiments of one tenant, and read what they are judged by beside its episodes."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import Row, and_, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import proposal_tables, tables, watch_tables
from kedge_bandit.adapters.postgres.audit import PostgresAuditLog
from kedge_bandit.adapters.postgres.experiment_tables import experiment as _table
from kedge_bandit.application.experiment_ports import PreferredPair
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.experiment import (
    Experiment,
    ExperimentExists,
    ExperimentMetric,
    ExperimentNotFound,
    ExperimentUnit,
)
from kedge_bandit.domain.experiment_report import CONCLUSIVE, ExperimentReport
from kedge_bandit.domain.identifiers import PolicyName, TenantId

MOST_LISTED: Final = 100
MOST_PAIRS: Final = 20_000

_ROW = _table.c
_CHECK = watch_tables.divergence_check.c
_PAIR = proposal_tables.preference.c
_REPORT: Final = TypeAdapter(ExperimentReport)


class PostgresExperiments:
    """The experiments of the open ledger."""

    def __init__(self, tenant: TenantId, connection: AsyncConnection) -> None:
        self._connection = connection
        self._audit = PostgresAuditLog(tenant, connection)

    async def add(self, experiment: Experiment, event: AuditEvent) -> None:
        """Store a new one with its event."""
        added = upsert(_table).values(_values(experiment)).on_conflict_do_nothing().returning(_ROW.experiment_id)
        if (await self._connection.execute(added)).one_or_none() is None:
            raise ExperimentExists(experiment.experiment_id)
        await self._audit.append(event)

    async def get(self, experiment_id: str) -> Experiment:
        """Read one."""
        wanted = select(_table).where(_ROW.experiment_id == experiment_id)
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None:
            raise ExperimentNotFound(experiment_id)
        return _experiment(found)

    async def list(self, policy: PolicyName | None) -> Sequence[tuple[Experiment, ExperimentReport | None]]:
        """Read the newest with their frozen reports, newest first."""
        wanted = select(_table).order_by(_ROW.create_time.desc(), _ROW.experiment_id).limit(MOST_LISTED)
        if policy is not None:
            wanted = wanted.where(_ROW.policy == policy)
        return [(_experiment(row), _report_of(row.report)) for row in await self._connection.execute(wanted)]

    async def report(self, experiment_id: str) -> ExperimentReport | None:
        """Read the frozen report."""
        wanted = select(_ROW.report).where(_ROW.experiment_id == experiment_id)
        stored = (await self._connection.execute(wanted)).scalar_one_or_none()
        return _report_of(stored)

    async def concluded(self, policy: PolicyName) -> tuple[Experiment, ExperimentReport] | None:
        """Read the experiment that came to a conclusion last."""
        wanted = (
            select(_table)
            .where(_ROW.policy == policy, _ROW.report["decision"].astext.in_(CONCLUSIVE))
            .order_by(_ROW.ended_time.desc(), _ROW.experiment_id)
            .limit(1)
        )
        found = (await self._connection.execute(wanted)).one_or_none()
        report = None if found is None else _report_of(found.report)
        return None if found is None or report is None else (_experiment(found), report)

    async def end(self, experiment: Experiment, report: ExperimentReport, event: AuditEvent) -> None:
        """Store its end and its report with the event, once."""
        changed = (
            update(_table)
            .where(_ROW.experiment_id == experiment.experiment_id, _ROW.ended_time.is_(None))
            .values(
                end_because=experiment.end_because,
                ended_time=experiment.ended_time,
                report=_report_to_json(report),
            )
            .returning(_ROW.experiment_id)
        )
        if (await self._connection.execute(changed)).one_or_none() is None:
            raise IllegalTransition("the experiment has ended already: its report is frozen")
        await self._audit.append(event)

    async def newest_from(self, policy: PolicyName, start: datetime, count: int) -> datetime:
        """Say from when on a policy has that many decisions."""
        row = tables.decision.c
        wanted = (
            select(row.decision_time)
            .where(row.policy == policy, row.decision_time >= start)
            .order_by(row.decision_id.desc())
            .offset(count - 1)
            .limit(1)
        )
        return (await self._connection.execute(wanted)).scalar_one_or_none() or start

    async def checks(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[Lift]:
        """Read the holdout lifts of the checks of a window."""
        wanted = (
            select(_CHECK.holdout_lift, _CHECK.holdout_error)
            .where(_CHECK.policy == policy, _CHECK.check_time >= start, _CHECK.check_time < end)
            .where(_CHECK.holdout_lift.is_not(None), _CHECK.holdout_error.is_not(None))
            .order_by(_CHECK.check_id)
        )
        return [Lift(row.holdout_lift, row.holdout_error) for row in await self._connection.execute(wanted)]

    async def judged(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[float]:
        """Read what the judge gave the learned answers in the newest check that has judged any."""
        wanted = (
            select(_CHECK.judged)
            .where(_CHECK.policy == policy, _CHECK.check_time >= start, _CHECK.check_time < end)
            .where(func.cardinality(_CHECK.judged) > 0)
            .order_by(_CHECK.check_id.desc())
            .limit(1)
        )
        found: Sequence[float] | None = (await self._connection.execute(wanted)).scalar_one_or_none()
        return found or ()

    async def preferences(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[PreferredPair]:
        """Read the newest preferences of a window, each with what served its episodes."""
        sides = []
        for name in (_PAIR.first_episode_id, _PAIR.second_episode_id):
            key, row = tables.decision_key.alias(), tables.decision.alias()
            drawn = row.c.decision_id == key.c.decision_id, row.c.decision_time == key.c.decision_time
            sides.append((key, row, and_(key.c.policy == policy, key.c.episode_id == name), and_(*drawn)))
        (key1, row1, is_first, drawn1), (key2, row2, is_second, drawn2) = sides
        wanted = (
            select(proposal_tables.preference, row1.c.action.label("a"), row2.c.action.label("b"))
            .join(key1, is_first)
            .join(row1, drawn1)
            .join(key2, is_second)
            .join(row2, drawn2)
            .where(_PAIR.policy == policy, _PAIR.record_time >= start, _PAIR.record_time < end)
            .order_by(_PAIR.record_time.desc())
            .limit(MOST_PAIRS)
        )
        return [
            PreferredPair(row.first_episode_id, row.second_episode_id, row.a, row.b, row.preference)
            for row in await self._connection.execute(wanted)
        ]


def _report_of(stored: object) -> ExperimentReport | None:
    return None if stored is None else _REPORT.validate_json(orjson.dumps(stored))


def _report_to_json(report: ExperimentReport) -> object:
    """Write a report as jsonb, which knows no infinity: such an end of an interval is written as a text."""
    return json.loads(json.dumps(_REPORT.dump_python(report)), parse_constant=str)


def _values(experiment: Experiment) -> dict[str, object]:
    return {
        "experiment_id": experiment.experiment_id,
        "policy": experiment.policy,
        "unit": experiment.unit.value,
        "start_time": experiment.start,
        "end_time": experiment.end,
        "control_share": experiment.control_share,
        "primary_metrics": [metric.value for metric in experiment.primary],
        "guardrail_metrics": [metric.value for metric in experiment.guardrails],
        "because": experiment.because,
        "create_time": experiment.create_time,
    }


def _experiment(row: Row[Any]) -> Experiment:
    return Experiment(
        experiment_id=row.experiment_id,
        policy=PolicyName(row.policy),
        unit=ExperimentUnit(row.unit),
        start=row.start_time,
        end=row.end_time,
        control_share=row.control_share,
        primary=tuple(map(ExperimentMetric, row.primary_metrics)),
        guardrails=tuple(map(ExperimentMetric, row.guardrail_metrics)),
        because=row.because,
        create_time=row.create_time,
        end_because=row.end_because,
        ended_time=row.ended_time,
    )
