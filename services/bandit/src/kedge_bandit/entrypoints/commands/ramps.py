"""`kedge ramp`: how far traffic was given, and what people decide about it."""

from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import ramp_service_pb2 as pb
from kedge_bandit.entrypoints.client import connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, PolicyName, TenantName, answer, table

ramps = typer.Typer(cls=KedgeGroup, help="Give traffic stage by stage, and take it back.", no_args_is_help=True)

_FINDINGS: Final = {
    pb.RAMP_METRIC_FINDING_TOO_FEW: "too little data",
    pb.RAMP_METRIC_FINDING_UNDECIDED: "not sure yet",
    pb.RAMP_METRIC_FINDING_WITHIN: "within",
    pb.RAMP_METRIC_FINDING_BREACHED: "breached",
}

ArmId = Annotated[str, typer.Option("--arm", help="name@hash12: the ramp of that arm's cap; left out: the floor's.")]


@ramps.command()
def status(tenant: TenantName, policy: PolicyName, *, as_json: JsonFlag = False) -> None:
    """Show stages, what each costs and hides, metrics, holds, and what the next stage waits for."""
    with connected() as client:
        request = pb.GetRampRequest(name=f"tenants/{tenant}/policies/{policy}")
        found = client.call(client.ramps.GetRamp, request)

    def show(out: Console) -> None:
        for ramp in found.ramps:
            _show(out, ramp)
        out.print(f"{found.decisions_per_day:.0f} decisions a day", highlight=False)

    answer(document_of(found), show, as_json=as_json)


@ramps.command()
def advance(
    tenant: TenantName, policy: PolicyName, *, arm: ArmId = "", because: Because, as_json: JsonFlag = False
) -> None:
    """Go to the next approved stage, or let a ramp that stands go on; takes a person who may approve."""
    request = pb.AdvanceRampRequest(name=f"tenants/{tenant}/policies/{policy}", arm_id=arm, because=because)
    with connected() as client:
        moved = client.call(client.ramps.AdvanceRamp, request).ramp
    answer(document_of(moved), lambda out: _show(out, moved), as_json=as_json)


@ramps.command()
def pause(
    tenant: TenantName, policy: PolicyName, *, arm: ArmId = "", because: Because, as_json: JsonFlag = False
) -> None:
    """Keep a ramp at its stage until a person lets it go on."""
    request = pb.PauseRampRequest(name=f"tenants/{tenant}/policies/{policy}", arm_id=arm, because=because)
    with connected() as client:
        moved = client.call(client.ramps.PauseRamp, request).ramp
    answer(document_of(moved), lambda out: _show(out, moved), as_json=as_json)


@ramps.command()
def abort(
    tenant: TenantName, policy: PolicyName, *, arm: ArmId = "", because: Because, as_json: JsonFlag = False
) -> None:
    """Go back to the first stage at once, and stay there."""
    request = pb.AbortRampRequest(name=f"tenants/{tenant}/policies/{policy}", arm_id=arm, because=because)
    with connected() as client:
        moved = client.call(client.ramps.AbortRamp, request).ramp
    answer(document_of(moved), lambda out: _show(out, moved), as_json=as_json)


def _show(out: Console, ramp: Any) -> None:
    subject = f"cap of {ramp.arm_id}" if ramp.arm_id else "floor"
    why = f": {ramp.why}" if ramp.why else ""
    stage = ramp.stages[ramp.stage]
    out.print(
        f"[bold]{subject}[/] {stage.value:g}, {enum_text(pb.RampState.DESCRIPTOR, ramp.state)}{escape(why)}",
        highlight=False,
    )
    out.print(table("Stages", ("stage", "allowed by", "learned share", "alarm after", ""), _stages(ramp)))
    if ramp.metrics:
        out.print(table("Metrics", ("metric", "breach", "learned", "baseline", "interval", ""), _metrics(ramp)))
    out.print(
        f"{ramp.learned_episodes} episodes of the learned side and {ramp.baseline_episodes} of the baseline settled"
        " at this stage",
        highlight=False,
    )
    for sentence in ramp.holds:
        out.print(f"[yellow]held:[/] {escape(sentence)}", highlight=False)
    for sentence in ramp.waits_for:
        out.print(f"waits for {escape(sentence)}", highlight=False)


def _stages(ramp: Any) -> list[tuple[object, ...]]:
    return [
        (
            stage.value,
            stage.proposal or enum_text(pb.RampStageOrigin.DESCRIPTOR, stage.origin),
            f"{stage.harvestable_share:.0%}",
            f"{stage.alarm_days:.0f} days" if stage.HasField("alarm_days") else "",
            "in force" if place == ramp.stage else "",
        )
        for place, stage in enumerate(ramp.stages)
    ]


def _range(metric: Any) -> str:
    """Write what a metric is judged by; without enough episodes there is none."""
    if metric.HasField("over_cap"):
        return f"P(over its cap) {metric.over_cap:.3g}"
    if metric.HasField("lower"):
        return f"{metric.lower:.3g} to {metric.upper:.3g}"
    return f"too little data ({metric.episodes} of {metric.needed_episodes})"


def _metrics(ramp: Any) -> list[tuple[object, ...]]:
    return [
        (
            metric.name,
            "rolls back" if metric.role == pb.RAMP_METRIC_ROLE_GUARDRAIL else "pauses",
            metric.learned,
            metric.baseline,
            _range(metric),
            _FINDINGS.get(metric.finding, ""),
        )
        for metric in ramp.metrics
    ]
