"""What ramps, detectors and incidents need of the open ledger."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.detectors import Look, Place, Secondary
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.incident import Incident
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp import Looked, Ramp


class Ramps(Protocol):
    """The ramps of the open tenant."""

    async def of(self, policy: PolicyName) -> Sequence[Ramp]:
        """Read the stored ramps of a policy, the floor's first, and keep others from moving them until the end."""

    async def put(self, ramp: Ramp, event: AuditEvent | None) -> None:
        """Store a ramp, with the event that explains it where it moved."""

    async def looked(self, policy: Policy, ramp: Ramp, *, is_applied: bool) -> Looked:
        """Read what is known of a ramp now."""

    async def decisions_per_day(self, policy: PolicyName) -> float:
        """Count the decisions of the last day; of a policy that is younger, as if it went on like that."""

    async def due(self) -> Sequence[PolicyName]:
        """Read which policies have a ramp that may have to move."""


class Detectors(Protocol):
    """The detectors of the open tenant that need no holdout."""

    async def head(self) -> int:
        """Read how long the evidence log is."""

    async def places(self, policy: PolicyName) -> Mapping[Secondary, Place]:
        """Read where the detectors of a policy stand; one that never looked is missing."""

    async def look(self, policy: Policy, detector: Secondary, *, after: int, through: int) -> Look:
        """Sum up what settled between two places in the log."""

    async def put(self, policy: PolicyName, detector: Secondary, place: Place) -> None:
        """Store where a detector stands."""


class Incidents(Protocol):
    """The incidents of the open tenant."""

    async def open(self, incident: Incident, change: Change) -> Incident:
        """Store a new one with its event; gives it with its number."""

    async def get(self, number: int) -> Incident:
        """Read one, and keep others from changing it. Raises IncidentNotFound."""

    async def list(self, *, before: int | None, limit: int) -> Sequence[Incident]:
        """Read incidents newest first, those before a number."""

    async def that_froze(self, policy: PolicyName, since: datetime) -> Sequence[Incident]:
        """Read incidents that froze a policy since a time, and those that did before and are open."""

    async def put(self, incident: Incident, event: AuditEvent) -> None:
        """Store what became of one, with its event."""
