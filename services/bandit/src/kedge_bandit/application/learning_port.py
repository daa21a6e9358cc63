"""What the learn flow needs of the store: raw rows in, the worker's record in and out, in the open transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from kedge_bandit.domain.dossier import Chosen, Dossier, Event
from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.self_check import SelfCheck
from kedge_bandit.domain.settlement import Arrival


class EpisodeKey(NamedTuple):
    """Name an episode within its tenant."""

    policy: PolicyName
    episode_id: EpisodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPoint:
    """Where folding stands, and how far it may go now.

    Attributes:
        low, high: raw rows written by transactions low ≤ x < high are new and final.
        now: the database's clock.
        has_unmatched: outcomes wait for their decision.
        audit_sequence: head of the audit chain.
        counted_before: decisions made until then were counted by the self-check before a restore; None: no restore.
        restored: the database was restored into another cluster since the last pass.
    """

    low: int
    high: int
    evidence_sequence: int
    now: datetime
    has_unmatched: bool
    audit_sequence: int
    counted_before: datetime | None = None
    restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision as it was written."""

    key: EpisodeKey
    chosen: Chosen
    available: tuple[str, ...] | None
    allocation_version: int
    is_randomised: bool
    superseded: bool


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something said about an episode as a whole."""

    key: EpisodeKey
    event: Event


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """An outcome; `key` is None while only its decision is known."""

    key: EpisodeKey | None
    decision_id: DecisionId | None
    arrival: Arrival
    served_action: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRows:
    """Raw rows of whole transactions, no more than about a batch.

    Attributes:
        high: rows below it are taken.
        is_truncated: more rows wait.
        imported: rows of `kedge import`, which are never learned from, by policy.
        unreadable: rows that could not be read; they are counted and skipped.
        oldest_time: when the oldest of the rows was written.
    """

    decisions: Sequence[DecisionRow]
    events: Sequence[EventRow]
    outcomes: Sequence[OutcomeRow]
    high: int
    is_truncated: bool
    imported: dict[PolicyName, int]
    unreadable: int
    oldest_time: datetime | None


@dataclass(slots=True, kw_only=True)
class EpisodeFile:
    """An episode as the worker keeps it.

    Attributes:
        open_time: when it was first heard of; part of its identity in the store.
        logged: whether it is counted under its state.
        due_time: when it settles by itself; None where nothing is awaited.
        quarantined: facts arrived while the policy stood still, and nobody has said yet what becomes of them.
        evidence_sequence: of its newest evidence; 0 where there is none.
    """

    key: EpisodeKey
    open_time: datetime
    state: EpisodeState = EpisodeState.PENDING
    logged: bool = False
    dossier: Dossier = field(default_factory=Dossier)
    due_time: datetime | None = None
    quarantined: bool = False
    reward_version: int = 0
    evidence_sequence: int = 0


@dataclass(slots=True, kw_only=True)
class ActionRecord:
    """One action over all buckets.

    Attributes:
        vetoes: discounted; n counts episodes, s counts vetoes.
        episodes, reward_sum: undiscounted, of one configuration.
        over_cap: P(veto rate > cap) when last computed.
    """

    vetoes: Evidence
    configuration_version: int
    episodes: int = 0
    reward_sum: float = 0.0
    ineligible: bool = False
    over_cap: float = 0.0


@dataclass(slots=True, kw_only=True)
class BucketRecord:
    """Newest allocation of a bucket.

    Attributes:
        n: discounted evidence of the bucket when it was made.
        fresh: evidence rows folded since.
    """

    allocation_version: int = 0
    publish_time: datetime | None = None
    n: float = 0.0
    fresh: float = 0.0


@dataclass(slots=True, kw_only=True)
class PolicyRecord:
    """What is kept of a policy as a whole.

    Attributes:
        allocation_version: newest one given.
        policy_version: configuration that every newest allocation was made for; 0: none yet.
        half_life: that the sums are discounted with; zero: there are none yet.
        learning_held: why; None when it is not.
        safety_window: last 1,000 learnable episodes, "1" without a safety verdict, else "0".
    """

    allocation_version: int = 0
    policy_version: int = 0
    half_life: timedelta = timedelta(0)
    self_check: SelfCheck = field(default_factory=SelfCheck.start)
    learning_held: str | None = None
    safety_window: str = ""
    budget_spent: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """What a person decided about the evidence quarantined until then."""

    release_id: int
    choice: str
    time: datetime
    done: bool


@dataclass(slots=True, kw_only=True)
class LearnedRecord:
    """Everything that is kept of what one policy has learned."""

    cells: dict[tuple[str, str], Evidence] = field(default_factory=dict)
    actions: dict[str, ActionRecord] = field(default_factory=dict)
    buckets: dict[str, BucketRecord] = field(default_factory=dict)
    policy: PolicyRecord = field(default_factory=PolicyRecord)
    releases: tuple[Release, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyHead:
    """A policy's newest version, and whether it wants a look though nothing arrived for it."""

    name: PolicyName
    version: int
    wants_attention: bool


