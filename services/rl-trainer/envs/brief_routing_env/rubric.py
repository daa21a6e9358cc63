"""What a step is worth, and the grade that an episode ends with, by the published rules and by ours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from brief_routing_env import memos
from brief_routing_env.orders import CATEGORIES
from brief_routing_env.reports import Report, Value
from brief_routing_env.retrieval import Index, index_of
from brief_routing_env.tasks import Expert
from brief_routing_env.world import Event, World

LEAST, MOST = 0.001, 0.999
"""Grades stay strictly inside (0, 1)."""

STEP: Final = -0.02
STRICT: Final[Mapping[Event, float]] = MappingProxyType(
    {
        Event.FIRST: 0.10,
        Event.EXTRA: 0.02,
        Event.LACKING: 0.0,
        Event.RENEWED: 0.0,
        Event.REPEATED: -0.05,
        Event.REPEATED_AGAIN: -0.10,
        Event.ANSWERED: 0.02,
        Event.ANSWERED_BESIDE: 0.0,
        Event.SUMMARIZED: 0.02,
        Event.EARLY: -0.05,
        Event.SUMMARIZED_AGAIN: 0.0,
        Event.SUBMITTED: 0.0,
        Event.IDLE: -0.01,
        Event.REFUSED: -0.03,
    }
)
LENIENT: Final[Mapping[Event, float]] = MappingProxyType(
    {
        **STRICT,
        Event.REPEATED: -0.03,
        Event.REPEATED_AGAIN: -0.03,
        Event.SUMMARIZED: 0.04,
        Event.EARLY: -0.02,
    }
)
"""With the net on: the older shaping, its bonuses paid once as everywhere."""

METRICS: Final = (
    "data_quality_score", "total_revenue", "top_category", "projection_next_quarter", "variance_pct",
    "break_even_units",
)  # fmt: skip
COMPAT_METRICS: Final = len(METRICS) + 1
"""The published grader also asks the brief for the memo's score, which is never in it."""

RECOMMENDED: Final = 3
TOPICS: Final = ("projection", "variance", "break-even")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


def paid(event: Event, bonuses: frozenset[Event | str], key: Event | str, *, strict: bool) -> float:
    """Give what an event pays; a bonus under a key that was paid before is none."""
    worth = (STRICT if strict else LENIENT)[event]
    return 0.0 if worth > 0 and key in bonuses else worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A grade's components, each 0..1.

    Args:
        grounding: Share of experts with a citation that resolves.
        path: 1 for the shortest route, 0 for the longest and for what is incomplete (our rules).
    """

    coverage: float
    metrics: float
    hr: float
    strategy: float
    grounding: float
    path: float = 0.0


def total(parts: Parts, *, compat: bool, rag: bool, needs_strategy: bool) -> float:
    """Weigh the components, to four decimals.

    What does not apply gives its weight to the metrics: strategy where it is not required, grounding without retrieval.

    >>> every = Parts(coverage=1, metrics=1, hr=1, strategy=1, grounding=1, path=1)
    >>> total(every, compat=False, rag=True, needs_strategy=True)
    0.999
    """
    shares = (
        (0.20, parts.coverage),
        (0.15, parts.hr),
        (0.15 if needs_strategy else 0.0, parts.strategy),
        (0.10 if rag else 0.0, parts.grounding),
        (0.0 if compat else 0.10, parts.path),
    )
    weighed = sum(weight * part for weight, part in shares)
    weighed += (1.0 - sum(weight for weight, _ in shares)) * parts.metrics
    return min(MOST, max(LEAST, round(weighed, 4)))


def grade(world: World) -> float:
    """Grade an episode as it stands; the same world gives the same number anywhere."""
    case = world.case
    needs_strategy = Expert.STRATEGY in case.task.required
    return total(components(world), compat=case.compat, rag=case.switches.rag, needs_strategy=needs_strategy)


def components(world: World) -> Parts:
    """Judge what was handed in, by the profile's rules."""
    case, reports, brief = world.case, world.reports, world.brief
    required = case.task.required
    covered = sum(expert in reports for expert in required) / len(required)
    metrics = brief["metrics"] if brief else {}
    lines = brief["recommendations"] if brief else []
    matched = sum(matches(name, metrics.get(name), case.truth[name], compat=case.compat) for name in METRICS)
    hr = reports.get(Expert.HR)
    if case.compat:
        stance = recommended(lines, metrics, whole_tokens=False)
        cited = list(reports.values())
        return Parts(
            coverage=covered,
            metrics=matched / COMPAT_METRICS,
            hr=LEAST if hr is None or hr.memo_score is None else hr.memo_score,
            strategy=min(MOST, max(LEAST, stance)),
            grounding=_grounded(cited, case.switches.tenant) / max(1, len(cited)),
        )
    wanted = [reports[expert] for expert in required if expert in reports]
    return Parts(
        coverage=covered,
        metrics=matched / len(METRICS),
        hr=memos.score(hr.memo or "", case.task, reports) if hr else 0.0,
        strategy=recommended(lines, metrics, whole_tokens=True),
        grounding=_grounded(wanted, case.switches.tenant) / len(required),
        path=path(world),
    )


def _grounded(reports: list[Report], tenant: str) -> int:
    """Count the reports with a citation that resolves in the tenant's own memory."""
    return sum(resolves(report, index_of(tenant)) for report in reports)


def resolves(report: Report, index: Index) -> bool:
    """Say whether any of a report's citations of memory is there."""
    return any(index.resolve(citation) is not None for citation in report.memory_citations)


def matches(name: str, said: Value | None, true: Value, *, compat: bool) -> bool:
    """Compare what a brief says with what is so.

    The published rule allows .5 or 2 %. Ours allows 1 %, or .01 of a ratio, a percentage being one.

    >>> matches("total_revenue", 101.5, 100.0, compat=True), matches("total_revenue", 101.5, 100.0, compat=False)
    (True, False)
    """
    if said is None or isinstance(true, str) or isinstance(said, str):
        return said == true
    if compat:
        return abs(said - true) <= max(0.5, 0.02 * abs(true))
    ratios = {"data_quality_score": 0.01, "variance_pct": 1.0}
    return abs(said - true) <= ratios.get(name, 0.01 * abs(true)) + 1e-9


def recommended(lines: list[str], metrics: Mapping[str, Value], *, whole_tokens: bool) -> float:
    """Score recommendations: three of them, each on a number of the brief, naming categories and a topic."""
    if not lines:
        return 0.0
    values = {str(value) for value in metrics.values()}
    if whole_tokens:
        leaning = [bool(values & set(_NUMBER.findall(line))) for line in lines[:RECOMMENDED]]
    else:
        leaning = [any(value in line for value in values) for line in lines[:RECOMMENDED]]
    text = " ".join(lines)
    return 0.25 * sum(
        (
            len(lines) == RECOMMENDED,
            all(leaning),
            sum(category in text for category in CATEGORIES) >= 2,
            any(topic in text.lower() for topic in TOPICS),
        )
    )


def path(world: World) -> float:
    """Rate the route: nothing unless everybody reported and a summary was made of the last news."""
    case = world.case
    if not world.complete or world.summarized_at <= world.reported_at:
        return 0.0
    wasted = world.steps - case.shortest
    return min(1.0, max(0.0, 1.0 - wasted / (case.task.max_steps - case.shortest)))
