"""`kedge proposal`: propose, look at and compare, decide about, go back, and wait."""

import difflib
import time
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import policy_pb2, proposal_pb2
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.domain.proposal_state import NEXT, ProposalState
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.policy_file import FileRefused, read_policy
from kedge_bandit.entrypoints.printing import (
    Because,
    FailedCheck,
    JsonFlag,
    KedgeGroup,
    PolicyName,
    TenantName,
    answer,
    table,
)

proposals = typer.Typer(cls=KedgeGroup, help="Propose what comes to serve, and decide about it.", no_args_is_help=True)

ProposalName = Annotated[str, typer.Argument(metavar="PROPOSAL", help="tenants/TENANT/proposals/PROPOSAL")]
Kind = Literal["prompt", "lora", "environment_policy", "arm", "baseline", "config", "floor_stage"]
_STATES: Final = proposal_pb2.Proposal.State.DESCRIPTOR
_FINAL: Final = frozenset(ProposalState).difference(NEXT)
_WATCH_SECONDS: Final = 0.5
_BASELINE: Final = {
    "model_route": policy_pb2.DIMENSION_MODEL_ROUTE,
    "reasoning_depth": policy_pb2.DIMENSION_REASONING_DEPTH,
    "prompt_variant": policy_pb2.DIMENSION_PROMPT_VARIANT,
}


