"""Tasks and seeds become cases: four fixed ones, and a generator whose cases are all solvable."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random

from relocation_env.rules import (
    APPROVING,
    COUNTRIES,
    MAX_STEPS,
    SETTING,
    Department,
    Item,
    Move,
    Verb,
)

SPLITS: Mapping[str, range] = {
    "train": range(1_000_000),
    "dev": range(1_000_000, 1_100_000),
    "test": range(2_000_000, 2_100_000),
}
"""Seeds by split; who plays decides which he may ask for."""

BLIND = "-blind"
GENERATED = "generated"

ROLES = ("Engineer", "Manager", "Director", "Analyst")


@dataclass(frozen=True, slots=True)
class Event:
    """A rule that changes on the way.

    Attributes:
        step: the first action that is chosen knowing of it.
        struck: the document that is worth nothing from then on.
        replacement: the document that is needed instead.
    """

    step: int
    struck: str
    replacement: str
    identifier: str
    text: str


@dataclass(frozen=True, slots=True)
class Weights:
    """What a grade is made of: one completed document, each department, each item, and the rest."""

    document: float
    departments: Mapping[Department, float]
    items: Mapping[Item, float]
    conflict: float = 0.0
    event: float = 0.0
    finalized: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case, hidden parts included.

    Attributes:
        case_id: the task's name. It is shown, and says nothing of the seed, from which all that is hidden follows.
        documents: needed from the start; a case's event swaps one of them.
        departments, items: whose approval and what settings are needed.
        conflict: text of the rule conflict between its two countries, empty if there is none.
        deadline: days; one passes with every action.
        decoys: announcements that change nothing, by the number of steps after which they appear.
        optimum: length of the shortest solution.
    """

    case_id: str
    role: str
    has_dependents: bool
    countries: tuple[str, ...]
    documents: tuple[str, ...]
    departments: frozenset[Department]
    items: frozenset[Item]
    conflict: str
    deadline: int
    weights: Weights
    event: Event | None = None
    decoys: tuple[tuple[int, str], ...] = ()
    optimum: int

    @cached_property
    def task_set(self) -> frozenset[Move]:
        """List the actions that the case can ask for; any other is beside the point."""
        documents = {*self.documents, *([self.event.replacement] if self.event else [])}
        moves = {Move(verb, name) for verb in (Verb.REQUEST, Verb.VERIFY) for name in documents}
        moves |= {Move(APPROVING[department]) for department in self.departments}
        moves |= {
            Move(SETTING[item], country)
            for item in self.items
            for country in self.countries
            if item in COUNTRIES[country].items
        }
        moves |= {Move(Verb.RESOLVE)} if self.conflict else set()
        moves |= {Move(Verb.ACKNOWLEDGE)} if self.event else set()
        return frozenset({*moves, Move(Verb.FINALIZE)})


_BASIC = ("passport", "visa", "employment_letter", "work_permit")


def _conflict(countries: tuple[str, ...]) -> str:
    """Word the conflict of two countries.

    >>> _conflict(("Germany", "UAE"))
    'Germany and UAE both claim the tax on this salary. UAE keeps no tax register.'
    """
    free = [f" {country} keeps no tax register." for country in countries if COUNTRIES[country].no_income_tax]
    return " and ".join(countries) + " both claim the tax on this salary." + "".join(free)


def _event(country: str, step: int) -> Event:
    (struck, replacement), (identifier, text) = COUNTRIES[country].permit, COUNTRIES[country].notice
    return Event(step, struck, replacement, identifier, text)


NAMED: Mapping[str, Case] = {
    "easy": Case(
        case_id="easy",
        role="Engineer",
        has_dependents=False,
        countries=("Germany",),
        documents=_BASIC,
        departments=frozenset({Department.HR}),
        items=frozenset({Item.TAX_ID, Item.PAYROLL}),
        conflict="",
        deadline=20,
        weights=Weights(0.10, {Department.HR: 0.20}, {Item.TAX_ID: 0.15, Item.PAYROLL: 0.15}),
        optimum=12,
    ),
    "medium": Case(
        case_id="medium",
        role="Manager",
        has_dependents=True,
        countries=("Singapore",),
        documents=_BASIC[:3],
        departments=frozenset({Department.HR, Department.LEGAL}),
        items=frozenset({Item.PAYROLL, Item.PDPA, Item.SHADOW_PAYROLL}),
        conflict="",
        deadline=25,
        weights=Weights(
            0.08,
            {Department.HR: 0.12, Department.LEGAL: 0.14},
            {Item.PAYROLL: 0.08, Item.PDPA: 0.08, Item.SHADOW_PAYROLL: 0.08},
            finalized=0.06,
        ),
        optimum=12,
    ),
    "hard": Case(
        case_id="hard",
        role="Director",
        has_dependents=True,
        countries=("Germany", "UAE"),
        documents=_BASIC,
        departments=frozenset(Department),
        items=frozenset({Item.TAX_ID, Item.PAYROLL}),
        conflict=_conflict(("Germany", "UAE")),
        deadline=30,
        weights=Weights(
            0.05,
            {Department.HR: 0.06, Department.LEGAL: 0.08, Department.FINANCE: 0.08},
            {Item.TAX_ID: 0.05, Item.PAYROLL: 0.05},
            conflict=0.08,
        ),
        optimum=15,
    ),
    "crisis": Case(
        case_id="crisis",
        role="Manager",
        has_dependents=False,
        countries=("Germany",),
        documents=_BASIC,
        departments=frozenset({Department.HR, Department.LEGAL}),
        items=frozenset({Item.TAX_ID, Item.PAYROLL}),
        conflict="",
        deadline=35,
        weights=Weights(
            0.08,
            {Department.HR: 0.08, Department.LEGAL: 0.10},
            {Item.TAX_ID: 0.08, Item.PAYROLL: 0.07},
            event=0.05,
        ),
        event=_event("Germany", step=8),
        optimum=14,
    ),
}
"""The four cases of the source, with its weights."""

