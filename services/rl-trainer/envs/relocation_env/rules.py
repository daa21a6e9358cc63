"""The one table of rules, which validator, list of available actions, blockers, generator and grader all read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_STEPS = 35
"""Actions per case, whatever its deadline."""

DOCUMENTS = (
    "passport",
    "visa",
    "employment_letter",
    "degree_certificate",
    "work_permit",
    "employment_pass",
    "residence_permit",
    "tax_form",
    "ict_permit",
)


class Status(StrEnum):
    """A document's life."""

    MISSING = "missing"
    SUBMITTED = "submitted"
    VERIFIED = "verified"
    INVALIDATED = "invalidated"


class Department(StrEnum):
    """Who may have to approve."""

    HR = "HR"
    LEGAL = "Legal"
    FINANCE = "Finance"


class Item(StrEnum):
    """Something to set for a country."""

    TAX_ID = "tax_id"
    PAYROLL = "payroll"
    PDPA = "pdpa"
    SHADOW_PAYROLL = "shadow_payroll"


class Verb(StrEnum):
    """What can be done."""

    REQUEST = "request_document"
    VERIFY = "verify_document"
    APPROVE_HR = "approve_hr"
    APPROVE_LEGAL = "approve_legal"
    APPROVE_FINANCE = "approve_finance"
    SET_PAYROLL = "set_payroll"
    SET_TAX_ID = "set_tax_id"
    SET_SHADOW_PAYROLL = "set_shadow_payroll"
    SET_PDPA = "set_pdpa"
    RESOLVE = "resolve_conflict"
    ACKNOWLEDGE = "acknowledge_regulatory_change"
    FINALIZE = "finalize_case"


class Result(StrEnum):
    """What became of an action."""

    SUCCESS = "success"
    WRONG = "wrong_action"
    REPEATED = "repeated_action"
    PREREQUISITE = "prerequisite_violated"
    RULE_VIOLATION = "rule_violation"
    INVALID = "invalid_action"


APPROVES: Mapping[Verb, Department] = {
    Verb.APPROVE_HR: Department.HR,
    Verb.APPROVE_LEGAL: Department.LEGAL,
    Verb.APPROVE_FINANCE: Department.FINANCE,
}
SETS: Mapping[Verb, Item] = {
    Verb.SET_TAX_ID: Item.TAX_ID,
    Verb.SET_PAYROLL: Item.PAYROLL,
    Verb.SET_PDPA: Item.PDPA,
    Verb.SET_SHADOW_PAYROLL: Item.SHADOW_PAYROLL,
}
APPROVING = {department: verb for verb, department in APPROVES.items()}
SETTING = {item: verb for verb, item in SETS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Country:
    """Where somebody may be sent.

    Attributes:
        items: what has to be set there; setting anything else breaks its rules.
        no_income_tax: registering a tax number there is the costly trap of a case.
        finance: its cases need the Finance department.
        permit: the document that its crisis strikes, and the one that replaces it.
        notice: what the struck permit's authority announces.
    """

    items: frozenset[Item]
    no_income_tax: bool
    finance: bool
    permit: tuple[str, str]
    notice: tuple[str, str]


COUNTRIES: Mapping[str, Country] = {
    "Germany": Country(
        items=frozenset({Item.TAX_ID, Item.PAYROLL}),
        no_income_tax=False,
        finance=False,
        permit=("visa", "ict_permit"),
        notice=("DE-VISA-SUSPENSION-2024", "Germany has suspended the EU Blue Card; a transfer needs an ICT permit."),
    ),
    "Singapore": Country(
        items=frozenset({Item.PAYROLL, Item.PDPA, Item.SHADOW_PAYROLL}),
        no_income_tax=False,
        finance=False,
        permit=("employment_pass", "work_permit"),
        notice=(
            "SG-PASS-REFORM-2025",
            "Singapore has closed the Employment Pass to transfers; they need a work permit.",
        ),
    ),
    "UAE": Country(
        items=frozenset({Item.PAYROLL}),
        no_income_tax=True,
        finance=True,
        permit=("visa", "residence_permit"),
        notice=(
            "AE-PERMIT-RULE-2025",
            "The UAE has closed the employment visa; a transfer needs a residence permit.",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Move:
    """An action in canonical spelling; the target is a document, a country, or empty."""

    verb: Verb
    target: str = ""

    def __str__(self) -> str:
        return f"{self.verb}:{self.target}" if self.target else str(self.verb)


def every_move() -> tuple[Move, ...]:
    """Number all 36 actions that can be spelled: the vocabulary of small policies and of the random player.

    >>> len(every_move()), str(every_move()[0]), str(every_move()[-1])
    (36, 'request_document:passport', 'finalize_case')
    """
    moves = [Move(verb, document) for verb in (Verb.REQUEST, Verb.VERIFY) for document in DOCUMENTS]
    moves += [Move(verb) for verb in APPROVES]
    moves += [Move(verb, country) for verb in SETS for country in COUNTRIES]
    moves += [Move(verb) for verb in (Verb.RESOLVE, Verb.ACKNOWLEDGE, Verb.FINALIZE)]
    return tuple(moves)


MOVES = every_move()


def read_move(verb: object, target: object, countries: tuple[str, ...]) -> Move | None:
    """Give an action its canonical spelling, or None where there is no such action, document or country.

    Case and outer blanks do not matter. An empty country is the only one of the case that needs the item, else the
    first; a target of an action that has none is dropped.

    >>> read_move(" SET_TAX_ID ", "uae", ("Germany", "UAE")).target
    'UAE'
    >>> read_move("set_tax_id", "", ("UAE", "Germany")).target
    'Germany'
    >>> read_move("verify_document", "diary", ("Germany",)) is None
    True
    """
    if not isinstance(verb, str) or not isinstance(target, str | None):
        return None
    spelled, aim = verb.strip().casefold(), (target or "").strip().casefold()
    if spelled not in set(Verb):
        return None
    known = Verb(spelled)
    if known in (Verb.REQUEST, Verb.VERIFY):
        return Move(known, aim) if aim in DOCUMENTS else None
    if known not in SETS:
        return Move(known)
    if not aim:
        needing = [name for name in countries if SETS[known] in COUNTRIES[name].items]
        return Move(known, needing[0] if len(needing) == 1 else countries[0])
    named = next((name for name in COUNTRIES if name.casefold() == aim), None)
    return Move(known, named) if named else None
