"""Read how the episodes of the last days were judged, from the newest rows of evidence."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables
from kedge_bandit.adapters.postgres.ramp_reads import recent_from
from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.rescore import LOOKED_BACK, Judged
from kedge_bandit.domain.reward import Signals

_ROW: Final = learning_tables.evidence.c
_MEASURED: Final = ("human", "judge", "task_success", "cost_usd", "latency_ms")


async def read_judged(connection: AsyncConnection, policy: PolicyName) -> Sequence[Judged]:
    """Read each episode's newest verdict; cancelled ones and those of other reasons than their score are left out."""
    asked = (
        select(_ROW.action, _ROW.weight, _ROW.reward, _ROW.verdict)
        .ext(distinct_on(_ROW.episode_id))
        .where(
            _ROW.evidence_sequence > recent_from(),
            _ROW.policy == policy,
            _ROW.decision_time >= func.now() - LOOKED_BACK,
            _ROW.weight_reason.is_(None) | _ROW.weight_reason.in_(("JUDGE_ONLY", "NO_SAFETY_VERDICT", "UNSCORED")),
        )
        .order_by(_ROW.episode_id, _ROW.evidence_sequence.desc())
    )
    return [_judged(row) for row in await connection.execute(asked)]


def _judged(row: Any) -> Judged:
    known, verdict = row.verdict["signals"], row.verdict
    signals = Signals(
        **{name: known.get(name) for name in _MEASURED},
        vetoes=tuple(VetoReason(reason) for reason in verdict["veto_reasons"]),
        safety_verdict=SafetyVerdict(verdict["safety_verdict"]),
    )
    return Judged(row.action, signals, row.reward if row.weight > 0 else None)
