"""Say who changes what and why; every move of a lifecycle takes one and turns it into its audit event."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.domain.audit import Actor, AuditEvent, Fact
from kedge_bandit.domain.identifiers import PolicyName, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Who changes something of a tenant, why and when; `because` has 1 to 1,000 characters."""

    tenant: TenantId
    actor: Actor
    because: str
    at: datetime

    def event(self, verb: str, subject: str, facts: Mapping[str, Fact]) -> AuditEvent:
        """Make the audit event of this change. Raises ReasonRequired."""
        return AuditEvent(
            time=self.at, actor=self.actor, verb=verb, subject=subject, because=self.because, payload=dict(facts)
        )


def subject_of(tenant: TenantId, policy: PolicyName) -> str:
    """Write the resource name under which a policy stands in the audit log.

    >>> subject_of(TenantId("acme"), PolicyName("support"))
    'tenants/acme/policies/support'
    """
    return f"tenants/{tenant}/policies/{policy}"
