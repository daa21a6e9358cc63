"""Look through a tenant's record: one episode from its decision to its verdicts, and counts over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from kedge_bandit.application.browse_ports import BrowsedLedgers, Tally
from kedge_bandit.application.ports import Clock
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.dossier import Event
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.settlement import Arrival

DEFAULT_SPAN: Final = timedelta(days=7)
LONGEST_SPAN: Final = timedelta(days=90)
DEFAULT_POINTS: Final = 48
MOST_POINTS: Final = 200

Happening: TypeAlias = Decision | Event | Arrival | EvidenceEntry
"""One thing that happened to an episode: it was decided, something was said of it, or it was judged."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """An episode in the order of time.

    Attributes:
        reward: what its newest verdict was computed by, or will be; None where the policy has another one by now.
    """

    happenings: Sequence[tuple[datetime, Happening]]
    reward: RewardSpec | None


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """Read one episode's timeline."""

    ledgers: BrowsedLedgers

    async def __call__(self, tenant: TenantId, policy: PolicyName, episode_id: EpisodeId) -> Timeline:
        """Read it. Raises EpisodeNotFound, PolicyNotFound, TenantDenied."""
        async with self.ledgers.open(tenant, one_view=True) as ledger:
            dossier = (await ledger.browsing.file(policy, episode_id)).dossier
            verdicts = await ledger.browsing.verdicts(policy, episode_id)
            present = (await ledger.policies.get(policy)).spec.reward
            named = [] if dossier.chosen is None else [dossier.chosen.decision_id]
            named += [rival.decision_id for rival in dossier.rivals]
            decisions = await ledger.decisions.find(named)
        found: list[tuple[datetime, Happening]] = [(one.time, one) for one in decisions.values()]
        found += [(event.received_time, event) for event in dossier.events]
        found += [(arrival.received_time, arrival) for arrival in dossier.arrivals]
        found += [(entry.settle_time, entry) for entry in verdicts]
        is_present = not verdicts or verdicts[-1].verdict.spec_version == present.version
        return Timeline(sorted(found, key=_place), present if is_present else None)


def _place(happening: tuple[datetime, Happening]) -> tuple[datetime, int]:
    """Order what has one time: a verdict comes after what it rests on, and of two verdicts the newer one last."""
    time, one = happening
    return time, one.reward_version if isinstance(one, EvidenceEntry) else 0


@dataclass(frozen=True, slots=True)
class History:
    """Counts of a span of time, in intervals of equal width, and what made older evidence worth less meanwhile."""

    start: datetime
    end: datetime
    tallies: Sequence[Tally]
    changes: Sequence[tuple[datetime, str]]

    @property
    def points(self) -> Iterator[tuple[datetime, list[Tally]]]:
        """Put what belongs to one interval together, the oldest first."""
        found: dict[datetime, list[Tally]] = {}
        for tally in self.tallies:
            found.setdefault(tally.start, []).append(tally)
        yield from found.items()


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Read what became of a policy's decisions over time."""

    ledgers: BrowsedLedgers
    clock: Clock

    async def __call__(
        self, tenant: TenantId, policy: PolicyName, *, start: datetime | None, end: datetime | None, points: int
    ) -> History:
        """Read it. Raises PolicyNotFound, TenantDenied, InvalidValue for a span or a number that is none."""
        last = end or self.clock.now()
        first = start or last - DEFAULT_SPAN
        if not timedelta() < last - first <= LONGEST_SPAN:
            raise InvalidValue("start_time", first.isoformat(), f"before end_time, by {LONGEST_SPAN.days} days at most")
        count = points or DEFAULT_POINTS
        if not 2 <= count <= MOST_POINTS:
            raise InvalidValue("points", str(points), f"2 to {MOST_POINTS}, or 0 for {DEFAULT_POINTS}")
        async with self.ledgers.open(tenant, one_view=True) as ledger:
            await ledger.policies.get(policy)
            tallies = await ledger.browsing.tallies(policy, first, last, (last - first) / count)
            changes = await ledger.browsing.changes(policy, first, last)
        return History(first, last, tallies, changes)
