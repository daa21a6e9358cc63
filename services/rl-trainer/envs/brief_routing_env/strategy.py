"""Strategy: a stance on each name of the watchlist, each resting on a number that another desk reported."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from brief_routing_env.reports import KEYWORDS, Desk, Report, Value, cited, missing
from brief_routing_env.tasks import Expert

WATCHLIST: Final = ("NVDA", "AAPL", "JPM")
TILTING: Final = ("electronic", "phone", "tablet")
THIN: Final = 0.95
RICH: Final = 1.02


class Stance(NamedTuple):
    """What to do, how to stand at present, and what comes later."""

    action: str
    present: str
    future: str


STRESSED: Final = (Stance("reduce", "trim", "buy"), Stance("hold", "hold", "buy"), Stance("add", "buy", "hold"))
TILTED: Final = (Stance("buy_more", "hold", "buy"), Stance("add", "hold", "add"))
EVEN: Final = (Stance("add", "hold", "add"), Stance("buy_more", "hold", "buy"))


def stances(metrics: Mapping[str, Value], plan: float) -> tuple[Stance, Stance, Stance]:
    """Choose the stances for NVDA, AAPL and JPM.

    Args:
        metrics: Of analyst and finance together.
        plan: Of half a year; a quarter's projection is held against half of it.
    """
    projection, quarter = float(metrics["projection_next_quarter"]), plan / 2
    if float(metrics["variance_pct"]) < 0 or projection < THIN * quarter:
        return STRESSED
    top = str(metrics["top_category"]).lower()
    first, second = TILTED if any(word in top for word in TILTING) else EVEN
    return first, second, Stance("hold", "hold", "sell" if projection > RICH * quarter else "hold")


def report(desk: Desk, analyst: Report | None, finance: Report | None) -> Report:
    """Report the stances; a line whose number nobody reported is left out."""
    if finance is not None and "projection_next_quarter" not in finance.metrics:
        finance = None
    chunks = desk.recall(KEYWORDS[Expert.STRATEGY])
    citations, snippets = cited(chunks)
    given = {Expert.ANALYST: analyst, Expert.FINANCE: finance}
    issues = missing(*(expert for expert, one in given.items() if one is None))
    market, closes = _market() if desk.index is not None else ((), ())
    title = "Strategy"
    if analyst is None or finance is None:
        return Report(
            expert=Expert.STRATEGY, title=title, summary="There is no stance without the numbers of both desks.",
            bullets=_lines_of(analyst), issues=issues, memory_citations=citations, memory_snippets=snippets,
        )  # fmt: skip
    metrics = {**analyst.metrics, **finance.metrics}
    chosen = stances(metrics, desk.task.plan)
    second = analyst.citations[1]
    grounds = (
        f"revenue stands at {metrics['total_revenue']}, led by {metrics['top_category']}",
        f"the projection is {metrics['projection_next_quarter']} with {second} in second place",
        f"the variance is {metrics['variance_pct']} % and break-even takes {metrics['break_even_units']} units",
    )
    lines = tuple(
        f"{name}: {stance.action}. Present: {stance.present}, since {ground}. Future: {stance.future}, as the "
        "projection bears out."
        for name, stance, ground in zip(WATCHLIST, chosen, grounds, strict=True)
    )
    return Report(
        expert=Expert.STRATEGY,
        title=title,
        summary=f"Stance: {', '.join(f'{n} {s.action}' for n, s in zip(WATCHLIST, chosen, strict=True))}.",
        metrics=_tokens(chosen),
        bullets=lines,
        issues=issues,
        citations=(*analyst.citations, *market),
        memory_citations=citations,
        memory_snippets=(*snippets, *closes),
    )


def _tokens(chosen: tuple[Stance, Stance, Stance]) -> dict[str, Value]:
    tokens: dict[str, Value] = {"recommendation_count": len(WATCHLIST), "watchlist": ", ".join(WATCHLIST)}
    for name, stance in zip(WATCHLIST, chosen, strict=True):
        tokens |= {f"{name.lower()}_{part}": value for part, value in stance._asdict().items()}
    return tokens


def _lines_of(analyst: Report | None) -> tuple[str, ...]:
    if analyst is None:
        return ()
    revenue, top = analyst.metrics["total_revenue"], analyst.metrics["top_category"]
    return (f"{WATCHLIST[0]}: hold. Present: hold, since revenue stands at {revenue}, led by {top}.",)


@cache
def _market() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give citations and the last closes of the watchlist; made up, and the same for everybody."""
    text = (files("brief_routing_env") / "data" / "market.json").read_text(encoding="utf-8")
    closes: dict[str, list[float]] = json.loads(text)
    names = tuple(f"stooq:{name.lower()}.us" for name in WATCHLIST)
    return names, tuple(f"{name} closed at {', '.join(map(str, closes[name]))}" for name in WATCHLIST)
