"""`kedge console link`: a way into the console of this machine for one person, once."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import grpc
import typer

from kedge.bandit.v1 import governance_service_pb2, holdout_service_pb2, tenant_service_pb2
from kedge_bandit.adapters.console.login import LINKS, write_link
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.entrypoints.client import Client, connected, connected_to_gate
from kedge_bandit.entrypoints.metrics_port import is_encrypted
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, KedgeGroup, answer
from kedge_bandit.entrypoints.settings import read_settings

RoleName = Literal["viewer", "proposer", "approver", "admin"]
_DAY = timedelta(days=1)
_LOOKS, _LOOK_SECONDS = 100, 0.1

console = typer.Typer(cls=KedgeGroup, help="Let people into the console of this machine.", no_args_is_help=True)


@console.callback()
def _group() -> None:
    """Let people into the console of this machine."""


@console.command()
def link(
    tenants: Annotated[list[str] | None, typer.Argument(metavar="[TENANT]...", help="What it opens.")] = None,
    *,
    person: Annotated[str, typer.Option(help="Who will use it; left out: an operator, who sees everything.")] = "",
    role: Annotated[RoleName, typer.Option(help="What they are there.", case_sensitive=False)] = "viewer",
    as_json: JsonFlag = False,
) -> None:
    """Print a link that logs one person in, once, within the hour; for a demonstration, on this machine alone."""
    settings = read_settings()
    if not settings.console_port:
        raise FailedCheck("KEDGE_CONSOLE_PORT is not set: start `kedge serve` with it, and set it here too")
    if settings.console_client_id:
        raise FailedCheck("people sign on by their provider here, and no link is taken")
    if bool(tenants) is not bool(person):
        raise FailedCheck("name the tenants and --person with their --role, or neither for an operator")
    with connected() as client:
        keys = {name: (role.upper(), _key(client, name, person, role)) for name in tenants or ()}
        keys = keys or {"*": ("OPERATOR", client.key[0][1].removeprefix("Bearer "))}
    if tenants and settings.gate_port:
        with connected_to_gate() as gate:
            for name, (_, key) in keys.items():
                asked = holdout_service_pb2.GetHoldoutRequest(policy=f"tenants/{name}/policies/none")
                _wait_until_known(gate, key, gate.holdout.GetHoldout, asked)
    secret = write_link(settings.data_dir / LINKS, subject=person, issuer="kedge", keys=keys)
    scheme = "https" if is_encrypted(settings) else "http"
    place = settings.console_url.rstrip("/") or f"{scheme}://{settings.host}:{settings.console_port}"
    document = {"person": person, "tenants": list(keys), "link": f"{place}/login/link/{secret}"}
    answer(document, lambda out: out.print(document["link"], highlight=False, soft_wrap=True), as_json=as_json)


def _key(client: Client, tenant: str, person: str, role: str) -> str:
    """Make a key for a day that stands for the person."""
    request = tenant_service_pb2.CreateKeyRequest(
        parent=f"tenants/{tenant}",
        principal="console",
        role=tenant_service_pb2.Role.Value(f"ROLE_{role.upper()}"),
        because=f"a login link for {person}",
    )
    request.person.issuer, request.person.subject = "kedge", person
    request.expire_time.FromDatetime(datetime.now(UTC) + _DAY)
    key: str = client.call(client.tenants.CreateKey, request).key
    asked = governance_service_pb2.GetModeRequest(name=f"tenants/{tenant}")
    _wait_until_known(client, key, client.governance.GetMode, asked)
    return key


def _wait_until_known(client: Client, key: str, rpc: Any, request: Any) -> None:
    """Wait until a process takes the key, which is within a second: whoever follows the link at once gets in."""
    fresh = replace(client, key=(("authorization", f"Bearer {key}"),))
    for _ in range(_LOOKS):
        try:
            fresh.call(rpc, request)
        except grpc.RpcError as error:
            if reason_of(error) == "UNAUTHENTICATED":
                time.sleep(_LOOK_SECONDS)
                continue
        return
    raise FailedCheck(f"{client.address} does not take the new key: is it of the same service, and alive?")
