"""`kedge plan`, `kedge apply` and `kedge export`: a folder of policy files as the truth."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import policy_pb2, policy_service_pb2, proposal_pb2, tenant_service_pb2
from kedge.bandit.v1 import proposal_service_pb2 as proposing
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.adapters.grpc.wire_policy import arm_message
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.proposal_state import OPEN
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.policy_folder import Difference, compare, message_after, read_folder
from kedge_bandit.entrypoints.printing import Because, FailedCheck, JsonFlag, answer

Folder = Annotated[Path, typer.Option("--folder", "-f", help="Folder of policy files, TENANT/POLICY.toml or .json.")]
_OUTPUT_ONLY = (
    *("mode", "policy_version", "action_keys", "create_time", "update_time"),
    *("seed_epoch", "baseline_index", "learner_in_force"),
)
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one policy: its version, and the proposals that were made or that wait already."""

    name: str
    version: int
    changes: tuple[str, ...]
    proposals: tuple[str, ...]


def plan(
    folder: Folder,
    *,
    check: Annotated[bool, typer.Option("--check", help="End with 1 where anything differs.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what `kedge apply` would change at once, and what takes a proposal; nothing is changed."""
    wanted = read_folder(folder)
    with connected() as client:
        found = [compare(policy, _read(client, name)) for name, policy in wanted.items()]
        beside = [name for name in _beside(client, wanted) if name not in wanted]
    document = {"policies": [_document(difference) for difference in found], "not_in_the_folder": beside}

    def show(out: Console) -> None:
        for difference in found:
            _show(out, difference)
        for name in beside:
            out.print(f"[dim]{name}: not in the folder, left alone[/]", highlight=False)

    answer(document, show, as_json=as_json)
    if check and not all(difference.is_none for difference in found):
        raise FailedCheck("the folder and what is in force differ")


def apply(folder: Folder, *, because: Because, as_json: JsonFlag = False) -> None:
    """Put what may be put at once, and propose the rest; applying the same folder again changes nothing."""
    wanted = read_folder(folder)
    with connected() as client:
        differences = [compare(policy, _read(client, name)) for name, policy in wanted.items()]
        done = [_applied(client, difference, wanted[difference.name], because) for difference in differences]

    def show(out: Console) -> None:
        for one in done:
            out.print(f"{one.name}  version {one.version}{'' if one.changes else ', unchanged'}", highlight=False)
            for change in one.changes:
                out.print(f"  [green]+[/] {escape(change)}", highlight=False)
            for proposal in one.proposals:
                out.print(f"  [yellow]waits for approval:[/] {escape(proposal)}", highlight=False)

    document = [
        {"name": one.name, "version": one.version, "changes": one.changes, "proposals": one.proposals} for one in done
    ]
    answer(document, show, as_json=as_json)


def export(
    folder: Folder,
    tenants: Annotated[list[str] | None, typer.Argument(metavar="[TENANT]...", help="Left out: all.")] = None,
    *,
    as_json: JsonFlag = False,
) -> None:
    """Write every policy in force as FOLDER/TENANT/POLICY.json; what was exported plans as no change."""
    with connected() as client:
        names = [f"tenants/{tenant}" for tenant in tenants or ()] or _tenants(client)
        found = [policy for tenant in names for policy in _policies(client, tenant)]
    written = []
    for policy in found:
        _, tenant, _, own = policy.name.split("/")
        path = folder / tenant / f"{own}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_file_of(policy), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.append(str(path))
    answer(written, lambda out: out.print(*written, sep="\n", highlight=False), as_json=as_json)


def _applied(client: Client, difference: Difference, wanted: policy_pb2.Policy, because: str) -> Applied:
    version = difference.version
    if difference.changes:
        message = wanted if version == 0 else message_after(wanted, difference)
        request = policy_service_pb2.PutPolicyRequest(policy=message, expected_version=version, because=because)
        version = client.call(client.policies.PutPolicy, request).policy.policy_version
    return Applied(difference.name, version, difference.changes, tuple(_proposed(client, difference, because)))


def _proposed(client: Client, difference: Difference, because: str) -> list[str]:
    """Propose what takes a second person, or name the proposal that waits for it already."""
    wishes = _wishes(difference)
    if not wishes:
        return []
    tenant = difference.name.partition("/policies/")[0]
    listing = proposing.ListProposalsRequest(
        parent=tenant,
        policy=difference.name,
        page_size=_PAGE,
        states=[proposal_pb2.Proposal.State.Value(f"STATE_{state}") for state in OPEN],
    )
    waiting = client.call(client.proposals.ListProposals, listing).proposals
    names: list[str] = []
    for wish in wishes:
        known = next((one for one in waiting if _is_same(one, wish)), None)
        if known is None:
            wish.because = because
            request = proposing.SubmitProposalRequest(parent=tenant, proposal=wish)
            known = client.call(client.proposals.SubmitProposal, request).proposal
        names.append(known.name)
    return names


def _wishes(difference: Difference) -> list[proposal_pb2.Proposal]:
    wishes: list[proposal_pb2.Proposal] = []
    for arm in difference.arms:
        is_prompt = arm.dimension is Dimension.PROMPT_VARIANT
        kind = proposal_pb2.PROPOSAL_KIND_PROMPT if is_prompt else proposal_pb2.PROPOSAL_KIND_ARM
        wishes.append(proposal_pb2.Proposal(policy=difference.name, kind=kind, arm=arm_message(arm)))
    if difference.baseline is not None:
        wish = proposal_pb2.Proposal(policy=difference.name, kind=proposal_pb2.PROPOSAL_KIND_BASELINE)
        for dimension, name in difference.baseline.items():
            getattr(wish.baseline, dimension.lower()).name = name
        wishes.append(wish)
    if difference.floor is not None:
        stage = proposal_pb2.FloorStage(exploitation_floor=difference.floor)
        kind = proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE
        wishes.append(proposal_pb2.Proposal(policy=difference.name, kind=kind, floor_stage=stage))
    return wishes


def _is_same(proposal: proposal_pb2.Proposal, wish: proposal_pb2.Proposal) -> bool:
    """Say whether a proposal is for what is wished."""
    if proposal.kind != wish.kind:
        return False
    if wish.HasField("arm"):
        mine = (wish.arm.dimension, wish.arm.name, wish.arm.content)
        return (proposal.arm.dimension, proposal.arm.name, proposal.arm.content) == mine
    if wish.HasField("floor_stage"):
        return proposal.floor_stage.exploitation_floor == wish.floor_stage.exploitation_floor
    fields = [field.name for field, _ in wish.baseline.ListFields()]
    return all(getattr(proposal.baseline, name).name == getattr(wish.baseline, name).name for name in fields)


def _read(client: Client, name: str) -> policy_pb2.Policy | None:
    try:
        request = policy_service_pb2.GetPolicyRequest(name=name)
        found: policy_pb2.Policy = client.call(client.policies.GetPolicy, request).policy
    except grpc.RpcError as error:
        if reason_of(error) == "POLICY_NOT_FOUND":
            return None
        raise
    return found


def _beside(client: Client, wanted: Sequence[str] | dict[str, Any]) -> list[str]:
    """Name every policy of the tenants that the folder names."""
    tenants = sorted({name.partition("/policies/")[0] for name in wanted})
    return [policy.name for tenant in tenants for policy in _policies(client, tenant)]


def _policies(client: Client, tenant: str) -> list[policy_pb2.Policy]:
    found: list[policy_pb2.Policy] = []
    request = policy_service_pb2.ListPoliciesRequest(parent=tenant, page_size=_PAGE)
    while True:
        page = client.call(client.policies.ListPolicies, request)
        found += page.policies
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


def _tenants(client: Client) -> list[str]:
    names: list[str] = []
    request = tenant_service_pb2.ListTenantsRequest(page_size=_PAGE)
    while True:
        page = client.call(client.tenants.ListTenants, request)
        names += [tenant.name for tenant in page.tenants]
        if not page.next_page_token:
            return names
        request.page_token = page.next_page_token


def _file_of(policy: policy_pb2.Policy) -> dict[str, Any]:
    """Write a policy as a file holds it: what a person configures, without tombstones and what ramps move."""
    kept = policy_pb2.Policy()
    kept.CopyFrom(policy)
    del kept.arms[:]
    kept.arms.extend(arm for arm in policy.arms if not arm.HasField("retire_time"))
    document = MessageToDict(kept, preserving_proto_field_name=True)
    for name in _OUTPUT_ONLY:
        document.pop(name, None)
    document["exploration"].pop("exploitation_floor", None)
    document["exploration"].pop("arm_caps", None)
    for arm in document["arms"]:
        arm.pop("content_hash", None)
    for reference in document["baseline"].values():
        reference.pop("content_hash", None)
    return document


def _document(difference: Difference) -> dict[str, Any]:
    return {
        "name": difference.name,
        "version": difference.version,
        "changes": list(difference.changes),
        "needs_proposals": list(difference.needs_proposals),
        "raised_by_ramps": list(difference.capped),
    }


def _show(out: Console, difference: Difference) -> None:
    if difference.is_none:
        out.print(f"{difference.name}  no change", highlight=False)
        return
    out.print(f"[bold]{difference.name}[/]  {'new' if difference.version == 0 else 'changes'}", highlight=False)
    for change in difference.changes:
        out.print(f"  [green]at once:[/] {escape(change)}", highlight=False)
    for sentence in difference.needs_proposals:
        out.print(f"  [yellow]takes a proposal:[/] {escape(sentence)}", highlight=False)
    for arm in difference.capped:
        out.print(f"  [dim]its ramp raises it, not a file:[/] cap of arm {escape(arm)}", highlight=False)
