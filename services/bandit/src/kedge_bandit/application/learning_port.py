"""What the learn flow needs of the store: raw rows in, the worker's record in and out, in the open transaction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.learned import Changes, EpisodeFile, EpisodeKey, LearnedRecord, OutcomeRow
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.dossier import Chosen, Event
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.evidence_snapshot import Sealed
from kedge_bandit.domain.identifiers import DecisionId, PolicyName
from kedge_bandit.domain.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPoint:
    """Where folding stands, and how far it may go now.

    Attributes:
        low, high: raw rows written by transactions low ≤ x < high are new and final.
        now: the database's clock.
        has_unmatched: outcomes wait for their decision.
        audit_sequence: head of the audit chain.
        has_work: something is new, due or asks for a look; or new rows were not read along.
        counted_before: decisions made until then were counted by the self-check before a restore; None: no restore.
        is_restored: the record came into another cluster since the last pass, where transaction numbers start anew.
        is_blocked: rows are there that a transaction which still runs keeps from being final.
        modes: tells the changes of modes that are visible now from others; empty where nobody remembers them.
    """

    low: int
    high: int
    evidence_sequence: int
    now: datetime
    has_unmatched: bool
    audit_sequence: int
    has_work: bool
    counted_before: datetime | None = None
    is_restored: bool = False
    is_blocked: bool = False
    modes: str = ""

    def is_new(self, time: datetime) -> bool:
        """Say whether what happened then was not counted yet: after a restore all rows are read a second time."""
        return not self.is_restored and (self.counted_before is None or time > self.counted_before)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRows:
    """Raw rows of whole transactions, no more than about a batch; after a restore every row beyond the numbering.

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


@dataclass(frozen=True, slots=True)
class PolicyHead:
    """A policy's newest version, and whether it wants a look though nothing arrived for it."""

    name: PolicyName
    version: int
    wants_attention: bool


class Learning(Protocol):
    """The worker's record of the open tenant."""

    async def lock(self, *, wait: bool = False, limit: int | None = None) -> FoldPoint | None:
        """Become the one writer until the transaction ends; None where another worker is, unless told to wait.

        With a limit, what a pass over about so many new rows needs is read along.
        """

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

    async def settled_files(
        self, policy: PolicyName, *, after: tuple[datetime, str], limit: int
    ) -> Sequence[EpisodeFile]:
        """Read settled episodes of a policy in order of open time and id, those after a place."""

    async def contexts(self, decisions: Collection[DecisionId]) -> dict[DecisionId, Context]:
        """Read the contexts that decisions were made in, where they were stored."""

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

    async def snapshot(self, policy: PolicyName) -> Sealed | None:
        """Read what the beginning of a policy's evidence log was folded into; None where all of it is there."""

    async def sample(self, policy: PolicyName, *, size: int) -> Sequence[DecisionId]:
        """Pick decisions of a policy at random."""

    async def unaccounted(self, policy: PolicyName) -> int:
        """Count logged episodes that are not in exactly one state, by the kept counts and by the raw rows."""

    async def usage(self, policy: PolicyName, baseline: str, *, before: int, now: datetime) -> Usage:
        """Count from the raw rows of transactions `before` what was served beside the baseline in the windows at `now`.

        Of the cost it reads the events of episodes whose decision the worker has matched.
        """

    async def clear_hold(self, policy: PolicyName) -> None:
        """Let learning go on after an alarm of the self-check, which starts anew."""

    async def save(self, changes: Changes) -> dict[tuple[PolicyName, str], int]:
        """Write what a pass changed and move the watermark; NOTIFY at commit where allocations changed.

        Returns:
            The counts that changed, as they are now.
        """
