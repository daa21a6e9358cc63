"""The seven briefs: what each asks for, of whom, and how its data is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Expert(StrEnum):
    """Who can be asked, in the order of a full route."""

    ANALYST = "analyst"
    FINANCE = "finance"
    STRATEGY = "strategy"
    HR = "hr"


EXPERTS: Final = tuple(Expert)
UPSTREAM: Final[Mapping[Expert, tuple[Expert, ...]]] = MappingProxyType(
    {
        Expert.ANALYST: (),
        Expert.FINANCE: (Expert.ANALYST,),
        Expert.STRATEGY: (Expert.ANALYST, Expert.FINANCE),
        Expert.HR: (Expert.ANALYST, Expert.FINANCE),
    }
)
"""Whose report each expert cannot do without. HR uses strategy's where there is one."""

QUESTIONS: Final[Mapping[Expert, tuple[str, ...]]] = MappingProxyType(
    {
        Expert.ANALYST: ("recheck_duplicates", "recheck_prices", "category_breakdown", "invalid_rows"),
        Expert.FINANCE: ("reconcile_revenue", "downside_case", "upside_case", "break_even_sensitivity"),
        Expert.STRATEGY: ("risk_controls", "alternatives"),
        Expert.HR: ("name_variance", "shorten", "fix_audience"),
    }
)
"""What `ask` may refine, by expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What is put into the file on purpose: counts of rows."""

    duplicates: int
    missing_prices: int
    bad_dates: int = 0
    bad_quantities: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One brief.

    Args:
        index: Keys the data together with the seed.
        max_steps: Routing actions before the episode is cut.
        audience: Whom the memo addresses.
        terms: What the memo should mention (compat).
        plan, fixed_cost, unit_margin: Money of six months, of the break-even, and per unit.
        rows: Orders without duplicates.
        variance: Revenue against plan, as a share; the data is scaled to it.
        slope: Change of monthly revenue, as a share of the mean month.
        useful: Questions that the instruction asks for.
    """

    name: str
    index: int
    difficulty: str
    title: str
    instruction: str
    required: tuple[Expert, ...]
    max_steps: int
    audience: str
    terms: tuple[str, ...]
    plan: float
    fixed_cost: float
    unit_margin: float
    rows: int
    variance: float
    slope: float
    faults: Faults
    useful: frozenset[str]

    @property
    def shortest(self) -> int:
        """Steps of a route without detour: everybody who is required, a summary, the submission."""
        return len(self.required) + 2


_ALL: Final = EXPERTS
_EASY: Final = (Expert.ANALYST, Expert.FINANCE, Expert.HR)
_LISTED: Final = (
    Task(
        name="easy_brief", index=0, difficulty="easy", title="State of the sales file",
        instruction="Say whether the sales file can be relied on and where revenue lands next quarter, then put it "
        "into one paragraph that the team can read. Doubtful prices should be looked at twice.",
        required=_EASY, max_steps=12, audience="team", terms=("revenue", "projection", "team"),
        plan=26_000, fixed_cost=12_000, unit_margin=850, rows=40, variance=-0.01, slope=0.04,
        faults=Faults(duplicates=2, missing_prices=2), useful=frozenset({"recheck_prices"}),
    ),
    Task(
        name="medium_brief", index=1, difficulty="medium", title="Growth and forecast briefing",
        instruction="Which category carried the growth, and how do outlook and plan compare? Break the categories "
        "down, say what we should do, and tell the department leads.",
        required=_ALL, max_steps=12, audience="department leads", terms=("forecast", "variance", "leads"),
        plan=42_000, fixed_cost=18_000, unit_margin=1_200, rows=60, variance=0.06, slope=0.06,
        faults=Faults(duplicates=3, missing_prices=3), useful=frozenset({"category_breakdown"}),
    ),
    Task(
        name="hard_brief", index=2, difficulty="hard", title="Pack for the board",
        instruction="Prepare the board: a summary that names the weak spots of the data, a projection with a downside "
        "and an upside case, a recommendation with its controls, and a memo to the CFO.",
        required=_ALL, max_steps=12, audience="CFO", terms=("board", "forecast", "CFO"),
        plan=76_000, fixed_cost=30_000, unit_margin=1_800, rows=80, variance=-0.04, slope=-0.05,
        faults=Faults(duplicates=4, missing_prices=4, bad_dates=1),
        useful=frozenset({"downside_case", "upside_case", "risk_controls"}),
    ),
    Task(
        name="expert_brief", index=3, difficulty="hard", title="Review by the whole office",
        instruction="The whole office is wanted: data audit, outlook and how the break-even moves with the margin, a "
        "stance on each of the three names on the watchlist with alternatives, and an executive memo.",
        required=_ALL, max_steps=14, audience="CFO and strategy leads", terms=("forecast", "variance", "strategy"),
        plan=88_000, fixed_cost=32_000, unit_margin=2_000, rows=90, variance=0.03, slope=0.05,
        faults=Faults(duplicates=4, missing_prices=5, bad_dates=1),
        useful=frozenset({"break_even_sensitivity", "alternatives"}),
    ),
    Task(
        name="risk_brief", index=4, difficulty="hard", title="Exposure and risk review",
        instruction="Audit the flagged rows and what they put at stake, show the downside and how the break-even "
        "moves, take a stance with its controls, and write to those who govern us.",
        required=_ALL, max_steps=14, audience="board audit committee and CFO",
        terms=("variance", "projection", "strategy", "risk"),
        plan=125_000, fixed_cost=44_000, unit_margin=1_700, rows=100, variance=-0.09, slope=-0.05,
        faults=Faults(duplicates=6, missing_prices=6, bad_dates=4, bad_quantities=4),
        useful=frozenset({"invalid_rows", "downside_case", "break_even_sensitivity", "risk_controls"}),
    ),
    Task(
        name="crisis_brief", index=5, difficulty="hard", title="Answer to the mid-quarter shock",
        instruction="Mid-quarter the orders broke away and the plan is out of reach. Work out the downside, take a "
        "defensive stance with its controls, and announce the hiring freeze in a memo that names the variance.",
        required=_ALL, max_steps=14, audience="CEO, CFO, COO",
        terms=("variance", "projection", "strategy", "break-even"),
        plan=140_000, fixed_cost=48_000, unit_margin=1_800, rows=110, variance=-0.22, slope=-0.08,
        faults=Faults(duplicates=5, missing_prices=5, bad_dates=3, bad_quantities=2),
        useful=frozenset({"downside_case", "risk_controls", "name_variance"}),
    ),
    Task(
        name="audit_brief", index=6, difficulty="hard", title="Audit of the revenue",
        instruction="Revenue looks better than the mood in the warehouse. Establish what was really sold before "
        "anything is built on it: reconcile the total, recheck what was counted twice, then brief the CFO and "
        "the audit lead.",
        required=_ALL, max_steps=12, audience="CFO and audit lead", terms=("variance", "revenue", "audit"),
        plan=76_000, fixed_cost=30_000, unit_margin=1_800, rows=80, variance=-0.04, slope=0.05,
        faults=Faults(duplicates=16, missing_prices=4, bad_dates=2),
        useful=frozenset({"reconcile_revenue", "recheck_duplicates"}),
    ),
)  # fmt: skip
TASKS: Final[Mapping[str, Task]] = MappingProxyType({task.name: task for task in _LISTED})
AUDIT: Final = "audit_brief"
"""Its analyst lies in half of the episodes; only the second profile has it."""
