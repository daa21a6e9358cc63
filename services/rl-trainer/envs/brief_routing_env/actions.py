"""Actions as JSON: their schema, how they are read, and how a move is spelled."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from brief_routing_env.tasks import EXPERTS, QUESTIONS
from brief_routing_env.world import Move, Verb

SPELLED: Final = 120
"""Characters of each field that the history keeps."""

FIELDS: Final = ("action_type", "expert_id", "sub_question_id", "notes")
SCHEMA: Final[Mapping[str, object]] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "action_type": {"type": "string", "enum": [str(verb) for verb in Verb]},
            "expert_id": {"type": ["string", "null"], "enum": [*map(str, EXPERTS), None]},
            "sub_question_id": {
                "type": ["string", "null"],
                "enum": [*(question for asked in QUESTIONS.values() for question in asked), None],
            },
            "notes": {"type": ["string", "null"], "description": "free text; nothing reads it but for citations"},
        },
        "required": ["action_type"],
        "additionalProperties": False,
    }
)
_VERBS: Final = {str(verb): verb for verb in Verb}
_EXPERTS: Final = {str(expert): expert for expert in EXPERTS}


def read_move(action: Mapping[str, object]) -> Move | None:
    """Read a JSON action; case and outer blanks do not matter, further keys are not looked at.

    >>> read_move({"action_type": " Consult", "expert_id": "HR", "mood": 3})
    Move(verb=<Verb.CONSULT: 'consult'>, expert=<Expert.HR: 'hr'>, question='')
    >>> read_move({"action_type": "consult"})
    Move(verb=<Verb.CONSULT: 'consult'>, expert=None, question='')
    >>> read_move({"action_type": 7})
    """
    verb = _VERBS.get(_word(action.get("action_type")))
    if verb is None:
        return None
    if verb not in (Verb.CONSULT, Verb.ASK):
        return Move(verb)
    question = _word(action.get("sub_question_id")) if verb is Verb.ASK else ""
    return Move(verb, _EXPERTS.get(_word(action.get("expert_id"))), question)


def _word(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def spelled(action: Mapping[str, object]) -> dict[str, object]:
    """Give an action as the history keeps it: known fields that are texts, not too long, no half characters."""
    texts = ((name, action.get(name)) for name in FIELDS)
    return {
        name: text[:SPELLED].encode(errors="replace").decode() for name, text in texts if isinstance(text, str) and text
    }


def spell(move: Move) -> dict[str, object]:
    """Give a move its JSON form.

    >>> spell(Move(Verb.ASK, EXPERTS[1], "reconcile_revenue"))
    {'action_type': 'ask', 'expert_id': 'finance', 'sub_question_id': 'reconcile_revenue'}
    """
    found: dict[str, object] = {"action_type": str(move.verb)}
    if move.expert is not None:
        found["expert_id"] = str(move.expert)
    return found | ({"sub_question_id": move.question} if move.question else {})
