"""One policy over time: shares, lift, regret, cost against quality, and what happened meanwhile on every chart."""

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import policy_service_pb2
from kedge_bandit.adapters.console import happened, reading, wording
from kedge_bandit.adapters.console.curves import Curve, Mark, Point, Spot
from kedge_bandit.adapters.console.standing import FEWEST
from kedge_bandit.adapters.console.visit import Visit

SPANS: Final = {
    "hour": ("1 hour", 1 / 24),
    "day": ("24 hours", 1),
    "week": ("7 days", 7),
    "month": ("30 days", 30),
    "quarter": ("90 days", 90),
}
POINTS: Final = 48
_Z95: Final = 1.959964
MARKED: Final = ("frozen", "unfrozen", "mode_set", "staged", "configured", "served", "reverted")
"""What the verbs end with that are marked on charts, beside everything that a ramp does."""
MOST_MARKS: Final = 26
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What became of some decisions, added up."""

    decisions: int = 0
    episodes: int = 0
    rewards: float = 0.0
    squares: float = 0.0
    vetoes: int = 0
    costed: int = 0
    cost_usd: float = 0.0
    timed: int = 0
    latency_ms: float = 0.0

    def plus(self, tally: Any) -> "Sums":
        """Add a tally of the wire."""
        return Sums(
            decisions=self.decisions + tally.decisions,
            episodes=self.episodes + tally.episodes,
            rewards=self.rewards + tally.reward_sum,
            squares=self.squares + tally.reward_square_sum,
            vetoes=self.vetoes + tally.vetoes,
            costed=self.costed + tally.costed_episodes,
            cost_usd=self.cost_usd + tally.cost_usd,
            timed=self.timed + tally.timed_episodes,
            latency_ms=self.latency_ms + tally.latency_ms,
        )

    @property
    def mean(self) -> float:
        """Mean reward; 0 without an episode."""
        return self.rewards / self.episodes if self.episodes else 0.0

    @property
    def variance_of_mean(self) -> float:
        """Variance of the mean reward, from the rewards' own."""
        if self.episodes < 2:
            return 0.0
        spread = max(0.0, self.squares / self.episodes - self.mean**2) * self.episodes / (self.episodes - 1)
        return spread / self.episodes

    @property
    def cost(self) -> float | None:
        """Mean cost in US dollars, of the episodes whose cost is known."""
        return self.cost_usd / self.costed if self.costed else None

    @property
    def latency(self) -> float | None:
        """Mean latency in milliseconds, likewise."""
        return self.latency_ms / self.timed if self.timed else None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened within the span, by the letter that marks it on every chart."""

    letter: str
    time: datetime
    said: str
    why: str


@dataclass(frozen=True, slots=True)
class Story:
    """A policy over a span of time.

    Attributes:
        history: what GetHistory answered.
        baseline: key of the baseline's action.
        notes: what happened, the oldest first.
    """

    history: Any
    baseline: str
    notes: Sequence[Note]

    def at(self, moment: datetime) -> float:
        """Place a moment from 0 to 1 in the span."""
        start, end = (one.ToDatetime(UTC) for one in (self.history.start_time, self.history.end_time))
        return float((moment - start) / (end - start))

    @property
    def marks(self) -> list[Mark]:
        """Where the notes lie."""
        return [Mark(self.at(note.time), note.letter) for note in self.notes]

    @property
    def actions(self) -> dict[str, Sums]:
        """Sums of each action over the whole span, the most decided first."""
        found: dict[str, Sums] = {}
        for point in self.history.points:
            for tally in point.actions:
                found[tally.action_key] = found.get(tally.action_key, Sums()).plus(tally)
        return dict(sorted(found.items(), key=lambda pair: -pair[1].decisions))

    @property
    def decisions(self) -> int:
        """Decisions of the span."""
        return sum(one.decisions for one in self.actions.values())

    def shares(self, key: str) -> list[Point]:
        """Share of an action among the decisions of each interval."""
        found = []
        for point in self.history.points:
            total = sum(tally.decisions for tally in point.actions)
            own = sum(tally.decisions for tally in point.actions if tally.action_key == key)
            if total:
                found.append(Point(at=self._middle(point), value=own / total))
        return found

    def _middle(self, point: Any) -> float:
        return min(1.0, self.at(point.start_time.ToDatetime(UTC)) + 0.5 / POINTS)

    @property
    def lift(self) -> Curve:
        """Mean reward of learned traffic less the baseline's, of all episodes so far, with 95 % intervals."""
        learned, baseline, found = Sums(), Sums(), []
        for point in self.history.points:
            for tally in point.actions:
                if tally.action_key == self.baseline:
                    baseline = baseline.plus(tally)
                else:
                    learned = learned.plus(tally)
            if min(learned.episodes, baseline.episodes) >= FEWEST:
                half = _Z95 * math.sqrt(learned.variance_of_mean + baseline.variance_of_mean)
                mean = learned.mean - baseline.mean
                found.append(Point(at=self._middle(point), value=mean, lower=mean - half, upper=mean + half))
        return Curve(points=found)

    @property
    def best(self) -> str:
        """The action that earned most over the span, of those with enough episodes; empty where none has."""
        known = [(one.mean, key) for key, one in self.actions.items() if one.episodes >= FEWEST]
        return max(known)[1] if known else ""

    @property
    def regret(self) -> Curve:
        """Reward missed so far against the best action in hindsight, in episodes of reward 1."""
        if not self.best:
            return Curve(points=[])
        best, missed, found = self.actions[self.best].mean, 0.0, []
        for point in self.history.points:
            missed += sum(best * tally.episodes - tally.reward_sum for tally in point.actions)
            found.append(Point(at=self._middle(point), value=missed))
        return Curve(points=found, tone="bad")

    @property
    def costed(self) -> list[tuple[int, str, Sums, bool]]:
        """Number, key and sums of each action whose cost is known; whether none is better at no more cost."""
        known = [
            (number, key, one)
            for number, (key, one) in enumerate(self.actions.items(), 1)
            if one.cost is not None and one.episodes >= FEWEST
        ]
        return [(number, key, one, is_frontier(one, [other for _, _, other in known])) for number, key, one in known]

    @property
    def spots(self) -> list[Spot]:
        """Actions as they are drawn, cost against reward."""
        return [
            Spot(one.cost or 0.0, one.mean, number, "good" if is_best else "quiet")
            for number, _, one, is_best in self.costed
        ]