@dataclass(slots=True, kw_only=True)
class Changes:
    """What one pass writes."""

    high: int
    evidence_sequence: int
    files: list[EpisodeFile] = field(default_factory=list)
    entries: list[EvidenceEntry] = field(default_factory=list)
    unmatched: list[OutcomeRow] = field(default_factory=list)
    cells: list[tuple[PolicyName, str, str, Evidence]] = field(default_factory=list)
    actions: list[tuple[PolicyName, str, ActionRecord]] = field(default_factory=list)
    buckets: list[tuple[PolicyName, str, BucketRecord]] = field(default_factory=list)
    policies: list[tuple[PolicyName, PolicyRecord]] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    counts: dict[tuple[PolicyName, str], int] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    unmatched_taken: int = 0

    def count(self, policy: PolicyName, name: str, change: int = 1) -> None:
        """Change a count of a policy."""
        self.counts[policy, name] = self.counts.get((policy, name), 0) + change


class Learning(Protocol):
    """The worker's record of the open tenant."""

    async def lock(self, *, wait: bool = False) -> FoldPoint | None:
        """Become the one writer until the transaction ends; None where another worker is, unless told to wait."""

    async def fresh_rows(self, point: FoldPoint, *, limit: int) -> FreshRows:
        """Read new raw rows, about `limit` of each table at most."""

    async def heads(self) -> Sequence[PolicyHead]:
        """Read every policy's newest version."""

    async def learned(self, policies: Collection[PolicyName]) -> dict[PolicyName, LearnedRecord]:
        """Read what is kept of these policies; each has an entry."""

    async def files(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, EpisodeFile]:
        """Read the episodes that exist."""

    async def due_files(self, now: datetime, *, limit: int) -> Sequence[EpisodeFile]:
        """Read pending episodes that are due."""

    async def quarantined_files(self, policy: PolicyName, *, limit: int) -> Sequence[EpisodeFile]:
        """Read quarantined episodes of a policy."""

    async def chosen(self, keys: Collection[EpisodeKey]) -> dict[EpisodeKey, Chosen]:
        """Read the decisions that stand for these episodes, where they are known."""

    async def episodes_of(self, decisions: Collection[DecisionId]) -> dict[DecisionId, EpisodeKey]:
        """Read which episodes decisions belong to, where they are known."""

    async def take_unmatched(self, decisions: Collection[DecisionId]) -> Sequence[OutcomeRow]:
        """Take the outcomes that waited for these decisions out of the waiting room."""

    async def entries(self, sequences: Collection[int]) -> dict[int, EvidenceEntry]:
        """Read rows of the evidence log."""

    async def evidence_log(self, policy: PolicyName, *, upto: int | None = None) -> EvidenceLog:
        """Read the evidence log of a policy, up to a sequence."""

    async def sample(self, policy: PolicyName, *, size: int) -> Sequence[DecisionId]:
        """Pick decisions of a policy at random."""

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state, by the kept counts and by the raw rows."""

    async def clear_hold(self, policy: PolicyName) -> None:
        """Let learning go on after an alarm of the self-check, which starts anew."""

    async def save(self, changes: Changes) -> dict[tuple[PolicyName, str], int]:
        """Write what a pass changed and move the watermark; NOTIFY at commit where allocations changed.

        Returns:
            The counts that changed, as they are now.
        """