@proposals.command()
def submit(
    tenant: TenantName,
    policy: PolicyName,
    *,
    kind: Annotated[Kind, typer.Option(help="What it would change.")],
    arm: Annotated[str, typer.Option(help="Name of the arm.")] = "",
    file: Annotated[Path | None, typer.Option(help="The arm's content; of a config, a policy as TOML or JSON.")] = None,
    dimension: Annotated[
        Literal["model_route", "reasoning_depth", "prompt_variant"], typer.Option(help="Of kind arm.")
    ] = "model_route",
    succeeds: Annotated[str, typer.Option(help="Arm id whose evidence the arm starts from.")] = "",
    baseline: Annotated[list[str] | None, typer.Option(help="DIMENSION=NAME, once for each dimension used.")] = None,
    floor: Annotated[float | None, typer.Option(help="Of a floor stage, in [.05, 1].")] = None,
    uniform_slice: Annotated[float | None, typer.Option("--slice", help="Of a floor stage, in (0, .5].")] = None,
    supersedes: Annotated[str, typer.Option(help="The proposal that this one improves on.")] = "",
    lineage: Annotated[Path | None, typer.Option(help="Data window, run and seed, a JSON object.")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Leave it SUBMITTED, until `kedge proposal gate`.")] = False,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Propose a candidate; nothing of it is served before a second person approves it."""
    proposal = proposal_pb2.Proposal(
        policy=f"tenants/{tenant}/policies/{policy}",
        kind=proposal_pb2.ProposalKind.Value(f"PROPOSAL_KIND_{kind.upper()}"),
        because=because,
        supersedes=supersedes,
        lineage_json="" if lineage is None else _text(lineage),
    )
    if kind == "config":
        proposal.configuration.CopyFrom(read_policy(_needed(file), tenant=tenant))
    elif kind == "baseline":
        proposal.baseline.CopyFrom(_action(baseline or []))
    elif kind == "floor_stage":
        proposal.floor_stage.exploitation_floor = 0.0 if floor is None else floor
        if uniform_slice is not None:
            proposal.floor_stage.uniform_slice = uniform_slice
    else:
        proposal.arm.CopyFrom(_arm(kind, dimension, arm, _text(_needed(file)), succeeds))
    with connected() as client:
        request = pb.SubmitProposalRequest(parent=f"tenants/{tenant}", proposal=proposal, hold=hold)
        _said(client.call(client.proposals.SubmitProposal, request).proposal, as_json=as_json)


@proposals.command("list")
def list_(
    tenant: TenantName,
    *,
    policy: Annotated[str, typer.Option(help="Of one policy.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="In this state; may be given again.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only what you may approve.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List proposals, those with the newest step first."""
    known = {enum_text(_STATES, number).lower(): number for number in _STATES.values_by_number}
    if unknown := [one for one in state or [] if one.lower() not in known]:
        raise typer.BadParameter(f"{unknown[0]} is no state")
    request = pb.ListProposalsRequest(
        parent=f"tenants/{tenant}",
        page_size=limit,
        policy=f"tenants/{tenant}/policies/{policy}" if policy else "",
        states=[known[one.lower()] for one in state or []],  # type: ignore[misc] # numbers of states
        mine_to_approve=mine,
    )
    with connected() as client:
        found = client.call(client.proposals.ListProposals, request).proposals
    rows = [(one.name, _kind(one), _state(one), one.incumbent_name, one.author, one.because) for one in found]
    columns = ("proposal", "kind", "state", "in place of", "by", "because")
    answer(
        [document_of(one) for one in found],
        lambda out: out.print(table("Proposals", columns, rows)),
        as_json=as_json,
    )


@proposals.command()
def show(proposal: ProposalName, *, as_json: JsonFlag = False) -> None:
    """Show a proposal: what, in whose place, the verdict, its way, and what was said of it."""
    with connected() as client:
        found = _read(client, proposal)
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)


@proposals.command()
def diff(proposal: ProposalName, *, as_json: JsonFlag = False) -> None:
    """Show what the candidate changes, line by line."""
    with connected() as client:
        found = _read(client, proposal)
    sides = (found.incumbent.splitlines(), found.candidate.splitlines())
    lines = list(difflib.unified_diff(*sides, found.incumbent_name, found.arm.name or _kind(found), lineterm=""))
    document = {"incumbent": found.incumbent, "candidate": found.candidate, "diff": lines}
    answer(document, lambda out: out.print("\n".join(lines), highlight=False, markup=False), as_json=as_json)


@proposals.command()
def approve(
    proposal: ProposalName,
    *,
    binding: Annotated[str, typer.Option("--hash", help="binding_hash that you read; else the present one.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Admins: without a PASS, or in a not-now window.")] = False,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Consent as a second person; it is served at once."""
    with connected() as client:
        read = binding or _read(client, proposal).binding_hash
        request = pb.ApproveProposalRequest(name=proposal, binding_hash=read, because=because, force=force)
        _said(client.call(client.proposals.ApproveProposal, request).proposal, as_json=as_json)


@proposals.command()
def reject(proposal: ProposalName, *, because: Because, as_json: JsonFlag = False) -> None:
    """Refuse a proposal."""
    with connected() as client:
        request = pb.RejectProposalRequest(name=proposal, because=because)
        _said(client.call(client.proposals.RejectProposal, request).proposal, as_json=as_json)


@proposals.command()
def withdraw(proposal: ProposalName, *, because: Because, as_json: JsonFlag = False) -> None:
    """Take a proposal back."""
    with connected() as client:
        request = pb.WithdrawProposalRequest(name=proposal, because=because)
        _said(client.call(client.proposals.WithdrawProposal, request).proposal, as_json=as_json)


@proposals.command()
def revert(proposal: ProposalName, *, because: Because, as_json: JsonFlag = False) -> None:
    """Serve again what was served before."""
    with connected() as client:
        request = pb.RevertProposalRequest(name=proposal, because=because)
        _said(client.call(client.proposals.RevertProposal, request).proposal, as_json=as_json)


@proposals.command()
def gate(proposal: ProposalName, *, as_json: JsonFlag = False) -> None:
    """Hand a held or inconclusive proposal to the gate."""
    with connected() as client:
        _said(client.call(client.proposals.RunGate, pb.RunGateRequest(name=proposal)).proposal, as_json=as_json)


@proposals.command()
def comment(
    proposal: ProposalName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="1 to 4,000 characters.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Say something about a proposal."""
    with connected() as client:
        request = pb.CommentProposalRequest(name=proposal, text=text)
        said = client.call(client.proposals.CommentProposal, request).comment
    answer(document_of(said), lambda out: out.print(f"{said.author} commented on {proposal}"), as_json=as_json)


@proposals.command()
def wait(
    proposal: ProposalName,
    *,
    wanted: Annotated[str, typer.Option("--for", help="State to wait for.")] = "SERVING",
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 3600.0,
    as_json: JsonFlag = False,
) -> None:
    """Wait until a proposal is in a state; ends with 1 when it cannot come there any more, or not in time."""
    end = time.monotonic() + timeout
    with connected() as client:
        found = _read(client, proposal)
        while _state(found) not in (wanted.upper(), *_FINAL) and time.monotonic() < end:
            time.sleep(_WATCH_SECONDS)
            found = _read(client, proposal)
    _said(found, as_json=as_json)
    if _state(found) != wanted.upper():
        raise FailedCheck(f"{proposal} is {_state(found)}, not {wanted.upper()}")


def _read(client: Client, name: str) -> Any:
    return client.call(client.proposals.GetProposal, pb.GetProposalRequest(name=name)).proposal


def _said(proposal: Any, *, as_json: bool) -> None:
    line = f"{proposal.name} is {_state(proposal)}: {proposal.state_because}"
    answer(document_of(proposal), lambda out: out.print(escape(line), highlight=False), as_json=as_json)


def _show(out: Console, found: Any) -> None:
    out.print(
        f"[bold]{escape(found.name)}[/]  {_kind(found)} of {escape(found.policy)}: {_state(found)}", highlight=False
    )
    facts = [
        ("proposed by", found.author),
        ("because", found.because),
        ("in place of", found.incumbent_name),
        ("state", found.state_because),
        ("approver", found.approver),
        ("binding hash", found.binding_hash),
    ]
    result = found.gate_result
    if result.verdict:
        verdict = enum_text(proposal_pb2.GateVerdict.DESCRIPTOR, result.verdict)
        reason = f" ({result.inconclusive_reason})" if result.inconclusive_reason else ""
        facts.append(("verdict", f"{verdict}{reason}, {result.cases} cases, query {result.query}"))
        facts.append(("lift, rounded", f"{result.rounded_lift:+.3f}"))
        facts += [("", reason) for reason in result.reasons]
    out.print(table("", ("", ""), [fact for fact in facts if fact[1]]))
    steps = [(step.step_time.ToJsonString(), _state(step), step.actor, step.because) for step in found.steps]
    out.print(table("Steps", ("time", "state", "by", "because"), steps))
    if found.reward_previews:
        again = [
            (one.action_key, one.episodes, f"{one.before:.3f}", f"{one.after:.3f}") for one in found.reward_previews
        ]
        out.print(table("14 days under the proposed reward spec", ("action", "episodes", "reward now", "after"), again))
    if found.comments:
        said = [(one.create_time.ToJsonString(), one.author, one.text) for one in found.comments]
        out.print(table("Comments", ("time", "by", "said"), said))


def _state(message: Any) -> str:
    return enum_text(_STATES, message.state)


def _kind(proposal: Any) -> str:
    return enum_text(proposal_pb2.ProposalKind.DESCRIPTOR, proposal.kind)


def _needed(file: Path | None) -> Path:
    if file is None:
        raise typer.BadParameter("name the content's file with --file")
    return file


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{path} cannot be read: {error}") from error


def _arm(kind: str, dimension: str, name: str, content: str, succeeds: str) -> policy_pb2.Arm:
    place = {"prompt": "prompt_variant", "arm": dimension}.get(kind, "model_route")
    return policy_pb2.Arm(dimension=_BASELINE[place], name=name, content=content, succeeds=succeeds)


def _action(named: list[str]) -> policy_pb2.Action:
    action = policy_pb2.Action()
    for one in named:
        dimension, _, name = one.partition("=")
        if dimension not in _BASELINE or not name:
            raise typer.BadParameter(f"--baseline {one}: write DIMENSION=NAME, with one of {', '.join(_BASELINE)}")
        getattr(action, dimension).name = name
    return action
