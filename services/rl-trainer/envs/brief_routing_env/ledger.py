"""Clean a sales file and add it up: everything that the specialists say is computed here from its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

import numpy as np

from brief_routing_env.orders import CATEGORIES, MONTHS, Floats, Order

QUARTER: Final = 3


class Fill(StrEnum):
    """What stands in for a missing price."""

    MEAN = "global mean"
    CATEGORY_MEDIAN = "category median"
    CATEGORY_MEAN = "category mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """How a file is treated: what fills a missing price, and whether rows that occur twice are left in."""

    fill: Fill = Fill.MEAN
    keeps_duplicates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A cleaned file.

    Args:
        duplicates, imputed: Rows dropped, and prices filled in.
        bad_quantities, bad_dates: Rows that stay and are not valid.
        quality: Share of valid rows, 0..1, four decimals.
        revenue: Total of two decimals.
        orders: Distinct order numbers.
        by_category: Revenue by category, highest first.
        by_month: Revenue of each month, [6]; rows without a readable date are in none.
    """

    duplicates: int
    imputed: int
    bad_quantities: int
    bad_dates: int
    quality: float
    revenue: float
    orders: int
    by_category: tuple[tuple[str, float], ...]
    by_month: Floats


def month_of(text: str) -> int | None:
    """Read the month of an ISO date, 0..5; None where it is none.

    >>> month_of("2025-03-09"), month_of("31.02.2025")
    (2, None)
    """
    try:
        return date.fromisoformat(text).month - 1
    except ValueError:
        return None


def balance(orders: Sequence[Order], cleaning: Cleaning) -> Ledger:
    """Clean a file and add it up."""
    kept = list(orders) if cleaning.keeps_duplicates else list(dict.fromkeys(orders))
    category = np.array([CATEGORIES.index(row.category) for row in kept])
    price = np.array([np.nan if row.price is None else row.price for row in kept])
    quantity = np.array([row.quantity for row in kept])
    months = [month_of(row.date) for row in kept]
    dated = np.array([one is not None for one in months])
    missing = np.isnan(price)
    price = np.where(missing, np.round(_filled(price, category, cleaning.fill), 2), price)
    revenue = np.round(price * quantity, 2)
    sums = np.bincount(category, revenue, minlength=len(CATEGORIES))
    ranked = sorted(zip(CATEGORIES, sums.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
    month = np.array([MONTHS if one is None else one for one in months])
    return Ledger(
        duplicates=len(orders) - len(kept),
        imputed=int(missing.sum()),
        bad_quantities=int((quantity < 1).sum()),
        bad_dates=int((~dated).sum()),
        quality=round(float(((price > 0) & (quantity >= 1) & dated).mean()), 4),
        revenue=round(float(revenue.sum()), 2),
        orders=len({row.order_id for row in kept}),
        by_category=tuple((name, round(total, 2)) for name, total in ranked),
        by_month=np.bincount(month, revenue, minlength=MONTHS + 1)[:MONTHS].astype(np.float64),
    )


def _filled(price: Floats, category: np.ndarray[tuple[int], np.dtype[np.int64]], fill: Fill) -> Floats:
    """Give the price that a rule puts in each row's place."""
    if fill is Fill.MEAN:
        return np.full(len(price), float(np.nanmean(price)))
    middle = np.nanmedian if fill is Fill.CATEGORY_MEDIAN else np.nanmean
    filled: Floats = np.array([float(middle(price[category == one])) for one in range(len(CATEGORIES))])[category]
    return filled


def straight_line(by_month: Floats) -> tuple[float, float]:
    """Project the next quarter by least squares, and give the band of three deviations of the residuals.

    >>> straight_line(np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0]))
    (240.0, 0.0)
    """
    count = len(by_month)
    places = np.arange(count)
    slope = float(((places - places.mean()) * by_month).sum() / ((places - places.mean()) ** 2).sum())
    level = float(by_month.mean()) - slope * float(places.mean())
    ahead = sum(level + slope * (count + month) for month in range(QUARTER))
    spread = float(np.std(by_month - (level + slope * places)))
    return round(ahead, 2), round(3.0 * spread, 2)


def trailing(by_month: Floats, months: int) -> float:
    """Project the next quarter as the last months went; none is below nothing.

    >>> trailing(np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0]), 3)
    150.0
    """
    return round(max(0.0, float(by_month[-months:].sum()) * QUARTER / months), 2)
