"""`kedge kpi`: how a policy does, in the figures that people steer by."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import experiment_service_pb2 as pb
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.commands.experiments import range_text
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.printing import JsonFlag, PolicyName, TenantName, answer, table


def kpi(
    tenant: TenantName,
    policy: PolicyName,
    *,
    days: Annotated[int, typer.Option(help="Days to look back, up to 90.")] = 14,
    as_json: JsonFlag = False,
) -> None:
    """Show lift, win rate, regret, cost and quality of every action, coverage of signals, and what to do."""
    with connected() as client:
        request = pb.GetPolicyKpisRequest(name=f"tenants/{tenant}/policies/{policy}", days=days)
        found = client.call(client.experiments.GetPolicyKpis, request, seconds=LONG_SECONDS)
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)


def _show(out: Console, found: Any) -> None:
    rows: list[tuple[object, object]] = [
        ("episodes", found.episodes),
        ("reward, learned minus baseline", range_text(found.reward_lift.learned_lift)),
        ("reward, as served", range_text(found.reward_lift.served_lift)),
        ("latency in ms", range_text(found.latency_lift.learned_lift)),
        ("veto rate", f"{found.veto_rate.learned_mean:.2%}, baseline {found.veto_rate.baseline_mean:.2%}"),
        ("win rate, by people", _win_rate(found.win_rate, "no preferences")),
        ("win rate, by the judge", _win_rate(found.judge_win_rate, "no rubric was judged")),
        ("regret a turn", range_text(found.regret) if found.HasField("regret") else "too little data"),
        ("share beside the baseline", f"{found.non_baseline_share:.1%}"),
        ("effective episodes of a cell", f"{found.effective_episodes:.0f}" if found.effective_episodes else "no rate"),
    ]
    rows += [(f"episodes with {one.signal}", f"{one.share:.1%}") for one in found.coverage]
    out.print(table("Key figures", ("figure", "value"), rows))
    points = [
        (one.action_key, one.episodes, f"{one.quality:.3f}", f"{one.cost_usd:.5f}", "front" if one.is_on_front else "")
        for one in found.pareto
    ]
    out.print(table("Cost and quality", ("action", "episodes", "quality", "US dollars", ""), points))
    for sentence in found.advice:
        out.print(f"[yellow]{escape(sentence)}[/]", highlight=False)


def _win_rate(rate: Any, without: str) -> str:
    if not rate.pairs:
        return without
    interval = f", {rate.lower:.1%} to {rate.upper:.1%}" if rate.HasField("lower") else ""
    return f"{rate.value:.1%}{interval} of {rate.pairs} pairs"
