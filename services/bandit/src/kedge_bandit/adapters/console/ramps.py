"""Ramps of a policy: the stages, what each costs and hides, and advance, pause, abort."""

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import Visit, moved

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
    def title(self) -> str:
        """What it moves."""
        return f"Cap of {self.ramp.arm_id.partition('@')[0]}" if self.ramp.arm_id else "Baseline's share"

    @property
    def origins(self) -> list[str]:
        """Who allowed each stage."""
        names = (pb.RampStageOrigin.Name(one.origin) for one in self.ramp.stages)
        return [name.removeprefix("RAMP_STAGE_ORIGIN_").lower() for name in names]

    @property
    def roles(self) -> list[str]:
        """What the breach of each metric does."""
        names = (pb.RampMetricRole.Name(one.role) for one in self.ramp.metrics)
        return [name.removeprefix("RAMP_METRIC_ROLE_").lower() for name in names]


async def ramps_of(visit: Visit, name: str) -> list[RampView] | None:
    """Read a policy's ramps; None where the server has none to tell of."""
    try:
        found = await visit.call(visit.backend.ramps.GetRamp, pb.GetRampRequest(name=name))
    except CallRefused as error:
        if error.code == "UNIMPLEMENTED":
            return None
        raise
    return [RampView(ramp) for ramp in found.ramps]


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
