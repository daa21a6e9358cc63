"""Experiments of one policy with what they show, and the figures that people steer it by."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import experiment_pb2
from kedge.bandit.v1 import experiment_service_pb2 as pb
from kedge_bandit.adapters.console import reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import Visit

DECISION_TONE: Final = {
    "PROMOTE": "good",
    "HACKED": "bad",
    "SPLIT_BROKEN": "bad",
    "GUARDRAIL": "bad",
    "WORSE": "bad",
    "HOLDOUT_UNKNOWN": "warn",
    "TOO_FEW": "warn",
}
_AWAY: Final = ("UNIMPLEMENTED", "FAILED_PRECONDITION")
"""How a server answers that has nothing to tell."""


def decision(report: experiment_pb2.ExperimentReport) -> str:
    """Name what an experiment says to do."""
    return experiment_pb2.ExperimentDecision.Name(report.decision).removeprefix("EXPERIMENT_DECISION_")


def lift(value: float) -> str:
    """Write a lift of whatever unit with its sign.

    >>> lift(0.0412), lift(-12.3), lift(640.7)
    ('+0.041', '−12.3', '+641')
    """
    return wording.signed(value, 3 if abs(value) < 1 else 1 if abs(value) < 100 else 0)


async def show(visit: Visit) -> Response:
    """Show a policy's experiments, the newest first."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    listed = pb.ListExperimentsRequest(parent=f"tenants/{visit.tenant}", policy=visit.policy)
    standing, page, kpis = await asyncio.gather(
        reading.standing_of(visit, visit.tenant, visit.policy),
        _or_none(visit, visit.backend.experiments.ListExperiments, listed),
        _or_none(visit, visit.backend.experiments.GetPolicyKpis, pb.GetPolicyKpisRequest(name=visit.policy)),
    )
    shown = [] if page is None else await reading.together(_whole(visit, one) for one in page.experiments)
    return visit.show(
        "experiments.html",
        section="policy",
        tab="experiments",
        standing=standing,
        experiments=shown,
        kpis=kpis,
        decision=decision,
        lift=lift,
        tones=DECISION_TONE,
        units=experiment_pb2.ExperimentUnit,
    )


async def _whole(visit: Visit, one: experiment_pb2.Experiment) -> Any:
    """Give an experiment with its report, which a list leaves out while it runs."""
    if one.HasField("report"):
        return one
    found = await _or_none(visit, visit.backend.experiments.GetExperiment, pb.GetExperimentRequest(name=one.name))
    return one if found is None else found.experiment


async def _or_none(visit: Visit, rpc: Any, request: Any) -> Any:
    try:
        return await visit.call(rpc, request)
    except CallRefused as error:
        if error.code in _AWAY:
            return None
        raise
