"""`kedge decisions`, `episodes`, `episode`, `belief`, `history`: look through what a policy did and what it knows."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from kedge_bandit.entrypoints.client import connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import JsonFlag, PolicyName, TenantName, answer, table

Limit = Annotated[int, typer.Option(help="How many of the newest.", min=1, max=1000)]


def decisions(
    tenant: TenantName,
    policy: PolicyName,
    *,
    episode: Annotated[str, typer.Option(help="Only the one that stands for this episode.")] = "",
    action: Annotated[str, typer.Option(help="Only those that chose this action key.")] = "",
    bucket: Annotated[str, typer.Option(help="Only those of this bucket.")] = "",
    reason: Annotated[str, typer.Option(help="Only those that came out for it, e.g. DRAWN.")] = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List decisions, newest first."""
    request = decision_service_pb2.ListDecisionsRequest(
        policy=f"tenants/{tenant}/policies/{policy}",
        episode_id=episode,
        action_key=action,
        bucket=bucket,
        reason=_value(decision_pb2.DecisionReason, "DECISION_REASON_", reason, "--reason"),
        page_size=limit,
    )
    with connected() as client:
        found = client.call(client.decisions.ListDecisions, request).decisions
    rows = [
        (
            one.decision_time.ToJsonString(),
            one.name,
            one.episode_id,
            one.action_key,
            one.propensity,
            enum_text(decision_pb2.DecisionReason.DESCRIPTOR, one.reason),
        )
        for one in found
    ]
    columns = ("time", "decision", "episode", "action", "propensity", "reason")
    answer([document_of(one) for one in found], _printing("Decisions", columns, rows), as_json=as_json)


def episodes(
    tenant: TenantName,
    policy: PolicyName,
    *,
    state: Annotated[str, typer.Option(help="Only those in it, e.g. VETOED.")] = "",
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List episodes, newest first."""
    request = episode_service_pb2.ListEpisodesRequest(
        policy=f"tenants/{tenant}/policies/{policy}",
        state=_value(episode_pb2.EpisodeState, "EPISODE_STATE_", state, "--state"),
        page_size=limit,
    )
    with connected() as client:
        found = client.call(client.episodes.ListEpisodes, request).episodes
    rows = [
        (
            one.open_time.ToJsonString(),
            one.episode_id,
            one.action_key,
            enum_text(episode_pb2.EpisodeState.DESCRIPTOR, one.state),
            one.reward if one.HasField("reward") else "",
            one.weight_reason or ("" if not one.veto_reasons else ", ".join(_vetoes(one))),
        )
        for one in found
    ]
    columns = ("opened", "episode", "action", "state", "reward", "why no more")
    answer([document_of(one) for one in found], _printing("Episodes", columns, rows), as_json=as_json)


def episode(
    tenant: TenantName,
    policy: PolicyName,
    episode_id: Annotated[str, typer.Argument(metavar="EPISODE", help="The episode's id.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Tell what was decided, said and judged about one episode, in the order of time."""
    request = episode_service_pb2.GetTimelineRequest(
        policy=f"tenants/{tenant}/policies/{policy}", episode_id=episode_id
    )
    with connected() as client:
        found = client.call(client.episodes.GetTimeline, request)
    rows = [(entry.receive_time.ToJsonString(), *_said(entry)) for entry in found.entries]
    show = _printing(f"Episode {episode_id}", ("time", "what", "details"), rows)
    answer(document_of(found), show, as_json=as_json)


def belief(
    tenant: TenantName,
    policy: PolicyName,
    *,
    bucket: Annotated[str, typer.Option(help="Left out: where nothing was seen yet.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show what is believed of every action in one bucket."""
    request = policy_service_pb2.GetBeliefRequest(name=f"tenants/{tenant}/policies/{policy}", bucket=bucket)
    with connected() as client:
        found = client.call(client.policies.GetBelief, request)
    rows = [
        (one.action_key, one.mean, f"{one.lower:.3f} to {one.upper:.3f}", one.probability_best, one.weight)
        for one in found.actions
    ]
    columns = ("action", "mean", "95 % interval", "P(best)", "evidence")
    title = f"Bucket {bucket}" if bucket else f"Where nothing was seen; buckets: {', '.join(found.buckets) or 'none'}"
    answer(document_of(found), _printing(title, columns, rows), as_json=as_json)


def history(
    tenant: TenantName,
    policy: PolicyName,
    *,
    hours: Annotated[int, typer.Option(help="How far to look back.", min=1, max=2160)] = 168,
    points: Annotated[int, typer.Option(help="Intervals of equal width.", min=2, max=200)] = 48,
    as_json: JsonFlag = False,
) -> None:
    """Count decisions, rewards, vetoes and costs of every action over time."""
    request = policy_service_pb2.GetHistoryRequest(name=f"tenants/{tenant}/policies/{policy}", points=points)
    now = datetime.now(UTC)
    request.end_time.FromDatetime(now)
    request.start_time.FromDatetime(now - timedelta(hours=hours))
    with connected() as client:
        found = client.call(client.policies.GetHistory, request)
    rows = [
        (
            point.start_time.ToJsonString(),
            one.action_key,
            one.decisions,
            one.episodes,
            one.reward_sum / one.episodes if one.episodes else "",
            one.vetoes,
            one.cost_usd,
        )
        for point in found.points
        for one in point.actions
    ]
    columns = ("from", "action", "decisions", "episodes", "mean reward", "vetoes", "cost $")
    answer(document_of(found), _printing("History", columns, rows), as_json=as_json)


def _printing(title: str, columns: tuple[str, ...], rows: Sequence[Sequence[object]]) -> Any:
    def show(out: Console) -> None:
        out.print(table(title, columns, rows))

    return show


def _value(kind: Any, prefix: str, name: str, option: str) -> Any:
    """Find a value of an enum by its short name; raises BadParameter where there is none."""
    known = [one.removeprefix(prefix) for one in kind.keys()]  # noqa: SIM118 - a wrapper, no mapping
    if name and name.upper() not in known[1:]:
        raise typer.BadParameter(f"{option} {name}: one of {', '.join(known[1:])}")
    return kind.Value(prefix + (name.upper() or "UNSPECIFIED"))


def _vetoes(found: episode_pb2.Episode) -> Iterator[str]:
    for number in found.veto_reasons:
        yield enum_text(outcome_pb2.VetoReason.DESCRIPTOR, number)


def _said(entry: episode_service_pb2.TimelineEntry) -> tuple[str, str]:
    """Say one entry of a timeline: what it is, and its details."""
    match entry.WhichOneof("entry"):
        case "decision":
            reason = enum_text(decision_pb2.DecisionReason.DESCRIPTOR, entry.decision.reason)
            return "decided", f"{entry.decision.action_key}, {reason}, propensity {entry.decision.propensity:.4g}"
        case "event":
            return entry.event.kind.lower(), entry.event.served_action_key
        case "outcome":
            outcome = entry.outcome
            absent = outcome.WhichOneof("observation") == "absent"
            value = enum_text(outcome_pb2.AbsentReason.DESCRIPTOR, outcome.absent) if absent else f"{outcome.value:.5g}"
            return "outcome", f"{enum_text(outcome_pb2.Signal.DESCRIPTOR, outcome.signal)} {value}, {entry.source}"
        case _:
            verdict = entry.verdict
            said = f"reward {verdict.reward:.4f}" if verdict.HasField("reward") else "no reward"
            return "verdict", ", ".join([said, *_vetoes(verdict), *filter(None, [verdict.weight_reason])])
