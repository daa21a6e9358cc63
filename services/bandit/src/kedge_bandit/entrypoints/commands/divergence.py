"""`kedge divergence`: compare what is rewarded with what the holdout says, now, and what was found before."""

import time
from typing import Annotated, Any

import typer
from rich.console import Console

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import (
    FailedCheck,
    JsonFlag,
    KedgeGroup,
    PolicyName,
    TenantName,
    answer,
    table,
)

divergence = typer.Typer(
    cls=KedgeGroup, help="Compare what is rewarded with what the holdout says.", no_args_is_help=True
)

_LOOK_SECONDS = 0.5
_REACH = 1.96


@divergence.command()
def check(
    tenant: TenantName,
    policy: PolicyName,
    *,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for it.")] = 960.0,
    as_json: JsonFlag = False,
) -> None:
    """Ask the gate for a check, and show it with every figure. Ends with 1 where it alarmed or failed."""
    name = f"tenants/{tenant}/policies/{policy}"
    with connected() as client:
        asked = client.call(client.governance.RunDivergenceCheck, pb.RunDivergenceCheckRequest(policy=name)).ask_time
        found = _made(client, name, asked, time.monotonic() + wait)
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)
    if found.incident:
        raise FailedCheck(f"it alarmed: {found.incident} is open, and the policy frozen")
    if found.outcome == pb.DIVERGENCE_OUTCOME_FAILED:
        raise FailedCheck(f"it failed: {found.because}")


@divergence.command("list")
def list_checks(
    tenant: TenantName,
    policy: PolicyName,
    *,
    limit: Annotated[int, typer.Option(help="How many of the newest.", min=1, max=1000)] = 30,
    as_json: JsonFlag = False,
) -> None:
    """List checks, newest first, and say whether anything can be seen."""
    request = pb.ListDivergenceChecksRequest(parent=f"tenants/{tenant}/policies/{policy}", page_size=limit)
    with connected() as client:
        found = client.call(client.governance.ListDivergenceChecks, request)
    rows = [
        (
            str(one.number),
            one.check_time.ToJsonString(),
            enum_text(pb.DivergenceOutcome.DESCRIPTOR, one.outcome),
            _lift(one, "reward"),
            _lift(one, "holdout"),
            _evidence(one),
            f"{one.cost_usd:.4f}",
            one.incident or one.because,
        )
        for one in found.checks
    ]
    columns = ("check", "at", "outcome", "reward lift", "holdout lift", "evidence", "USD", "incident, or why it failed")

    def show(out: Console) -> None:
        out.print(table("Divergence checks", columns, rows))
        out.print(_standing(found), highlight=False, markup=False)

    answer(document_of(found), show, as_json=as_json)


def _made(client: Client, name: str, asked: Any, until: float) -> Any:
    """Wait for the first check that began after it was asked for. Raises FailedCheck where none came in time."""
    request = pb.ListDivergenceChecksRequest(parent=name, page_size=20)
    while time.monotonic() < until:
        checks = client.call(client.governance.ListDivergenceChecks, request).checks
        since = [one for one in checks if one.begin_time.ToNanoseconds() >= asked.ToNanoseconds()]
        if since:
            return since[-1]
        time.sleep(_LOOK_SECONDS)
    raise FailedCheck("the gate made no check in time: is it running, and does the answerer answer?")


def _show(out: Console, found: Any) -> None:
    outcome = enum_text(pb.DivergenceOutcome.DESCRIPTOR, found.outcome)
    out.print(f"check {found.number}: {outcome} {found.because}".rstrip(), highlight=False, markup=False)
    lifts = [
        ("reward", _lift(found, "reward"), f"{found.learned_episodes} learned, {found.baseline_episodes} baseline"),
        ("holdout", _lift(found, "holdout"), f"{found.cases} of {found.pool} cases, {found.answers} answers"),
    ]
    out.print(table("Lift over the baseline", ("side", "lift", "from"), lifts))
    rows = [
        (
            one.detector,
            f"{one.value:+.4f}",
            f"{one.margin:.4f}",
            f"{one.error:.4f}",
            f"{one.z:+.2f}",
            f"{one.evidence:,.4g} of {one.threshold:,.0f}",
        )
        for one in found.readings
    ]
    out.print(table("Detectors", ("detector", "value", "margin", "standard error", "z", "evidence"), rows))
    out.print(f"the answers cost {found.cost_usd:.4f} USD", highlight=False)


def _lift(found: Any, side: str) -> str:
    if not found.HasField(f"{side}_lift"):
        return "not measured"
    lift, reach = getattr(found, f"{side}_lift"), _REACH * getattr(found, f"{side}_error")
    return f"{lift:+.3f} ({lift - reach:+.3f} to {lift + reach:+.3f})"


def _evidence(found: Any) -> str:
    return next((f"{one.evidence:,.4g}" for one in found.readings if one.detector == "divergence"), "")


def _standing(found: Any) -> str:
    if not found.watched:
        return "not watched: it has no holdout with somebody who answers, so its floor stays at its first stage"
    since = found.success_time.ToJsonString() if found.HasField("success_time") else "ever"
    if found.observing:
        return f"BLIND: no check has succeeded since {since}; the policy was put into OBSERVE"
    if found.blind:
        return f"BLIND: no check has succeeded since {since}; the floor is back at its first stage until it is approved"
    return f"watched; the last check that succeeded: {since}" if since != "ever" else "watched; no check yet"
