"""Finance: projects the next quarter from the analyst's books, compares with plan, finds the break-even."""

from dataclasses import dataclass
from typing import Final

from brief_routing_env.ledger import Ledger, straight_line, trailing
from brief_routing_env.reports import KEYWORDS, Desk, Report, Value, cited, missing
from brief_routing_env.retrieval import Rules
from brief_routing_env.tasks import Expert, Task

MARGIN_STEP: Final = 0.10
MONTH_NAMES: Final = ("2025-04", "2025-05", "2025-06")
DEFAULT_ON_PLAN: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Projection and variance, in money but for `variance_pct`."""

    projection: float
    low: float
    high: float
    variance_abs: float
    variance_pct: float
    flag: str


def break_even(task: Task, margin_change: float = 0.0) -> float:
    """Units that pay the fixed cost, when the margin changes by a share; 0 without a margin.

    >>> from brief_routing_env.tasks import TASKS
    >>> break_even(TASKS["hard_brief"]), break_even(TASKS["hard_brief"], -0.10)
    (16.67, 18.52)
    """
    margin = task.unit_margin * (1.0 + margin_change)
    return round(task.fixed_cost / margin, 2) if margin > 0 else 0.0


def look_ahead(task: Task, ledger: Ledger, rules: Rules) -> Outlook:
    """Project and compare: by the rules where there are any, else by a straight line and its residuals."""
    if rules.months:
        projection = trailing(ledger.by_month, rules.months)
        spread = round(projection * (rules.band or 0.0), 2)
    else:
        projection, spread = straight_line(ledger.by_month)
    gap = ledger.revenue - task.plan
    percent = round(100.0 * gap / task.plan, 2)
    return Outlook(
        projection=projection,
        low=round(projection - spread, 2),
        high=round(projection + spread, 2),
        variance_abs=round(gap, 2),
        variance_pct=percent,
        flag=_flag(percent, rules),
    )


def _flag(percent: float, rules: Rules) -> str:
    if rules.months is None:
        return "ahead" if percent >= 0 else "behind"
    edge = DEFAULT_ON_PLAN if rules.on_plan is None else rules.on_plan
    return "favorable" if percent > edge else "unfavorable" if percent < -edge else "on-plan"


def report(desk: Desk, analyst: Report | None, ledger: Ledger) -> Report:
    """Report on the books; without the analyst's report only the break-even is known.

    Args:
        analyst: Whose books they are; None where nobody handed any in.
        ledger: The books, treated as the analyst treated them.
    """
    chunks = desk.recall(KEYWORDS[Expert.FINANCE])
    citations, snippets = cited(chunks)
    task, units = desk.task, break_even(desk.task)
    metrics: dict[str, Value] = {"break_even_units": units, "plan": task.plan}
    break_even_line = f"Break-even at {units} units."
    if analyst is None:
        return Report(
            expert=Expert.FINANCE, title="Finance", summary=break_even_line, metrics=metrics,
            bullets=(break_even_line,), issues=missing(Expert.ANALYST),
            memory_citations=citations, memory_snippets=snippets,
        )  # fmt: skip
    found = look_ahead(task, ledger, desk.rules(chunks))
    worth = task.unit_margin if desk.compat else float(analyst.metrics["avg_order_value"])
    metrics |= _numbers(desk, found) | {"break_even_revenue": round(units * worth, 2)}
    bullets = [
        f"Projection for the next quarter: {found.projection}, between {found.low} and {found.high}.",
        f"Variance to plan: {found.variance_pct} % ({found.flag}).",
        break_even_line,
    ]
    if chunks:
        bullets.append(f"Projected after {chunks[0].id}.")
    return Report(
        expert=Expert.FINANCE,
        title="Finance",
        summary=f"The next quarter is projected at {found.projection}; revenue is {found.variance_pct} % off plan."
        + (f" The house rule is {chunks[0].id}." if chunks else ""),
        metrics=metrics,
        bullets=tuple(bullets),
        citations=MONTH_NAMES,
        memory_citations=citations,
        memory_snippets=snippets,
    )


def _numbers(desk: Desk, found: Outlook) -> dict[str, Value]:
    numbers: dict[str, Value] = {
        "projection_next_quarter": found.projection,
        "projection_low": found.low,
        "projection_high": found.high,
        "variance_abs": found.variance_abs,
        "variance_pct": found.variance_pct,
        "variance_flag": found.flag,
    }
    if not desk.compat:
        numbers["break_even_units_margin_down"] = break_even(desk.task, -MARGIN_STEP)
        numbers["break_even_units_margin_up"] = break_even(desk.task, MARGIN_STEP)
    return numbers
