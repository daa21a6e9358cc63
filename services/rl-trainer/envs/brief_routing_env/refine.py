"""Answer a sub-question: each adds a section to the report, and some change what the report says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from brief_routing_env import analyst, finance
from brief_routing_env.ledger import Cleaning, Fill, balance, month_of
from brief_routing_env.memos import BULLETS
from brief_routing_env.reports import KEYWORDS, Report, cited
from brief_routing_env.scenarios import Case
from brief_routing_env.tasks import Expert

UNNOTICED: Final = 0.005
"""Gap, as a share, up to which finance takes the analyst's total for reconciled."""

GAP: Final = "revenue_gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What an answer is found from.

    Args:
        reports: All that are there, the asked expert's among them.
        cleaning: How the analyst treated the file.
    """

    case: Case
    reports: Mapping[Expert, Report]
    cleaning: Cleaning

    @property
    def exposed(self) -> bool:
        """Whether finance has found a gap in the analyst's total."""
        report = self.reports.get(Expert.FINANCE)
        return report is not None and GAP in report.issues


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A section's text, and what else changes: the report, and how the file is treated."""

    text: str
    report: Report
    cleaning: Cleaning


def answer(question: str, expert: Expert, room: Room) -> Answer:
    """Answer, and put the section into the report, with what memory has on the question."""
    found = _ANSWERS[question](room, room.reports[expert])
    citations, snippets = cited(room.case.desk.recall(KEYWORDS[expert], question))
    report = found.report
    return replace(
        found,
        report=replace(
            report,
            sections=MappingProxyType({**room.reports[expert].sections, question: found.text}),
            memory_citations=tuple(dict.fromkeys((*report.memory_citations, *citations))),
            memory_snippets=tuple(dict.fromkeys((*report.memory_snippets, *snippets))),
        ),
    )


def _said(room: Room, report: Report, text: str) -> Answer:
    return Answer(text=text, report=report, cleaning=room.cleaning)


def _recheck_duplicates(room: Room, report: Report) -> Answer:
    """A lying analyst stands by its figures until finance has exposed the gap."""
    if room.cleaning.keeps_duplicates and not room.exposed:
        return _said(room, report, "Nothing is in the file twice: the figures stand.")
    cleaning = replace(room.cleaning, keeps_duplicates=False)
    again = analyst.analyse(room.case.desk, room.case.orders, cleaning)
    return Answer(
        text=f"{again.metrics['duplicates_removed']} rows were in the file twice; without them it is "
        f"{again.metrics['total_revenue']}.",
        report=again,
        cleaning=cleaning,
    )


def _recheck_prices(room: Room, _: Report) -> Answer:
    """Fill missing prices as the memory that is looked up says, else by the median of their category."""
    desk = room.case.desk
    fill = desk.rules(desk.recall(KEYWORDS[Expert.ANALYST], "recheck_prices")).fill or Fill.CATEGORY_MEDIAN
    cleaning = replace(room.cleaning, fill=fill)
    again = analyst.analyse(desk, room.case.orders, cleaning)
    text = f"{again.metrics['imputed_prices']} missing prices filled with the {fill}: {again.metrics['total_revenue']}."
    return Answer(text=text, report=again, cleaning=cleaning)


def _category_breakdown(room: Room, report: Report) -> Answer:
    ledger = balance(room.case.orders, room.cleaning)
    parts = (f"{name} {total} ({total / ledger.revenue:.1%})" for name, total in ledger.by_category)
    return _said(room, report, "; ".join(parts) + ".")


def _invalid_rows(room: Room, report: Report) -> Answer:
    invalid = (order for order in dict.fromkeys(room.case.orders) if order.quantity < 1 or month_of(order.date) is None)
    listed = ", ".join(f"{order.order_id} ({order.quantity} on {order.date!r})" for order in invalid)
    return _said(room, report, f"Not valid: {listed or 'none'}.")


