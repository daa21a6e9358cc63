"""What looking through a tenant's record needs from the outside: pages of it, and one episode in full."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from kedge_bandit.application.learned import EpisodeFile
from kedge_bandit.application.ports import Decisions, EpisodeRecord, Policies
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId

LOOKED_AT: Final = 20_000
"""Rows that one page looks at, at most: a rare wish must not read a whole log in one call."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of what was asked for, and where the next page begins; empty at the end."""

    found: Sequence[T]
    next_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSearch:
    """Which decisions of a policy are wanted; an empty wish is none.

    Attributes:
        end: only those before it.
        token: where an earlier page ended.
    """

    policy: PolicyName
    episode_id: str = ""
    action: str = ""
    bucket: str = ""
    reason: Reason | None = None
    end: datetime | None = None
    size: int = 100
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSearch:
    """Which episodes of a policy are wanted; `state` empty: in any."""

    policy: PolicyName
    state: str = ""
    end: datetime | None = None
    size: int = 100
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of one action's decisions within an interval that begins at `start`.

    Attributes:
        decisions: that stand for an episode.
        episodes: learned from, `vetoes` among them; sums of their rewards, vetoes counted 0.
        costed, timed: episodes whose cost or latency is known.
    """

    start: datetime
    action: str
    decisions: int
    episodes: int
    reward_sum: float
    reward_square_sum: float
    vetoes: int
    costed: int
    cost_usd: float
    timed: int
    latency_ms: float


class Browsing(Protocol):
    """Reads over the open tenant's record for people who look for something."""

    async def decisions(self, search: DecisionSearch) -> Page[Decision]:
        """Read a page of decisions, newest first. Raises InvalidName for a token that is none."""

    async def episodes(self, search: EpisodeSearch) -> Page[EpisodeRecord]:
        """Read a page of episodes, newest first. Raises InvalidName for a token that is none."""

    async def file(self, policy: PolicyName, episode_id: EpisodeId) -> EpisodeFile:
        """Read everything that was said about an episode. Raises EpisodeNotFound."""

    async def verdicts(self, policy: PolicyName, episode_id: EpisodeId) -> Sequence[EvidenceEntry]:
        """Read every verdict of an episode, the first one first."""

    async def tallies(self, policy: PolicyName, start: datetime, end: datetime, width: timedelta) -> Sequence[Tally]:
        """Count what was decided from `start` until `end`, in intervals, the oldest first."""

    async def changes(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[tuple[datetime, str]]:
        """Read when older evidence came to be worth less, and why, the oldest first."""


class BrowsedLedger(Protocol):
    """One tenant's record as those see it who look for something in it."""

    @property
    def browsing(self) -> Browsing:
        """Pages."""

    @property
    def decisions(self) -> Decisions:
        """Single decisions and episodes."""

    @property
    def policies(self) -> Policies:
        """Policies, for what they were judged by."""


class BrowsedLedgers(Protocol):
    """Opens ledgers for looking."""

    def open(self, tenant: TenantId, *, one_view: bool = False) -> AbstractAsyncContextManager[BrowsedLedger]:
        """Open one tenant's record. Raises TenantDenied, StoreUnavailable."""
