"""`kedge evaluate`: what another policy would have earned on the traffic that was served."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from kedge.bandit.v1 import policy_service_pb2 as pb
from kedge_bandit.entrypoints.client import LONG_SECONDS, Client, connected
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, PolicyName, TenantName, answer, table

_WAYS: Final[tuple[Literal["snips", "dr", "ips", "switch"], ...]] = ("snips", "dr", "ips", "switch")
_TARGET = "JSON: probabilities by action key, in an object by bucket; that of bucket '' holds for all others."


def evaluate(
    tenant: TenantName,
    policy: PolicyName,
    *,
    serve: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTION[=SHARE]", help="An action of the target, by key or arm names; may be repeated."),
    ] = None,
    target: Annotated[Path | None, typer.Option(help=_TARGET, exists=True, dir_okay=False)] = None,
    days: Annotated[float, typer.Option(help="How far back decisions count; 0: all.", min=0.0)] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Estimate a policy's value from another's log; ends with 1 where the log does not allow a number."""
    if (serve is None) == (target is None):
        raise typer.BadParameter("name the target by --serve, or by --target")
    request = pb.EvaluatePolicyRequest(name=f"tenants/{tenant}/policies/{policy}")
    if days:
        request.start_time.FromDatetime(datetime.now(UTC) - timedelta(days=days))
    with connected() as client:
        if target is not None:
            _read(target, request)
        else:
            _name(client, serve or [], request)
        found = client.call(client.policies.EvaluatePolicy, request, seconds=LONG_SECONDS)
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)
    if found.target.refusal:
        raise FailedCheck(f"no number: {found.target.refusal}")


def _read(path: Path, request: pb.EvaluatePolicyRequest) -> None:
    """Read a target from a file."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        request.target.update({str(key): float(share) for key, share in given.pop("", {}).items()})
        for bucket, shares in given.items():
            request.bucket_targets.add(bucket=bucket).target.update(
                {str(key): float(share) for key, share in shares.items()}
            )
    except (ValueError, AttributeError, TypeError) as error:
        raise typer.BadParameter(f"{path} is no {_TARGET}") from error


def _name(client: Client, serve: Sequence[str], request: pb.EvaluatePolicyRequest) -> None:
    """Read a target from actions by key, or by their arms' names where those tell them apart."""
    get = pb.GetPolicyRequest(name=request.name)
    keys = list(client.call(client.policies.GetPolicy, get).policy.action_keys)
    for each in serve:
        action, _, share = each.rpartition("=") if "=" in each else (each, "", "1")
        found = [key for key in keys if action in (key, _names(key))]
        if len(found) != 1:
            raise typer.BadParameter(f"--serve {each}: name one of {', '.join(map(_names, keys))}, or its key")
        try:
            request.target[found[0]] = float(share)
        except ValueError as error:
            raise typer.BadParameter(f"--serve {each}: a share is a number") from error


def _names(key: str) -> str:
    return "|".join(arm.partition("@")[0] for arm in key.split("|"))


def _show(out: Console, found: pb.EvaluatePolicyResponse) -> None:
    rows = []
    for way in _WAYS:
        parts = (found.target.estimates, found.baseline.estimates, found.lift)
        rows.append((way.upper(), *(_cell(getattr(part, way)) if part.HasField(way) else "refused" for part in parts)))
    out.print(table("Value of an episode, with 95 % interval", ("estimator", "target", "baseline", "lift"), rows))
    logged = _cell(found.logged) if found.episodes else "nothing"
    out.print(f"{found.episodes} randomised episodes, which earned {logged} as served", highlight=False)
    effective, mean = found.target.effective_sample_size, found.target.mean_weight
    out.print(f"effective sample size {effective:.0f}, weights average {mean:.3f}", highlight=False)
    if found.baseline.refusal:
        out.print(f"no number for the baseline: {found.baseline.refusal}", highlight=False)
    if found.left_out:
        out.print(table("Decisions left out", ("why", "count"), sorted(found.left_out.items())))


def _cell(value: pb.EstimatedValue) -> str:
    return f"{value.value:.4f} [{value.low:.4f}, {value.high:.4f}]"
