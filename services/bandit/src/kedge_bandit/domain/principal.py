"""Say who calls and what the role of the key allows, tenant by tenant."""

from dataclasses import dataclass
from enum import StrEnum

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.errors import PermissionDenied, TenantDenied
from kedge_bandit.domain.identifiers import TenantId


class Role(StrEnum):
    """What a key's holder is."""

    CORE_APP = "CORE_APP"
    VIEWER = "VIEWER"
    ADMIN = "ADMIN"
    OPERATOR = "OPERATOR"


class Permission(StrEnum):
    """What one RPC or route asks for; each declares exactly one."""

    DECIDE = "DECIDE"
    LOG = "LOG"
    RECORD = "RECORD"
    READ_ARMS = "READ_ARMS"
    READ_FLAGS = "READ_FLAGS"
    READ = "READ"
    IMPORT = "IMPORT"
    CONFIGURE = "CONFIGURE"
    GOVERN = "GOVERN"
    PROPOSE = "PROPOSE"
    APPROVE = "APPROVE"
    EVALUATE = "EVALUATE"
    MANAGE_KEYS = "MANAGE_KEYS"
    ERASE = "ERASE"
    MANAGE_TENANTS = "MANAGE_TENANTS"


_EVERYBODY = frozenset({Permission.READ_ARMS, Permission.READ_FLAGS})
_CORE_APP = _EVERYBODY | {Permission.DECIDE, Permission.LOG, Permission.RECORD}
_VIEWER = _EVERYBODY | {Permission.READ}
_ALL = frozenset(Permission)

GRANTS = {
    Role.CORE_APP: _CORE_APP,
    Role.VIEWER: _VIEWER,
    Role.ADMIN: _ALL - {Permission.MANAGE_TENANTS},
    Role.OPERATOR: _ALL,
}
"""What each role may do inside the tenants that its key is bound to."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key.

    Attributes:
        name: who holds it, e.g. "core-app".
        tenant: the only one it may name; None: every tenant and everything at once, for operators.
    """

    name: str
    role: Role
    tenant: TenantId | None

    @property
    def actor(self) -> Actor:
        """The name under which the principal stands in the audit log.

        >>> Principal("core-app", Role.CORE_APP, TenantId("acme")).actor
        Actor(name='key:core-app')
        """
        return Actor(f"key:{self.name}")

    def check(self, permission: Permission, tenant: TenantId | None) -> None:
        """Refuse what the principal may not do; says nothing of whether the tenant exists.

        Args:
            tenant: the tenant that the call names; None where it concerns all of them.

        Raises:
            TenantDenied: the key is bound to another tenant.
            PermissionDenied: the role does not include it.
        """
        if tenant is not None and self.tenant is not None and tenant != self.tenant:
            raise TenantDenied
        if permission not in GRANTS[self.role]:
            raise PermissionDenied(f"{permission} is not a permission of role {self.role}: use a key that has it")
        if tenant is None and self.tenant is not None:
            raise PermissionDenied("this concerns every tenant: use an operator's key")
