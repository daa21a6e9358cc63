"""`kedge freeze`, `kedge unfreeze` and `kedge mode`: stop, resume, and look at what is in force."""

from typing import Annotated, Any, Literal

import grpc
import typer

from kedge.bandit.v1 import governance_service_pb2, policy_pb2
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import Because, JsonFlag, answer

Tenant = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant; left out only with --everything.")]
Policy = Annotated[str, typer.Argument(metavar="POLICY", help="One policy; left out: the whole tenant.")]
Everything = Annotated[bool, typer.Option("--everything", help="Every tenant at once.")]


def freeze(
    tenant: Tenant = "",
    policy: Policy = "",
    *,
    because: Because,
    everything: Everything = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop drawing and learning at once: the baseline is served, belief is kept exactly."""
    name = _name(tenant, policy, everything=everything)
    with connected() as client:
        request = governance_service_pb2.FreezeRequest(name=name, because=because)
        modes = client.call(client.governance.Freeze, request)
    _answer(name, modes, as_json=as_json)


def unfreeze(
    tenant: Tenant = "",
    policy: Policy = "",
    *,
    because: Because,
    quarantine: Annotated[
        Literal["replay", "keep", "drop"], typer.Option(help="What becomes of evidence quarantined meanwhile.")
    ] = "keep",
    everything: Everything = False,
    as_json: JsonFlag = False,
) -> None:
    """Resume in the mode before the stop, under a new seed epoch."""
    name = _name(tenant, policy, everything=everything)
    choice = governance_service_pb2.QuarantineChoice.Value(f"QUARANTINE_CHOICE_{quarantine.upper()}")
    with connected() as client:
        request = governance_service_pb2.UnfreezeRequest(name=name, because=because, quarantine=choice)
        try:
            modes = client.call(client.governance.Unfreeze, request)
        except grpc.RpcError as error:
            if reason_of(error) == "ILLEGAL_TRANSITION":
                _refuse_held(name, _modes(client, name))
            raise
        if modes.mode != modes.effective_mode:
            modes = _modes(client, name)
    _answer(name, modes, as_json=as_json)


def mode(
    tenant: Tenant = "",
    policy: Policy = "",
    *,
    wanted: Annotated[
        Literal["apply", "observe", "frozen", "bypass"] | None, typer.Option("--set", help="Change it to this mode.")
    ] = None,
    because: Because = "",
    everything: Everything = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the mode of a policy, a tenant or everything, or change it."""
    name = _name(tenant, policy, everything=everything)
    with connected() as client:
        if wanted is not None:
            request = governance_service_pb2.SetModeRequest(
                name=name, mode=policy_pb2.Mode.Value(f"MODE_{wanted.upper()}"), because=because
            )
            client.call(client.governance.SetMode, request)
        modes = _modes(client, name)
    _answer(name, modes, as_json=as_json)


def _modes(client: Client, name: str) -> Any:
    return client.call(client.governance.GetMode, governance_service_pb2.GetModeRequest(name=name))


def _refuse_held(name: str, modes: Any) -> None:
    """Raise IllegalTransition where it is a level above that stands still, not the one that was named."""
    own, effective = (enum_text(policy_pb2.Mode.DESCRIPTOR, number) for number in (modes.mode, modes.effective_mode))
    if way_out := _way_out(name, effective, modes.decided_by):
        raise IllegalTransition(f"{name} is {own} and not frozen itself, {modes.decided_by} is{way_out}")


def _way_out(name: str, effective: str, by: str) -> str:
    """Name the command that ends a freeze which a level above holds; empty where there is none.

    >>> _way_out("tenants/acme/policies/support", "FROZEN", "tenant")
    ': `kedge unfreeze acme` ends that'
    """
    if by == "file":
        return ": the file mode_override in the data folder says so, or holds what is no mode (see `kedge status`)"
    places = {"global": "--everything", "tenant": name.split("/")[1] if "/" in name else ""}
    return f": `kedge unfreeze {places[by]}` ends that" if effective == "FROZEN" and by in places else ""


def _name(tenant: str, policy: str, *, everything: bool) -> str:
    if everything:
        if tenant:
            raise typer.BadParameter("name a tenant, or pass --everything")
        return "global"
    if not tenant:
        raise typer.BadParameter("name a tenant, or pass --everything")
    return f"tenants/{tenant}/policies/{policy}" if policy else f"tenants/{tenant}"


def _answer(name: str, modes: Any, *, as_json: bool) -> None:
    own, effective = (enum_text(policy_pb2.Mode.DESCRIPTOR, number) for number in (modes.mode, modes.effective_mode))
    by = getattr(modes, "decided_by", "")
    line = f"{name} is {own}"
    if own != effective:
        line += f", effectively {effective}" + (f", by {by}" if by else "") + _way_out(name, effective, by)
    answer({"name": name, **document_of(modes)}, lambda out: out.print(line, highlight=False), as_json=as_json)
