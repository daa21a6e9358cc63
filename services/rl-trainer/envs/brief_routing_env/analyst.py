"""The analyst: cleans the sales file, adds it up, and says how far it can be trusted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from brief_routing_env.ledger import Cleaning, Ledger, balance
from brief_routing_env.orders import Order
from brief_routing_env.reports import DEFAULT_FILL, KEYWORDS, Desk, Report, cited
from brief_routing_env.tasks import Expert

CATEGORIES_CITED: Final = 3


def cleaning_of(desk: Desk, *, lies: bool) -> Cleaning:
    """Decide how the file is treated: by the rule that memory brings, else by the mean."""
    rules = desk.rules(desk.recall(KEYWORDS[Expert.ANALYST]))
    return Cleaning(fill=rules.fill or DEFAULT_FILL, keeps_duplicates=lies)


def analyse(desk: Desk, orders: Sequence[Order], cleaning: Cleaning) -> Report:
    """Report on a file. Who leaves duplicates in also claims that the file is perfect."""
    ledger = balance(orders, cleaning)
    if cleaning.keeps_duplicates:
        ledger = replace(ledger, quality=1.0)
    chunks = desk.recall(KEYWORDS[Expert.ANALYST])
    citations, snippets = cited(chunks)
    top, top_revenue = ledger.by_category[0]
    bullets = [
        f"Removed {ledger.duplicates} duplicate rows and filled {ledger.imputed} missing prices with the "
        f"{cleaning.fill} before revenue was added up.",
        f"Data quality is {ledger.quality}; {ledger.bad_dates} dates cannot be read.",
        f"{top} leads with {top_revenue} of {ledger.revenue} in revenue.",
    ]
    if chunks:
        bullets.append(f"Cleaned after {chunks[0].id}.")
    told = f"The file holds {ledger.orders} orders worth {ledger.revenue}, at a quality of {ledger.quality}."
    return Report(
        expert=Expert.ANALYST,
        title="Data audit",
        summary=told + (f" The house rule is {chunks[0].id}." if chunks else ""),
        metrics={
            "duplicates_removed": ledger.duplicates,
            "imputed_prices": ledger.imputed,
            "data_quality_score": ledger.quality,
            "total_revenue": ledger.revenue,
            "avg_order_value": round(ledger.revenue / ledger.orders, 2),
            "top_category": top,
            "top_category_revenue": top_revenue,
        },
        bullets=tuple(bullets),
        issues=() if cleaning.keeps_duplicates else _risks(ledger),
        citations=tuple(name for name, _ in ledger.by_category[:CATEGORIES_CITED]),
        memory_citations=citations,
        memory_snippets=snippets,
    )


def _risks(ledger: Ledger) -> tuple[str, ...]:
    flags = {"price": ledger.imputed, "quantity": ledger.bad_quantities, "order_date": ledger.bad_dates}
    return tuple(f"risk:{name}" for name, count in flags.items() if count)
