"""Ramps of a policy: the stages, what each costs and hides, and advance, pause, abort."""

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import Visit, moved

_FINDINGS: Final = {
    pb.RAMP_METRIC_FINDING_TOO_FEW: ("too little data", ""),
    pb.RAMP_METRIC_FINDING_UNDECIDED: ("not sure yet", "info"),
    pb.RAMP_METRIC_FINDING_WITHIN: ("within", "good"),
    pb.RAMP_METRIC_FINDING_BREACHED: ("breached", "bad"),
}
TONES: Final = {"RUNNING": "info", "PAUSED": "warn", "ROLLED_BACK": "bad", "ABORTED": "bad", "COMPLETE": "good"}


@dataclass(frozen=True, slots=True)
class RampView:
    """One ramp, as it is shown."""

    ramp: pb.Ramp

    @property
    def state(self) -> str:
        """Name of its state."""
        return pb.RampState.Name(self.ramp.state).removeprefix("RAMP_STATE_")

    @property
    def tone(self) -> str:
        """Tone of its state."""
        return TONES.get(self.state, "")

    @property
    def ranges(self) -> list[str]:
        """What each metric is judged by."""
        return [range_of(one) for one in self.ramp.metrics]

    @property
    def title(self) -> str:
        """What it moves."""
        return f"Cap of {self.ramp.arm_id.partition('@')[0]}" if self.ramp.arm_id else "Baseline's share"

    @property
    def origins(self) -> list[str]:
        """Who allowed each stage."""
        names = (pb.RampStageOrigin.Name(one.origin) for one in self.ramp.stages)
        return [name.removeprefix("RAMP_STAGE_ORIGIN_").lower() for name in names]

    @property
    def findings(self) -> list[tuple[str, str]]:
        """What the episodes say of each metric, and its tone."""
        running = self.state == "RUNNING"
        return [_finding(one, is_running=running) for one in self.ramp.metrics]

    @property
    def roles(self) -> list[str]:
        """What the breach of each metric does."""
        names = (pb.RampMetricRole.Name(one.role) for one in self.ramp.metrics)
        return [name.removeprefix("RAMP_METRIC_ROLE_").lower() for name in names]


def _finding(metric: pb.RampMetric, *, is_running: bool) -> tuple[str, str]:
    """Name a finding; the worker looks every half minute, so that a breach stands there before it is answered."""
    if metric.finding == pb.RAMP_METRIC_FINDING_BREACHED and is_running:
        return "breached, answered within 30 s", "bad"
    return _FINDINGS.get(metric.finding, ("unknown", ""))


def figure(value: float) -> str:
    """Write a figure of whatever size in three digits or as an integer.

    >>> figure(0.10876), figure(-2421.7), figure(6487.2)
    ('0.109', '−2,422', '6,487')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def range_of(metric: pb.RampMetric) -> str:
    """Write what a metric is judged by.

    >>> range_of(pb.RampMetric(name="cost_usd", episodes=14, needed_episodes=100))
    'too little data (14 of 100)'
    """
    if metric.HasField("over_cap") and metric.finding != pb.RAMP_METRIC_FINDING_TOO_FEW:
        return f"{metric.over_cap:.0%} sure that it is over its cap"
    if metric.HasField("lower"):
        return f"{figure(metric.lower)} to {figure(metric.upper)}"
    return f"too little data ({metric.episodes:,} of {metric.needed_episodes:,})"


async def advance(visit: Visit) -> Response:
    """Go to the next approved stage, or let a ramp that stands go on."""
    return await _do(visit, visit.backend.ramps.AdvanceRamp, pb.AdvanceRampRequest, "The ramp goes on.")


async def pause(visit: Visit) -> Response:
    """Keep a ramp where it is."""
    return await _do(visit, visit.backend.ramps.PauseRamp, pb.PauseRampRequest, "The ramp is paused.")


async def abort(visit: Visit) -> Response:
    """Take a ramp back to its first stage."""
    said = "The ramp is back at its first stage, and stays there."
    return await _do(visit, visit.backend.ramps.AbortRamp, pb.AbortRampRequest, said)


async def _do(visit: Visit, rpc: Any, kind: Any, said: str) -> Response:
    name = visit.policy
    request = kind(
        name=name,
        arm_id=visit.form.get("arm_id", ""),
        because=visit.form.get("because", ""),
        request_id=visit.form.get("request_id", ""),
    )
    try:
        await visit.call(rpc, request)
    except CallRefused as error:
        if error.code not in RETURNED:
            raise
        visit.session.note("refused", f"Not done. {error}")
    else:
        visit.session.note("done", said)
    return moved(f"/{name}")
