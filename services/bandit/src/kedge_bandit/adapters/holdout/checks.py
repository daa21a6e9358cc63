"""Score an answer by its case's own check. Expressions run in linear time, schemas are never fetched."""

import json
from typing import Any, Final

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.holdout import (
    Check,
    EpisodeCheck,
    ExactCheck,
    HoldoutCase,
    RegexCheck,
    RubricCheck,
    SchemaCheck,
    ToolCallCheck,
)

_LINEAR: Final = RegexOptions()
_BLANK: Final = ("", " ", "Zynth plorqu fess hurm, wogvil!")
"""Answers to nothing. The last has hardly a word or a figure that a case could be about."""
_BLANK_JSON: Final = ("null", "{}", "[]", '""')


def score(case: HoldoutCase, output: str) -> float:
    """Give 1 where the answer passes, else 0.

    Raises:
        AnswerFailed: the case is scored by a judge or an environment, not by its text.

    >>> from kedge_bandit.domain.holdout import Message
    >>> case = HoldoutCase(messages=(Message("user", "2 + 2?"),), check=RegexCheck("(?i)four|4"))
    >>> score(case, "It is Four."), score(case, "5")
    (1.0, 0.0)
    """
    check = case.check
    if isinstance(check, RubricCheck | EpisodeCheck):
        raise AnswerFailed(f"a case of kind {case.kind} cannot be scored by its text")
    if isinstance(check, ExactCheck):
        found, wanted = output.strip(), check.expected.strip()
        return float(found.casefold() == wanted.casefold() if check.ignore_case else found == wanted)
    if isinstance(check, RegexCheck):
        return float(_finds(check).is_valid(output))
    try:
        answered = json.loads(output)
    except (ValueError, RecursionError):
        return 0.0
    if isinstance(check, SchemaCheck):
        return float(_satisfies(check).is_valid(answered))
    return float(_calls(check, answered))


def compile_check(case: HoldoutCase) -> None:
    """Refuse a check that cannot work. Raises InvalidValue."""
    check = case.check
    try:
        if isinstance(check, RegexCheck):
            _finds(check)
        elif isinstance(check, SchemaCheck):
            _satisfies(check)
        elif isinstance(check, ToolCallCheck) and not isinstance(json.loads(check.arguments_json), dict):
            raise TypeError("the arguments are no JSON object")
        elif isinstance(check, RubricCheck) and not (check.rubric.strip() and check.judge_model):
            raise ValueError("a rubric and the judge's model are needed")
    except (ValueError, TypeError, ValidationError, RecursionError) as error:
        wanted = "one that compiles: RE2 syntax, JSON Schema 2020-12 without remote references, a JSON object"
        raise InvalidValue(f"check of kind {case.kind}", str(error).partition("\n")[0][:200], wanted) from error
    passing = _passes_by_itself(check)
    if passing is not None:
        raise InvalidValue(f"check of kind {case.kind}", f"passed by {passing!r}", "one that not any answer passes")


def _passes_by_itself(check: Check) -> str | None:
    """Give an answer to nothing that a check takes all the same: it would only dilute what the others measure."""
    if isinstance(check, ExactCheck):
        return None if check.expected.strip() else ""
    if isinstance(check, ToolCallCheck):
        return None if check.tool_name else ""
    if isinstance(check, RegexCheck):
        return next((text for text in _BLANK if _finds(check).is_valid(text)), None)
    if isinstance(check, SchemaCheck):
        taken = [text for text in _BLANK_JSON if _satisfies(check).is_valid(json.loads(text))]
        return taken[0] if len(taken) > 1 else None
    return None


def _finds(check: RegexCheck) -> Draft202012Validator:
    return Draft202012Validator({"type": "string", "pattern": check.pattern}, pattern_options=_LINEAR)


def _satisfies(check: SchemaCheck) -> Draft202012Validator:
    return Draft202012Validator(json.loads(check.schema_json), pattern_options=_LINEAR, offline=True)


def _calls(check: ToolCallCheck, answered: Any) -> bool:
    if not isinstance(answered, dict) or answered.get("tool") != check.tool_name:
        return False
    found, wanted = answered.get("arguments"), json.loads(check.arguments_json)
    return isinstance(found, dict) and all(name in found and found[name] == wanted[name] for name in wanted)
