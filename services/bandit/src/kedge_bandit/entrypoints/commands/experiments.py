"""`kedge experiment`: compare what a policy learned with its baseline, by rules that are fixed before it starts."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import experiment_pb2
from kedge.bandit.v1 import experiment_service_pb2 as pb
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, PolicyName, TenantName, answer, table

experiments = typer.Typer(cls=KedgeGroup, help="Compare what was learned with the baseline.", no_args_is_help=True)

_UNITS: Final = {"episode": "EPISODE", "session": "SESSION", "cohort": "COHORT"}
Named = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="tenants/TENANT/experiments/NAME")]


@experiments.command()
def create(
    tenant: TenantName,
    policy: PolicyName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its own name, e.g. spring.")],
    *,
    unit: Annotated[str, typer.Option(help="What is assigned whole: episode, session or cohort.")] = "episode",
    control: Annotated[float | None, typer.Option(help="Share of sessions or cohorts on the baseline.")] = None,
    days: Annotated[float, typer.Option(help="How long it lasts, from now on.")] = 14.0,
    primary: Annotated[list[str] | None, typer.Option(help="A metric that has to improve; reward by default.")] = None,
    guardrail: Annotated[list[str] | None, typer.Option(help="A metric that may not get clearly worse.")] = None,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Fix one before its first episode; what is fixed never changes."""
    if unit not in _UNITS:
        raise typer.BadParameter("a unit is episode, session or cohort")
    wanted = experiment_pb2.Experiment(
        name=f"tenants/{tenant}/experiments/{name}",
        policy=f"tenants/{tenant}/policies/{policy}",
        unit=experiment_pb2.ExperimentUnit.Value(f"EXPERIMENT_UNIT_{_UNITS[unit]}"),
        primary_metrics=primary or [],
        guardrail_metrics=guardrail or [],
        control_share=control,
    )
    wanted.end_time.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    request = pb.CreateExperimentRequest(parent=f"tenants/{tenant}", experiment=wanted, because=because)
    with connected() as client:
        made = client.call(client.experiments.CreateExperiment, request).experiment
    line = f"{made.name} counts episodes until {made.end_time.ToDatetime():%Y-%m-%d %H:%M} UTC"
    answer(document_of(made), lambda out: out.print(line, highlight=False, markup=False), as_json=as_json)


@experiments.command()
def show(experiment: Named, *, as_json: JsonFlag = False) -> None:
    """Show what one says: its decision, its split, its lifts with and without the floor, and the holdout."""
    with connected() as client:
        request = pb.GetExperimentRequest(name=experiment)
        found = client.call(client.experiments.GetExperiment, request, seconds=LONG_SECONDS).experiment
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)


@experiments.command(name="list")
def list_(
    tenant: TenantName,
    *,
    policy: Annotated[str, typer.Option(help="Only of this policy.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """List the newest 100."""
    request = pb.ListExperimentsRequest(
        parent=f"tenants/{tenant}", policy=f"tenants/{tenant}/policies/{policy}" if policy else ""
    )
    with connected() as client:
        found = client.call(client.experiments.ListExperiments, request)
    rows = [
        (
            one.name,
            one.policy.rpartition("/")[2],
            f"{one.start_time.ToDatetime():%Y-%m-%d}",
            f"{one.end_time.ToDatetime():%Y-%m-%d}",
            _decision(one.report) if one.HasField("ended_time") else "runs",
        )
        for one in found.experiments
    ]
    columns = ("experiment", "policy", "from", "until", "decision")
    answer(document_of(found), lambda out: out.print(table("Experiments", columns, rows)), as_json=as_json)


@experiments.command()
def end(experiment: Named, *, because: Because, as_json: JsonFlag = False) -> None:
    """End one and freeze its report."""
    with connected() as client:
        request = pb.EndExperimentRequest(name=experiment, because=because)
        found = client.call(client.experiments.EndExperiment, request, seconds=LONG_SECONDS).experiment
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)


@experiments.command()
def side(
    experiment: Named,
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="A session or a cohort.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Say which side a session or cohort is on."""
    with connected() as client:
        request = pb.GetAssignmentRequest(name=experiment, unit_id=unit)
        found = client.call(client.experiments.GetAssignment, request)
    line = enum_text(experiment_pb2.ExperimentSide.DESCRIPTOR, found.side)
    answer(document_of(found), lambda out: out.print(line, highlight=False), as_json=as_json)


def _decision(report: Any) -> str:
    return enum_text(experiment_pb2.ExperimentDecision.DESCRIPTOR, report.decision)


def _show(out: Console, found: Any) -> None:
    report, ratio = found.report, found.report.sample_ratio
    state = "ended" if found.HasField("ended_time") else "runs"
    out.print(f"[bold]{escape(found.name)}[/] {state}: [bold]{_decision(report)}[/]", highlight=False)
    out.print(report.sentence, highlight=False)
    out.print(
        f"{report.episodes} episodes; {ratio.learned_units} units learned, {ratio.baseline_units} baseline, expected"
        f" share {ratio.expected_learned_share:.3f}, p = {ratio.p_value:.2g}; {report.crossed} crossed",
        highlight=False,
    )
    if report.metrics:
        columns = ("metric", "", "learned", "baseline", "lift without the floor", "lift as served")
        out.print(table("Lifts", columns, [metric_row(metric) for metric in report.metrics]))
    if report.HasField("holdout"):
        held = report.holdout
        out.print(
            f"holdout {held.lift:+.4f}, {held.lower:+.4f} to {held.upper:+.4f}, {held.checks} checks", highlight=False
        )
    if report.is_truncated:
        out.print("[yellow]the window has more episodes than were read: the first ones are shown[/]")


def metric_row(metric: Any) -> tuple[object, ...]:
    """Write one metric as a row."""
    role = "primary" if metric.is_primary else "worse" if metric.is_worse else "guardrail"
    means = (f"{metric.learned_mean:.4g}", f"{metric.baseline_mean:.4g}")
    return (metric.metric, role, *means, range_text(metric.learned_lift), range_text(metric.served_lift))


def range_text(lift: Any) -> str:
    """Write a lift with its interval."""
    if not lift.HasField("lower"):
        return "too little data"
    return f"{lift.value:+.4g} ({lift.lower:+.4g} to {lift.upper:+.4g})"
