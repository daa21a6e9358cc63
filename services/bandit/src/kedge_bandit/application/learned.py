"""Hold the worker's record while a pass runs: what is kept of episodes, cells, actions, buckets and policies."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from kedge_bandit.domain.cells import Cells
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.dossier import Dossier
from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName
from kedge_bandit.domain.known_change import CellChange
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.self_check import SelfCheck
from kedge_bandit.domain.settlement import Arrival
from kedge_bandit.domain.usage import Usage


class EpisodeKey(NamedTuple):
    """Name an episode within its tenant."""

    policy: PolicyName
    episode_id: EpisodeId


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """An outcome; `key` is None while only its decision is known."""

    key: EpisodeKey | None
    decision_id: DecisionId | None
    arrival: Arrival
    served_action: str | None


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
        settled_version: whose reward spec and features the evidence of the last four half-lives follows, or will.
        features_version: since which the features are as they are.
        resettle_after: open time and id of the episode up to which it follows them; None: all of it does.
        learning_held: why; None when it is not.
        safety_window: last 1,000 learnable episodes, "1" without a safety verdict, else "0".
        closed: why the baseline alone is published, BUDGET or CAP; None: it is not.
        usage: what counts against the caps, as the windows stood when something was counted last; None without caps.
        capped_until: when enough will have left the windows if nothing comes; None where no cap is reached.
    """

    allocation_version: int = 0
    policy_version: int = 0
    half_life: timedelta = timedelta(0)
    settled_version: int = 0
    features_version: int = 0
    resettle_after: tuple[datetime, str] | None = None
    self_check: SelfCheck = field(default_factory=SelfCheck.start)
    learning_held: str | None = None
    safety_window: str = ""
    closed: Reason | None = None
    usage: Usage | None = None
    capped_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """What a person decided about the evidence quarantined until then."""

    release_id: int
    choice: str
    time: datetime
    done: bool


@dataclass(slots=True, kw_only=True)
class LearnedRecord:
    """Everything that is kept of what one policy has learned.

    Attributes:
        changes: known changes and successions, oldest first.
        versions: what was seen, as (arm id of a route, provider's model id) and (`known_changes.JUDGE`, version).
    """

    cells: Cells = field(default_factory=Cells)
    actions: dict[str, ActionRecord] = field(default_factory=dict)
    buckets: dict[str, BucketRecord] = field(default_factory=dict)
    policy: PolicyRecord = field(default_factory=PolicyRecord)
    releases: tuple[Release, ...] = ()
    changes: tuple[CellChange, ...] = ()
    versions: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Changes:
    """What one pass writes.

    Attributes:
        high: new watermark.
        restored_time: the cluster is another one; decisions until then were counted by the self-check.
    """

    high: int
    evidence_sequence: int
    restored_time: datetime | None = None
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
    cell_changes: list[tuple[PolicyName, CellChange]] = field(default_factory=list)
    versions: list[tuple[PolicyName, str, str]] = field(default_factory=list)
    unmatched_taken: int = 0

    def count(self, policy: PolicyName, name: str, change: int = 1) -> None:
        """Change a count of a policy."""
        self.counts[policy, name] = self.counts.get((policy, name), 0) + change

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write beyond the watermark."""
        return not any(
            (self.files, self.entries, self.unmatched, self.cells, self.actions, self.buckets, self.policies)
        ) and not any(
            (self.allocations, self.counts, self.released, self.cell_changes, self.versions, self.restored_time)
        )
