"""Answer who may do what from the same tables that the servers check with; no server and no database is asked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kedge_bandit.adapters.grpc.permissions import PERMISSIONS, ROUTES
from kedge_bandit.domain.principal import GRANTS, Permission, Role, refusal

_EVERYTHING: Final = ("global", "everything", "*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be done, and why or why not, in a sentence."""

    may: bool
    reason: str


def can(role: Role, tenant: str, permission: Permission | None, what: str, *, is_person: bool) -> Verdict:
    """Say whether a role in a tenant may do something to a resource.

    Args:
        tenant: the one that the credential is bound to; "*" for an operator's.
        permission: what the action asks for; None: nothing, it is open to everybody.
        what: a tenant's own name, a resource name that begins with it, or "global".

    >>> can(Role.VIEWER, "acme", Permission.READ, "tenants/acme/policies/support", is_person=False)
    Verdict(may=True, reason='READ is a permission of role VIEWER')
    >>> can(Role.ADMIN, "acme", Permission.READ, "globex", is_person=True).reason
    'the credential is bound to tenant acme, not to globex'
    """
    if permission is None:
        return Verdict(True, "this route is open: it asks for no credential")
    named = "" if what in _EVERYTHING else what.removeprefix("tenants/").partition("/")[0]
    if role is Role.OPERATOR:
        tenant = "*"
    if tenant != "*" and not named:
        return Verdict(False, "this concerns every tenant: use an operator's credential")
    if tenant not in ("*", named):
        return Verdict(False, f"the credential is bound to tenant {tenant}, not to {named}")
    why_not = refusal(role, permission, is_person=is_person)
    return Verdict(not why_not, why_not or f"{permission} is a permission of role {role}")


def permission_of(action: str) -> Permission | None:
    """Find what an action asks for: an RPC's name, a route such as "GET /healthz", or a permission itself.

    >>> permission_of("Freeze"), permission_of("GET /healthz"), permission_of("approve")
    (<Permission.FREEZE: 'FREEZE'>, None, <Permission.APPROVE: 'APPROVE'>)

    Raises:
        KeyError: there is no such action.
    """
    if action in ROUTES:
        return ROUTES[action]
    for method, permission in PERMISSIONS.items():
        if action in (method, method.rpartition("/")[2]):
            return permission
    try:
        return Permission(action.upper())
    except ValueError as error:
        raise KeyError(action) from error


def matrix() -> Iterator[tuple[str, Permission | None, Mapping[Role, bool]]]:
    """Give every RPC and route with what it asks for and which roles have it, a person's credential each."""
    for name, permission in (*PERMISSIONS.items(), *ROUTES.items()):
        yield name, permission, {role: permission is None or permission in GRANTS[role] for role in Role}
