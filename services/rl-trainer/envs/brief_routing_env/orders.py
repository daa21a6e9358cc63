"""Draw a sales file from a seed: half a year of orders that tell the task's story, with faults put in on purpose.

Prices start log-normal by category and are then scaled (iterative proportional fitting) until revenue by month and by
category is what the story says, so that the answer to a task never hangs on luck.
"""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from brief_routing_env.tasks import Task

MONTHS: Final = 6
YEAR: Final = 2025
PRODUCTS: Final = {
    "Electronics": ("headset", "router", "monitor"),
    "Beauty": ("serum", "hand cream", "soap set"),
    "Fashion": ("rain coat", "scarf", "belt"),
    "Home": ("lamp", "kettle", "rug"),
    "Sports": ("mat", "bottle", "racket"),
}
CATEGORIES: Final = tuple(PRODUCTS)
UNREADABLE_DATES: Final = ("next week", "31.02.2025", "n/a", "2025-13-04", "05/2025")
SHARES: Final = np.array([0.32, 0.24, 0.18, 0.15, 0.11])
"""Revenue by rank of category: the leader leads clearly."""

FITS: Final = 8
MONTHLY_NOISE: Final = 0.015
UNNOTICED: Final = 0.005
DOUBLED_SHARE: Final = 0.22
"""Revenue that duplicates feign, aimed at where they are many."""

MANY: Final = 10
CANDIDATES: Final = 64
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Order(NamedTuple):
    """One row of the file, as it was handed in.

    Args:
        price: Of one unit; None where it is missing.
        date: ISO, or something that is none.
    """

    order_id: str
    customer_id: str
    expiry_days: int
    product: str
    category: str
    price: float | None
    quantity: int
    date: str


@lru_cache(maxsize=256)
def orders_of(task: Task, seed: int) -> tuple[Order, ...]:
    """Draw the file of a task and a seed; the same two give the same file."""
    rng = np.random.Generator(np.random.PCG64([seed, task.index]))
    count, faults = task.rows, task.faults
    category = rng.permutation(np.arange(count) % len(CATEGORIES))
    month = rng.permutation(np.arange(count) % MONTHS)
    quantity = rng.integers(1, 5, count)
    faulty = rng.permutation(count)[: faults.bad_dates + faults.bad_quantities]
    undated, uncounted = faulty[: faults.bad_dates], faulty[faults.bad_dates :]
    month[undated], quantity[uncounted] = MONTHS, 0
    price = _priced(task, rng, category, month, quantity)
    days = rng.integers(1, 29, count).tolist()
    dates = [f"{YEAR}-{m + 1:02d}-{day:02d}" for m, day in zip(month.tolist(), days, strict=True)]
    for place, row in enumerate(undated):
        dates[row] = UNREADABLE_DATES[(place + seed) % len(UNREADABLE_DATES)]
    missing = _unnoticeable(rng, task, price, category, quantity)
    gone = set(missing.tolist())
    doubled = _doubled(rng, task, price * quantity, missing)
    kinds = [CATEGORIES[one] for one in category.tolist()]
    columns = zip(
        (f"O{one}" for one in (rng.permutation(9000)[:count] + 1000).tolist()),
        (f"C{one}" for one in rng.integers(100, 1000, count).tolist()),
        rng.integers(30, 720, count).tolist(),
        (PRODUCTS[kind][which] for kind, which in zip(kinds, rng.integers(0, 3, count).tolist(), strict=True)),
        kinds,
        (None if row in gone else one for row, one in enumerate(price.tolist())),
        quantity.tolist(),
        dates,
        strict=True,
    )
    rows = [Order(*column) for column in columns]
    rows += [rows[row] for row in doubled.tolist()]
    return tuple(rows[place] for place in rng.permutation(len(rows)).tolist())


def _priced(task: Task, rng: np.random.Generator, category: Ints, month: Ints, quantity: Ints) -> Floats:
    """Give prices whose revenue has the task's total, slope by month, and a leading category."""
    count = task.rows
    price = np.exp(rng.normal(np.log(300.0), 0.5, len(CATEGORIES)))[category] * np.exp(rng.normal(0.0, 0.25, count))
    by_month = 1.0 + task.slope * (np.arange(MONTHS) - (MONTHS - 1) / 2)
    by_month *= 1.0 + rng.uniform(-MONTHLY_NOISE, MONTHLY_NOISE, MONTHS)
    undated = task.faults.bad_dates / count
    month_target = np.append(by_month / by_month.sum() * (1.0 - undated), undated)
    category_target = rng.permutation(SHARES)
    for _ in range(FITS):
        for group, target in ((category, category_target), (month, month_target)):
            found = np.bincount(group, price * quantity, minlength=len(target))
            price = price * np.divide(target, found, out=np.ones_like(target), where=found > 0)[group]
    aim = task.plan * (1.0 + task.variance)
    scaled: Floats = np.round(price * (aim / float((price * quantity).sum())), 2)
    return scaled


def _unnoticeable(rng: np.random.Generator, task: Task, price: Floats, category: Ints, quantity: Ints) -> Ints:
    """Pick the rows that lose their price: a set for which it hardly matters how it is filled in.

    So a wrong rule for prices costs less than the tolerance, and a wrong projection is what the task turns on.
    """
    medians = _medians(price, category)[category]
    apart, off = quantity * (price.mean() - medians), quantity * (medians - price)
    effect = np.where(quantity > 0, np.abs(apart) + np.abs(off), np.inf)
    count = task.faults.missing_prices
    drawn = _candidates(rng, effect.argsort(kind="stable")[: 4 * count], count)
    ranked = drawn[np.abs(apart[drawn].sum(axis=1)).argsort(kind="stable")]
    bearable = UNNOTICED * float((price * quantity).sum())
    best: Ints = ranked[0]
    least = np.inf
    for rows in ranked:
        gap = _apart(rows, price, category, quantity)
        if gap < least:
            best, least = rows, gap
        if least <= bearable:
            break
    return best


def _apart(rows: Ints, price: Floats, category: Ints, quantity: Ints) -> float:
    """Say by how much the two rules for missing prices would differ in revenue."""
    kept = np.delete(price, rows), np.delete(category, rows)
    apart: Floats = quantity[rows] * (kept[0].mean() - _medians(*kept)[category[rows]])
    return abs(float(apart.sum()))


def _medians(price: Floats, category: Ints) -> Floats:
    """Give each category's median; sorting a dozen prices takes a tenth of what numpy's median does."""
    ordered = (np.sort(price[category == one]) for one in range(len(CATEGORIES)))
    return np.array([(one[(len(one) - 1) // 2] + one[len(one) // 2]) / 2 for one in ordered])


def _doubled(rng: np.random.Generator, task: Task, revenue: Floats, missing: Ints) -> Ints:
    """Pick the rows that are in the file twice; where they are many, they come to a share of revenue worth hiding."""
    count = task.faults.duplicates
    drawn = _candidates(rng, np.delete(np.arange(len(revenue)), missing), count)
    if count < MANY:
        drawn = drawn[:1]
    share = revenue[drawn].sum(axis=1) / revenue.sum()
    chosen: Ints = drawn[np.abs(share - DOUBLED_SHARE).argmin()]
    return chosen


def _candidates(rng: np.random.Generator, pool: Ints, count: int) -> Ints:
    """Draw sets of distinct rows, shape [CANDIDATES, count]."""
    drawn: Ints = pool[rng.random((CANDIDATES, len(pool))).argpartition(count, axis=1)[:, :count]]
    return drawn
