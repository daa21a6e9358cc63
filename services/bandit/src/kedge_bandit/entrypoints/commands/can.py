"""`kedge can`: say who may do what, without a server."""

from typing import Annotated

import typer

from kedge_bandit.adapters.grpc.can import can, permission_of
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS, ROUTES
from kedge_bandit.domain.principal import Permission, Role
from kedge_bandit.entrypoints.printing import JsonFlag, answer

Who = Annotated[
    str, typer.Argument(metavar="WHO", help="A role, and its tenant: approver@acme, core_app@acme, operator.")
]
Action = Annotated[
    str, typer.Argument(metavar="ACTION", help="An RPC, a route or a permission: Freeze, 'GET /metrics'.")
]
What = Annotated[str, typer.Argument(metavar="WHAT", help="A tenant, a resource name, or global.")]


def may(
    who: Who,
    action: Action,
    what: What,
    *,
    program: Annotated[bool, typer.Option("--program", help="No person is behind it.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say yes or no with the reason, from the tables that the servers check with; ends with 1 for no."""
    name, _, tenant = who.partition("@")
    role, permission = _role(name), _permission(action)
    if not tenant and role is not Role.OPERATOR:
        raise typer.BadParameter(f"say in which tenant: {name}@TENANT")
    verdict = can(role, tenant or "*", permission, what, is_person=not program)
    found = {"may": verdict.may, "reason": verdict.reason}
    said = f"{'yes' if verdict.may else 'no'}: {verdict.reason}"
    answer(found, lambda out: out.print(said, highlight=False), as_json=as_json)
    if not verdict.may:
        raise typer.Exit(1)


def _role(name: str) -> Role:
    try:
        return Role(name.upper())
    except ValueError as error:
        roles = ", ".join(role.lower() for role in Role)
        raise typer.BadParameter(f"{name} is no role: choose one of {roles}") from error


def _permission(action: str) -> Permission | None:
    try:
        return permission_of(action)
    except KeyError as error:
        names = ", ".join((*Permission, *(name.rpartition("/")[2] for name in PERMISSIONS), *ROUTES))
        raise typer.BadParameter(f"{action} is no permission, RPC or route: choose one of {names}") from error
