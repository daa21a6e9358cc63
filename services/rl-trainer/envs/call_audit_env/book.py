"""A rubric as data: policies, severity rules, weights and the cap. Ours is `rubric.toml`, a tenant brings its own."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Self, TypedDict, cast

from call_audit_env.calls import Severity

Facts = Mapping[str, float | bool]
"""What is measurable about a breach: `amount_usd`, `silence_s`; flags `rate`, `noticed`, `full_ssn`, `multi_month`."""

FILE = Path(__file__).parent / "rubric.toml"


class UnusableRubric(ValueError):
    """A rubric file that cannot be played by; says which entry is wrong."""


class _Rule(TypedDict, total=False):
    fact: str
    above: float
    least: float
    to: str


class _Policy(TypedDict, total=False):
    name: str
    group: str
    severity: str
    breach: str
    allowed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Raise a severity where a fact is true, above a bound, or at least a bound."""

    fact: str
    to: Severity
    above: float | None = None
    least: float | None = None

    def holds(self, facts: Facts) -> bool:
        """Say whether the facts meet it.

        >>> Rule(fact="amount_usd", above=500, to=Severity.HIGH).holds({"amount_usd": 500})
        False
        """
        value = facts.get(self.fact, 0)
        if self.above is not None:
            return value > self.above
        return value >= self.least if self.least is not None else bool(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One thing an agent on the line must not do."""

    name: str
    group: str
    severity: Severity
    breach: str
    allowed: str
    rules: tuple[Rule, ...] = ()

    def severity_of(self, facts: Facts) -> Severity:
        """Give the severity of a breach: the first rule that holds, else the policy's own."""
        return next((rule.to for rule in self.rules if rule.holds(facts)), self.severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Everything that a grade depends on beside the call.

    Attributes:
        weights, penalties: of a finding and of a false one, by severity.
        cap: most that an audit gets which finds none of the high breaches, in (0, 1).
        fixed, per_turn: units of the budget.
    """

    name: str
    policies: Mapping[str, Policy]
    weights: Mapping[Severity, float]
    penalties: Mapping[Severity, float]
    cap: float
    fixed: int
    per_turn: int

    def __post_init__(self) -> None:
        if not self.policies:
            raise UnusableRubric(f"{self.name}: a rubric needs a policy")
        if set(self.weights) != set(Severity) or not all(0 < one < inf for one in self.weights.values()):
            raise UnusableRubric(f"{self.name}: weights are positive, one for each of {', '.join(Severity)}")
        if set(self.penalties) != set(Severity) or not all(0 <= one < inf for one in self.penalties.values()):
            raise UnusableRubric(f"{self.name}: penalties are not negative, one for each of {', '.join(Severity)}")
        if not 0 < self.cap < 1:
            raise UnusableRubric(f"{self.name}: the cap lies between 0 and 1, not {self.cap}")
        if self.fixed < 0 or self.per_turn < 0:
            raise UnusableRubric(f"{self.name}: a budget is not negative")

    def budget(self, turns: int) -> int:
        """Units for a call of that many turns."""
        return self.fixed + self.per_turn * turns

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a rubric file.

        Raises:
            UnusableRubric: it is no TOML, lacks something, or has a value out of range.
        """
        try:
            found = tomllib.loads(text)
            if len({one["name"] for one in found["policy"]}) < len(found["policy"]):
                raise UnusableRubric("a policy stands in the rubric once")
            return cls(
                name=str(found["name"]),
                policies={one["name"]: _policy(one) for one in found["policy"]},
                weights={Severity(key): float(value) for key, value in found["weights"].items()},
                penalties={Severity(key): float(value) for key, value in found["penalties"].items()},
                cap=float(found["cap"]),
                fixed=int(found["budget"]["fixed"]),
                per_turn=int(found["budget"]["turn"]),
            )
        except UnusableRubric:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise UnusableRubric(f"the rubric cannot be read: {wrong!r}") from wrong


def _policy(written: _Policy) -> Policy:
    return Policy(
        name=written["name"],
        group=written.get("group", ""),
        severity=Severity(written["severity"]),
        breach=written["breach"],
        allowed=written.get("allowed", ""),
        rules=tuple(_rule(one) for one in cast("dict[str, list[_Rule]]", written).get("raise", [])),
    )


def _rule(written: _Rule) -> Rule:
    return Rule(
        fact=written["fact"], to=Severity(written["to"]), above=written.get("above"), least=written.get("least")
    )


@cache
def default() -> Book:
    """Give our own rubric."""
    return Book.read(FILE.read_text(encoding="utf-8"))
