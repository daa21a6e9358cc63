"""`kedge freeze`, `kedge unfreeze` and `kedge mode`: stop, resume, and look at what is in force."""

from typing import Annotated, Any, Literal

import typer

from kedge.bandit.v1 import governance_service_pb2, policy_pb2
from kedge_bandit.entrypoints.client import connected
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
        modes = client.call(client.governance.Unfreeze, request)
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
        modes = client.call(client.governance.GetMode, governance_service_pb2.GetModeRequest(name=name))
    _answer(name, modes, as_json=as_json)


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
        line += f", effectively {effective}" + (f", by {by}" if by else "")
    answer({"name": name, **document_of(modes)}, lambda out: out.print(line, highlight=False), as_json=as_json)