def _reconcile_revenue(room: Room, report: Report) -> Answer:
    """Hold the analyst's total against the sum over distinct rows."""
    books = room.reports.get(Expert.ANALYST)
    if books is None:
        return _said(room, report, "There is no total to reconcile: nobody has handed in the books.")
    claimed = float(books.metrics["total_revenue"])
    distinct = balance(room.case.orders, replace(room.cleaning, keeps_duplicates=False)).revenue
    issues = tuple(issue for issue in report.issues if issue != GAP)
    if abs(claimed - distinct) <= UNNOTICED * distinct:
        return _said(room, replace(report, issues=issues), f"Reconciled: distinct rows come to {distinct}.")
    twice = round(claimed - distinct, 2)
    text = f"The books say {claimed}, distinct rows come to {distinct}: {twice} is counted twice."
    return _said(room, replace(report, issues=(*issues, GAP)), text)


def _case(end: str) -> Callable[[Room, Report], Answer]:
    def found(room: Room, report: Report) -> Answer:
        value = report.metrics.get(f"projection_{end}")
        text = "There is no projection to start from." if value is None else f"The {end} end of the band: {value}."
        return _said(room, report, text)

    return found


def _break_even_sensitivity(room: Room, report: Report) -> Answer:
    step = finance.MARGIN_STEP
    less, usual, more = (finance.break_even(room.case.task, change) for change in (-step, 0.0, step))
    return _said(room, report, f"Break-even at {less}, {usual} and {more} units for margin -10 %, as it is, +10 %.")


def _risk_controls(room: Room, report: Report) -> Answer:
    finance_report = room.reports.get(Expert.FINANCE)
    low = finance_report.metrics.get("projection_low") if finance_report else None
    return _said(room, report, f"Stop adding below a projection of {low}." if low else "No floor can be named yet.")


def _alternatives(room: Room, report: Report) -> Answer:
    return _said(room, report, "Otherwise: hold all three names until the next projection.")


def _name_variance(room: Room, report: Report) -> Answer:
    """Put finance's line on the variance into the memo, where it is not there yet."""
    finance_report, memo = room.reports.get(Expert.FINANCE), report.memo or ""
    lines = finance_report.bullets if finance_report else ()
    line = next((one for one in lines if one.startswith("Variance")), None)
    if line is None or line in memo:
        return _said(room, report, "The memo stays as it is.")
    *rest, last = memo.splitlines()
    return _said(room, replace(report, memo="\n".join([*rest, f"- {line}", last])), "The variance is named.")


def _shorten(room: Room, report: Report) -> Answer:
    lines = (report.memo or "").splitlines()
    spare = [line for line in lines if line.startswith("- ")][BULLETS:]
    kept = [line for line in lines if line not in spare]
    return _said(room, replace(report, memo="\n".join(kept)), f"{len(spare)} lines taken out.")


def _fix_audience(room: Room, report: Report) -> Answer:
    memo, audience = report.memo or "", room.case.task.audience
    first, _, rest = memo.partition("\n")
    if audience.lower() in first.lower():
        return _said(room, report, "The first line names its audience.")
    return _said(room, replace(report, memo=f"For the {audience}: {first}\n{rest}"), "The audience is named first.")


_ANSWERS: Final[Mapping[str, Callable[[Room, Report], Answer]]] = MappingProxyType(
    {
        "recheck_duplicates": _recheck_duplicates,
        "recheck_prices": _recheck_prices,
        "category_breakdown": _category_breakdown,
        "invalid_rows": _invalid_rows,
        "reconcile_revenue": _reconcile_revenue,
        "downside_case": _case("low"),
        "upside_case": _case("high"),
        "break_even_sensitivity": _break_even_sensitivity,
        "risk_controls": _risk_controls,
        "alternatives": _alternatives,
        "name_variance": _name_variance,
        "shorten": _shorten,
        "fix_audience": _fix_audience,
    }
)
