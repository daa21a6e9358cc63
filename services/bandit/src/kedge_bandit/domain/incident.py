"""An alarm that tripped, until a person has written down its cause."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from kedge_bandit.domain.audit import AuditEvent, Fact
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, InvalidName, KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId, tenant_id

_MOST_DIGITS = 18


class IncidentState(StrEnum):
    """How far a person is with it; every state but CLOSED is open."""

    OPEN = "OPEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    CLOSED = "CLOSED"


class IncidentNotFound(KedgeError):
    """Say that the tenant has no such incident."""

    reason: ClassVar[str] = "INCIDENT_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"incident {name!r} does not exist in this tenant: read the names from ListIncidents.")
        self.name = name


class IncidentOpen(KedgeError):
    """Refuse to let a policy go on that an alarm stopped, before anybody has looked at the alarm."""

    reason: ClassVar[str] = "INCIDENT_OPEN"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} froze the policy and is open: acknowledge it; a second person then lets it go on.")
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One alarm.

    Attributes:
        number: within its tenant; 0 until it is stored.
        detector: what tripped, e.g. "ramp.veto_rate".
        owner: who acknowledged it; cause: what a person found, empty until it is closed.
        statistic: the number that tripped; evidence: a sentence about it.
        froze: it stopped its policy, which goes on once somebody has acknowledged it.
    """

    number: int = 0
    policy: PolicyName
    detector: str
    state: IncidentState = IncidentState.OPEN
    owner: str = ""
    cause: str = ""
    statistic: float
    evidence: str
    open_time: datetime
    close_time: datetime | None = None
    froze: bool = False


Move = tuple[Incident, AuditEvent]


def name_of(tenant: TenantId, number: int) -> str:
    """Write an incident's resource name.

    >>> name_of(TenantId("acme"), 7)
    'tenants/acme/incidents/7'
    """
    return f"tenants/{tenant}/incidents/{number}"


def parse_incident(name: str) -> tuple[TenantId, int]:
    """Read `tenants/{tenant}/incidents/{incident}`; the last part is a number, else 0, which no incident has.

    >>> parse_incident("tenants/acme/incidents/7"), parse_incident("tenants/acme/incidents/none")
    (('acme', 7), ('acme', 0))

    Raises:
        InvalidName: it is of another form.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "incidents":
        raise InvalidName("name", name[:80], "tenants/{tenant}/incidents/{incident}")
    tenant = tenant_id(parts[1])
    is_number = parts[3].isascii() and parts[3].isdecimal() and len(parts[3]) <= _MOST_DIGITS
    return tenant, int(parts[3]) if is_number else 0


def opened(incident: Incident, change: Change) -> AuditEvent:
    """Write down that an alarm tripped."""
    return _event(incident, change, "incident.opened")


def acknowledge(incident: Incident, change: Change) -> Move:
    """Make the one who acts its owner. Raises IllegalTransition where somebody has it, or it is closed."""
    if incident.state is not IncidentState.OPEN:
        raise IllegalTransition(f"the incident is {incident.state}: only an open one can be acknowledged")
    moved = replace(incident, state=IncidentState.ACKNOWLEDGED, owner=change.actor.name)
    return moved, _event(moved, change, "incident.acknowledged")


def close(incident: Incident, change: Change) -> Move:
    """Close it; the reason of the change is its cause. Raises IllegalTransition where it is closed."""
    if incident.state is IncidentState.CLOSED:
        raise IllegalTransition("the incident is closed already")
    moved = replace(
        incident,
        state=IncidentState.CLOSED,
        owner=incident.owner or change.actor.name,
        cause=change.because,
        close_time=change.at,
    )
    return moved, _event(moved, change, "incident.closed")


def _event(incident: Incident, change: Change, verb: str) -> AuditEvent:
    facts: dict[str, Fact] = {"policy": incident.policy, "detector": incident.detector, "statistic": incident.statistic}
    return change.event(verb, name_of(change.tenant, incident.number), facts)
