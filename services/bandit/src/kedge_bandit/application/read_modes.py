"""Read the mode of a policy, a tenant or everything, and which level decides what is served."""

from dataclasses import dataclass

from kedge_bandit.application.administration_ports import GovernedLedgers, Override, TenantRegistry
from kedge_bandit.domain.identifiers import PolicyName, TenantId, parse_policy, parse_tenant
from kedge_bandit.domain.mode import Mode, most_restrictive
from kedge_bandit.domain.switch import deciding_level, newest_mode

GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a verb is about: a policy, a tenant, or everything when both are None."""

    tenant: TenantId | None = None
    policy: PolicyName | None = None


def scope_of(name: str) -> Scope:
    """Read "global", `tenants/{tenant}` or `tenants/{tenant}/policies/{policy}`.

    >>> scope_of("tenants/acme/policies/support")
    Scope(tenant='acme', policy='support')
    """
    if name == GLOBAL:
        return Scope()
    if "/policies/" in name:
        return Scope(*parse_policy(name))
    return Scope(parse_tenant(name))


@dataclass(frozen=True, slots=True)
class Modes:
    """The own mode of a level, the effective one there, and the level that decides it."""

    own: Mode
    effective: Mode
    decided_by: str


@dataclass(frozen=True, slots=True)
class Levels:
    """Read modes at every level, those from outside the database too."""

    ledgers: GovernedLedgers
    registry: TenantRegistry
    override: Override

    async def __call__(self, scope: Scope) -> Modes:
        """Read the mode of a scope. Raises TenantDenied, PolicyNotFound."""
        levels: dict[str, Mode] = {}
        if scope.tenant is None:
            levels["global"] = newest_mode(await self.registry.global_mode_changes())
        else:
            async with self.ledgers.open(scope.tenant) as ledger:
                if scope.policy is not None:
                    levels["policy"] = (await ledger.policies.get(scope.policy)).mode
                levels["tenant"] = await ledger.policies.tenant_mode()
                levels["global"] = await ledger.policies.global_mode()
        own = next(iter(levels.values()))
        levels |= self.override.levels(scope.tenant, scope.policy)
        return Modes(own, most_restrictive(levels.values()), deciding_level(levels))
