"""What the use cases need from the outside, as narrow as their callers. Adapter and fake carry the same names."""

from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.learning_port import Learning
from kedge_bandit.domain.audit import AuditEvent, ChainedEvent
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.episode import Trajectory
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.outcome import Outcome
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation


class Clock(Protocol):
    """Time as an argument: aware UTC, corrected to the database's clock where that is known."""

    def now(self) -> datetime:
        """Read the time."""


# The tenant's record ------------------------------------------------------------------------------------------------


class Policies(Protocol):
    """Policies, arms and modes of the open tenant."""

    async def get(self, name: PolicyName) -> Policy:
        """Read a policy. Raises PolicyNotFound."""

    async def list(self) -> Sequence[Policy]:
        """Read all policies by name."""

    async def put(self, policy: Policy, event: AuditEvent) -> None:
        """Store a policy's new version with the event that explains it; NOTIFY at commit.

        Raises VersionMismatch when the stored version is not the one before; mode changes are logged for policy time.
        """

    async def at_version(self, name: PolicyName, version: int) -> Policy:
        """Read a policy as it was at a version."""

    async def in_force(self, name: PolicyName, start: datetime, end: datetime) -> Sequence[Policy]:
        """Read the policy as it stood at any moment of an interval, newest first."""

    async def arm(self, content_hash: str) -> Arm:
        """Read an arm by its content's hash. Raises ArmNotFound."""

    async def tenant_mode(self) -> Mode:
        """Read the tenant's own mode."""

    async def global_mode(self) -> Mode:
        """Read the mode of everything."""

    async def put_tenant_mode(self, mode: Mode, event: AuditEvent) -> None:
        """Change the tenant's mode; NOTIFY at commit."""

    async def mode_changes(self, name: PolicyName) -> Sequence[ModeChange]:
        """Read every change of global, tenant and policy mode that bears on a policy, for its clock."""

    async def release_quarantine(self, name: PolicyName, choice: str, at: datetime) -> None:
        """Ask the worker to REPLAY, KEEP or DROP the evidence quarantined so far."""


class AuditLog(Protocol):
    """The tenant's hash chain."""

    async def append(self, event: AuditEvent) -> None:
        """Add an event at the head of the chain, in this transaction."""

    async def list(self, *, before: int | None, limit: int) -> Sequence[ChainedEvent]:
        """Read events newest first, those before a sequence."""

    async def in_order(self, *, after: int, limit: int) -> Sequence[ChainedEvent]:
        """Read events oldest first, those after a sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """An episode as the worker left it, with its newest evidence where there is one.

    Attributes:
        action: that was decided; empty while the decision is unknown.
    """

    policy: PolicyName
    episode_id: EpisodeId
    open_time: datetime
    decision_id: DecisionId | None
    action: str
    state: str
    quarantined: bool
    reward: float | None
    weight: float
    weight_reason: str
    veto_reasons: tuple[str, ...]
    reward_version: int
    components: dict[str, float]
    signals: dict[str, float]
    settle_time: datetime | None
    policy_time: float | None
    evidence_sequence: int
    evidence_bucket: str


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    """A decision with what became of its episode (None until it was logged)."""

    decision: Decision
    served_action: str | None
    episode: EpisodeRecord | None


class Decisions(Protocol):
    """Reads over decisions, allocations and episodes of the open tenant."""

    async def get(self, decision_id: DecisionId) -> Decision:
        """Read a decision. Raises DecisionNotFound."""

    async def find(self, decision_ids: Collection[DecisionId]) -> dict[DecisionId, Decision]:
        """Read those of these decisions that are recorded."""

    async def first_of_episode(self, policy: PolicyName, episode_id: EpisodeId) -> Decision | None:
        """Read the decision that stands for an episode."""

    async def allocation(self, policy: PolicyName, version: int) -> Allocation:
        """Read one published allocation; rows are kept while a decision refers to them."""

    async def published(self, policy: PolicyName, versions: Collection[int]) -> Sequence[Allocation]:
        """Read those of these allocations that exist."""

    async def replaced_time(self, allocation: Allocation, bucket: str) -> datetime | None:
        """Read when another allocation took its place in a bucket; None while none has.

        The cold allocation is replaced by the bucket's own first one, too.
        """

    async def episode(self, policy: PolicyName, episode_id: EpisodeId) -> EpisodeRecord:
        """Read an episode. Raises EpisodeNotFound."""

    def export(
        self, policy: PolicyName, *, start: datetime | None, end: datetime | None
    ) -> AsyncIterator[LoggedDecision]:
        """Read the decision log in the order of time, with each episode's present verdict."""

    def allocations(self, policy: PolicyName) -> AsyncIterator[Allocation]:
        """Read every published allocation of a policy in order of version."""


