"""What taking proposals through the gate to a person needs from the outside."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.administration_ports import GovernedLedger
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.candidate import ProposalKind
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import Proposal, ProposalId
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.rescore import Judged


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which proposals to list; empty: whatever they are.

    Attributes:
        approvable_by: only those that await approval and that this person did not propose.
    """

    policy: PolicyName | None = None
    states: frozenset[ProposalState] = frozenset()
    kinds: frozenset[ProposalKind] = frozenset()
    approvable_by: Person | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    """What somebody said about a proposal."""

    author: str
    text: str
    time: datetime


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One step of a proposal's way: the state after it, who took it, why and when."""

    state: ProposalState
    actor: str
    because: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Window:
    """A time [start, end) in which nothing of a policy starts to serve; no policy: nothing of the tenant."""

    policy: PolicyName | None
    start: datetime
    end: datetime
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One case's scores, in [0, 1], as a platform's own harness reported them.

    Attributes:
        candidate_score, incumbent_score: None where there is none, and then nothing can be concluded.
        adversarial: zero tolerance, and counted apart.
        slice: under which the verdict reports it; empty: none.
    """

    case_id: str
    candidate_score: float | None
    incumbent_score: float | None
    candidate_vetoed: bool
    adversarial: bool = False
    slice: str = ""


class Proposals(Protocol):
    """The proposals of the open tenant. Each change goes in with its audit event."""

    async def hold(self, policy: PolicyName) -> None:
        """Let no other change of a policy come between until the transaction ends."""

    async def get(self, proposal: ProposalId) -> Proposal:
        """Read a proposal. Raises ProposalNotFound."""

    async def list(self, wanted: Wanted, *, before: int | None, limit: int) -> Sequence[tuple[int, Proposal]]:
        """Read proposals newest step first, each with the audit sequence of its newest step."""

    async def stepped(self, *, after: int, limit: int) -> Sequence[tuple[int, Proposal]]:
        """Read proposals whose newest step came after a sequence of the audit chain, oldest first."""

    async def put(self, proposal: Proposal, event: AuditEvent) -> None:
        """Store a proposal's next version with its event. Raises ProposalChanged."""

    async def same_content(self, proposal: Proposal) -> Sequence[Proposal]:
        """Read the proposals to the same policy that have the same content, whatever became of them."""

    async def in_state(self, policy: PolicyName, states: frozenset[ProposalState]) -> Sequence[Proposal]:
        """Read a policy's proposals in some states."""

    async def allocations(self, policy: PolicyName, *, limit: int) -> Sequence[Allocation]:
        """Read the newest allocations of buckets, that of buckets without one of their own first."""

    async def judged(self, policy: PolicyName) -> Sequence[Judged]:
        """Read how the episodes decided in the last days were judged, the newest first where they are too many."""

    async def steps(self, proposal: ProposalId) -> Sequence[StepTaken]:
        """Read a proposal's way, oldest first."""

    async def raise_objection(self, proposal: ProposalId, event: AuditEvent) -> None:
        """Say that a rejection is on its way; at commit no approval comes through any more."""

    async def objection(self, proposal: ProposalId) -> str:
        """Name who said so; empty: nobody. Sees what was committed a moment ago."""

    async def holdout_version(self, policy: PolicyName) -> str:
        """Read the version of the holdout in force; empty: there is none."""

    async def put_holdout_version(self, policy: PolicyName, version: str, at: datetime) -> None:
        """State the version of the holdout in force, as the gate does after every import and rotation."""


class ProposalNotes(Protocol):
    """What is said and reported about proposals, and when none may start to serve."""

    async def comment(self, proposal: ProposalId, comment: Comment) -> None:
        """Add a comment."""

    async def comments(self, proposal: ProposalId) -> Sequence[Comment]:
        """Read comments, oldest first."""

    async def put_evaluation(
        self, proposal: ProposalId, scores: Sequence[Reported], *, actor: str, at: datetime
    ) -> str:
        """Store a report whole; gives its hash."""

    async def evaluation(self, proposal: ProposalId, scores_hash: str) -> Sequence[Reported]:
        """Read the report of a hash; none where there is none, or where what is stored has another hash."""

    async def reporter(self, proposal: ProposalId, scores_hash: str) -> str:
        """Say who sent the report of a hash first, as the audit log names them; empty where there is none."""

    async def put_windows(self, windows: Sequence[Window], event: AuditEvent) -> None:
        """Replace all windows."""

    async def windows(self) -> Sequence[Window]:
        """Read all windows, earliest first."""

    async def prefer(self, key: str, facts: Mapping[str, object]) -> bool:
        """Record a preference once; False when it was recorded before. Raises IdempotencyConflict."""


class ProposingLedger(GovernedLedger, Protocol):
    """One tenant's record with its proposals, open for one transaction."""

    @property
    def tenant(self) -> TenantId:
        """Whose record."""

    @property
    def proposals(self) -> Proposals:
        """Proposals."""

    @property
    def notes(self) -> ProposalNotes:
        """Comments, reports, windows."""


class ProposingLedgers(Protocol):
    """Opens ledgers with proposals."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[ProposingLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""