def is_frontier(one: Sums, others: Sequence[Sums]) -> bool:
    """Say whether no other action earns more without costing more, or costs less without earning less."""
    return not any(
        other.mean >= one.mean
        and (other.cost or 0.0) <= (one.cost or 0.0)
        and (other.mean > one.mean or (other.cost or 0.0) < (one.cost or 0.0))
        for other in others
    )


async def show(visit: Visit) -> Response:
    """Show one policy over time."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    span = visit.asked("span") if visit.asked("span") in SPANS else "week"
    request = policy_service_pb2.GetHistoryRequest(name=visit.policy, points=POINTS)
    request.end_time.FromDatetime(visit.now)
    request.start_time.FromDatetime(visit.now - timedelta(days=SPANS[span][1]))
    standing, history, events = await asyncio.gather(
        reading.standing_of(visit, visit.tenant, visit.policy),
        visit.call(visit.backend.policies.GetHistory, request),
        reading.newest_events(visit, visit.tenant),
    )
    notes = notes_of(events.events, history, visit.policy)
    return visit.show(
        "over_time.html",
        section="policy",
        tab="over_time",
        standing=standing,
        story=Story(history, standing.baseline_key, notes),
        span=span,
        spans=SPANS,
        fewest=FEWEST,
    )


def notes_of(events: Sequence[Any], history: Any, policy: str) -> list[Note]:
    """Put what people, ramps and providers did to a policy within a span into the order of time, the newest kept."""
    start, end = (one.ToDatetime(UTC) for one in (history.start_time, history.end_time))
    found = [(one.change_time.ToDatetime(UTC), "Known change", one.cause) for one in history.changes]
    found += list(_acts(events, policy))
    within = sorted(one for one in found if start <= one[0] <= end)[-MOST_MARKS:]
    return [Note(_LETTERS[i], time, said, why) for i, (time, said, why) in enumerate(within)]


def _acts(events: Sequence[Any], policy: str) -> Iterator[tuple[datetime, str, str]]:
    tenant = policy.split("/policies/")[0]
    for act in happened.acts(event for event in events if _concerns(event, policy, tenant)):
        first = act[0]
        moment = wording.time_of(first.event_time)
        if moment is not None and any(_is_marked(event.verb) for event in act):
            changed = "; ".join(happened.changes(act))
            said = f"{wording.who(first.actor)} {happened.said(first.verb)}" + (f", {changed}" if changed else "")
            yield moment, said, first.because


def _concerns(event: Any, policy: str, tenant: str) -> bool:
    if event.subject in (policy, tenant):
        return True
    named = (wording.facts(event.payload_json) or {}).get("policy")
    return "/proposals/" in event.subject and wording.own_name(str(named or "")) == wording.own_name(policy)


def _is_marked(verb: str) -> bool:
    noun, _, act = verb.partition(".")
    return noun == "ramp" or act in MARKED