class Ledger(Protocol):
    """One tenant's record, open for one transaction."""

    @property
    def tenant(self) -> TenantId:
        """Whose record."""

    @property
    def policies(self) -> Policies:
        """Policies, arms, modes."""

    @property
    def audit(self) -> AuditLog:
        """The hash chain."""

    @property
    def decisions(self) -> Decisions:
        """Decisions, allocations, episodes."""

    @property
    def learning(self) -> Learning:
        """The worker's record."""


class Ledgers(Protocol):
    """Opens ledgers; the only place where a transaction begins and ends."""

    def open(self, tenant: TenantId, *, one_view: bool = False) -> AbstractAsyncContextManager[Ledger]:
        """Open one tenant's record; with `one_view` every read sees the same moment.

        Raises TenantDenied for an unknown tenant, StoreUnavailable without a database.
        """


# The hot path -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvent:
    """Something said about an episode as a whole; `decision` comes of a token and rebuilds a lost row."""

    key: str
    kind: str
    policy: PolicyName
    episode_id: EpisodeId
    source: str
    decision_id: DecisionId | None = None
    served_action: str | None = None
    trajectory: Trajectory | None = None
    end_user: str | None = None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeEvent:
    """One outcome and what it is about: an episode, or a decision where only that is known."""

    outcome: Outcome
    policy: PolicyName | None = None
    episode_id: EpisodeId | None = None
    decision_id: DecisionId | None = None
    served_action: str | None = None
    decision: Decision | None = None


class RowWriter(Protocol):
    """Writes raw rows in group commits."""

    def decision(self, decision: Decision) -> None:
        """Hand a decision over without waiting; dropped and counted when the queue is full (its token rebuilds it)."""

    def decisions(self, tenant: TenantId, decisions: Sequence[Decision]) -> Awaitable[Sequence[str]]:
        """Write and wait for the commit: RECORDED or SUPERSEDED of each; REJECTED where it cannot be stored.

        Raises QueueFull, StoreUnavailable.
        """

    def first_decision(self, decision: Decision) -> Awaitable[bool]:
        """Write the first decision of an episode and wait for the commit; False, and nothing written, where another is.

        Raises QueueFull, StoreUnavailable, InvalidValue for one that cannot be stored.
        """

    def episode_event(self, tenant: TenantId, event: EpisodeEvent) -> Awaitable[str]:
        """Write and wait for the commit: RECORDED, DUPLICATE or CONFLICT. Raises QueueFull, StoreUnavailable."""

    def outcomes(self, tenant: TenantId, events: Sequence[OutcomeEvent]) -> Awaitable[Sequence[str]]:
        """Write and wait for the commit: RECORDED, DUPLICATE, CONFLICT or REJECTED of each.

        Raises QueueFull, StoreUnavailable.
        """


class TokenSigner(Protocol):
    """Signs decisions, so that one call's answer is proof and record for the next."""

    def sign(self, decision: Decision) -> bytes:
        """Make the token of a decision."""

    def read(self, token: bytes, *, tenant: TenantId) -> Decision:
        """Read a decision back (context is None). Raises InvalidToken."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a replica knows of one policy: its configuration, its effective mode, its allocations by bucket.

    Attributes:
        durable: its tenant wants decisions committed before they are answered.
    """

    policy: Policy
    mode: Mode
    allocations: dict[str, Allocation]
    durable: bool = False


class Snapshot(Protocol):
    """The replica's plain in-memory view; reading it does no I/O."""

    def serving(self, tenant: TenantId, policy: PolicyName) -> Serving:
        """Read a policy. Raises TenantDenied, PolicyNotFound."""

    @property
    def stale(self) -> bool:
        """Whether the view is older than its lease."""
