"""`kedge policy`: apply a file, show what is in force, move to another stage."""

from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import policy_pb2, policy_service_pb2
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.policy_file import read_policy
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, PolicyName, TenantName, answer, table

policies = typer.Typer(cls=KedgeGroup, help="Configure policies.", no_args_is_help=True)


@policies.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML or JSON; docs/policy.example.toml is a full one.")],
    *,
    tenant: Annotated[str, typer.Option(help="Whose policy it is, if the file's name does not say.")] = "",
    because: Because = "",
    as_json: JsonFlag = False,
) -> None:
    """Make the policy what the file says; applying the same file again changes nothing."""
    policy = read_policy(file, tenant=tenant)
    with connected() as client:
        version = _version(client, policy.name)
        request = policy_service_pb2.PutPolicyRequest(
            policy=policy, expected_version=version, because=because or f"applied {file.name}"
        )
        put = client.call(client.policies.PutPolicy, request)
    change = "created" if version == 0 else "unchanged" if put.policy.policy_version == version else "configured"
    document = {"change": change, **document_of(put)}

    def show(out: Console) -> None:
        out.print(f"{put.policy.name} {change}, version {put.policy.policy_version}", highlight=False)
        for warning in put.warnings:
            out.print(f"[yellow]warning:[/] {escape(warning)}", highlight=False)

    answer(document, show, as_json=as_json)


@policies.command()
def show(tenant: TenantName, policy: PolicyName, *, as_json: JsonFlag = False) -> None:
    """Show the configuration in force."""
    with connected() as client:
        request = policy_service_pb2.GetPolicyRequest(name=f"tenants/{tenant}/policies/{policy}")
        found = client.call(client.policies.GetPolicy, request)
    document = {**document_of(found.policy), "effective_mode": _mode(found.effective_mode)}
    answer(document, lambda out: _show(out, found), as_json=as_json)


@policies.command()
def stage(
    tenant: TenantName,
    policy: PolicyName,
    *,
    floor: Annotated[float, typer.Option(help="Least share of traffic for the baseline, in [.05, 1].")],
    uniform_slice: Annotated[
        float | None, typer.Option("--slice", help="Share of the rest that is spread evenly, in (0, .5].")
    ] = None,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Move the floor, and the slice if it is given, to another stage."""
    request = policy_service_pb2.StagePolicyRequest(
        name=f"tenants/{tenant}/policies/{policy}", exploitation_floor=floor, because=because
    )
    if uniform_slice is not None:
        request.uniform_slice = uniform_slice
    with connected() as client:
        staged = client.call(client.policies.StagePolicy, request).policy
    exploration = staged.exploration
    stage_line = f"floor {exploration.exploitation_floor:g}, slice {exploration.uniform_slice:g}"
    line = f"{staged.name} is at {stage_line}, version {staged.policy_version}"
    answer(document_of(staged), lambda out: out.print(line, highlight=False), as_json=as_json)


def _version(client: Client, name: str) -> int:
    try:
        found = client.call(client.policies.GetPolicy, policy_service_pb2.GetPolicyRequest(name=name))
    except grpc.RpcError as error:
        if reason_of(error) == "POLICY_NOT_FOUND":
            return 0
        raise
    version: int = found.policy.policy_version
    return version


def _show(out: Console, found: Any) -> None:
    policy: policy_pb2.Policy = found.policy
    exploration = policy.exploration
    out.print(
        f"[bold]{policy.name}[/]  version {policy.policy_version}, {_mode(policy.mode)}"
        f" (effective {_mode(found.effective_mode)}), learner {policy.learner_in_force},"
        f" floor {exploration.exploitation_floor:g}, slice {exploration.uniform_slice:g},"
        f" half-life {policy.half_life.ToTimedelta()}",
        highlight=False,
    )
    rows = [
        (
            enum_text(policy_pb2.Dimension.DESCRIPTOR, arm.dimension),
            f"{arm.name}@{arm.content_hash[:12]}",
            exploration.arm_caps.get(f"{arm.name}@{arm.content_hash[:12]}", ""),
            "retired" if arm.HasField("retire_time") else "",
            arm.content if len(arm.content) <= 60 else f"{arm.content[:57]}...",
        )
        for arm in policy.arms
    ]
    out.print(table("Arms", ("dimension", "arm", "cap", "", "content"), rows))
    baseline = policy.action_keys[policy.baseline_index]
    out.print(f"{len(policy.action_keys)} joint actions; the baseline is {baseline}", highlight=False)


def _mode(number: int) -> str:
    return enum_text(policy_pb2.Mode.DESCRIPTOR, number)