_EXTRA = ("degree_certificate", "tax_form", "work_permit")
_DECOYS = (
    "The consulate has moved to another building; its counters keep their hours.",
    "A new passport photo format is recommended from next year on.",
    "The chamber of commerce has published its yearly survey of transfers.",
    "The payroll provider has changed its logo; contracts stay as they are.",
)
_SHARES = {"document": 0.36, "department": 0.26, "item": 0.20, "conflict": 0.05, "event": 0.05}
_PERFECT = 0.95


def generate(seed: int) -> Case:
    """Draw a case; every one is solvable in `optimum` steps, before its deadline, with a perfect grade of 0.95.

    >>> case = generate(7)
    >>> case == generate(7), case.optimum <= case.deadline <= MAX_STEPS
    (True, True)
    """
    draw = Random(f"relocation:{seed}")  # noqa: S311 - a case, not a secret
    countries = tuple(draw.sample(sorted(COUNTRIES), draw.choice((1, 1, 2))))
    items = frozenset().union(*(COUNTRIES[country].items for country in countries))
    departments = {Department.HR, *([Department.LEGAL] if draw.random() < 0.75 else [])}
    if any(COUNTRIES[country].finance for country in countries):
        departments |= {Department.LEGAL, Department.FINANCE}
    conflict = _conflict(countries) if len(countries) == 2 and draw.random() < 0.7 else ""
    struck, replacement = COUNTRIES[countries[0]].permit
    extra = [name for name in _EXTRA if name != replacement]
    documents = ("passport", struck, "employment_letter", *sorted(draw.sample(extra, draw.randint(0, 2))))
    before = 2 * (len(documents) - 1) + 1 + len(items) + bool(conflict)
    event = _event(countries[0], draw.randint(5, min(9, before + 1))) if draw.random() < 0.5 else None
    optimum = 2 * len(documents) + len(departments) + len(items) + bool(conflict) + bool(event) + 1
    return Case(
        case_id=GENERATED,
        role=draw.choice(ROLES),
        has_dependents=draw.random() < 0.5,
        countries=countries,
        documents=documents,
        departments=frozenset(departments),
        items=items,
        conflict=conflict,
        deadline=min(MAX_STEPS, optimum + draw.randint(5, 12)),
        weights=_weights(len(documents), frozenset(departments), items, conflict=bool(conflict), event=bool(event)),
        event=event,
        decoys=tuple(sorted((draw.randint(1, 12), text) for text in draw.sample(_DECOYS, draw.randint(0, 2)))),
        optimum=optimum,
    )


def _weights(
    documents: int, departments: frozenset[Department], items: frozenset[Item], *, conflict: bool, event: bool
) -> Weights:
    """Scale the shares of the parts that a case has to a perfect grade of 0.95, its finalization's 0.05 included."""
    parts = _SHARES["document"] + _SHARES["department"] + _SHARES["item"]
    parts += _SHARES["conflict"] * conflict + _SHARES["event"] * event
    scale = (_PERFECT - 0.05) / parts
    return Weights(
        scale * _SHARES["document"] / documents,
        dict.fromkeys(sorted(departments), scale * _SHARES["department"] / len(departments)),
        dict.fromkeys(sorted(items), scale * _SHARES["item"] / len(items)),
        conflict=scale * _SHARES["conflict"] * conflict,
        event=scale * _SHARES["event"] * event,
    )


def case_of(task: str, seed: int) -> Case:
    """Give the case of a task, in whatever mode it is shown; the named ones are the same for every seed.

    Raises:
        KeyError: there is no such task.
    """
    name = task.removesuffix(BLIND)
    return generate(seed) if name == GENERATED else NAMED[name]
