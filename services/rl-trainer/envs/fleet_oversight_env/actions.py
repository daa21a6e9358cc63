"""Read an overseer's JSON action into a move, and spell a move as JSON. Anything whatever is read; nothing raises."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fleet_oversight_env.fleet import Move
from fleet_oversight_env.laws import WORKERS, MoveKind
from fleet_oversight_env.planning import CHUNK_SIZES, CHUNK_STRATEGIES, EMBEDDING_MODELS, TOP_KS, Config
from fleet_oversight_env.view import VERDICTS

Json = Mapping[str, object]
UNREADABLE: Final = Move(kind=MoveKind.UNREADABLE)
_KINDS: Final = {str(kind): kind for kind in MoveKind if kind is not MoveKind.UNREADABLE}
_CONFIG: Final = {
    "type": "object",
    "properties": {
        "chunk_strategy": {"type": "string", "enum": list(CHUNK_STRATEGIES)},
        "chunk_size": {"type": "integer", "enum": list(CHUNK_SIZES)},
        "embedding_model": {"type": "string", "enum": list(EMBEDDING_MODELS)},
        "top_k": {"type": "integer", "enum": list(TOP_KS)},
    },
    "required": ["chunk_strategy", "chunk_size", "embedding_model", "top_k"],
    "additionalProperties": False,
}
_VERDICT: Final = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": list(VERDICTS)},
        "reason": {"type": "string", "maxLength": 300},
    },
    "required": ["verdict"],
    "additionalProperties": False,
}
SCHEMA: Final[Json] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "action_type": {"type": "string", "enum": list(_KINDS)},
            "worker": {"type": ["string", "null"], "enum": [*WORKERS, None]},
            "allocation": {
                "type": "object",
                "properties": dict.fromkeys(WORKERS, _CONFIG),
                "additionalProperties": False,
            },
            "report": {"type": "object", "properties": dict.fromkeys(WORKERS, _VERDICT), "additionalProperties": False},
        },
        "required": ["action_type"],
        "additionalProperties": False,
    }
)


def read(action: object) -> Move:
    """Read an action; what is none becomes a move that the world refuses and counts.

    >>> read({"action_type": "monitor", "worker": "worker_2"}).worker
    1
    >>> read({"action_type": "reboot"}).kind
    <MoveKind.UNREADABLE: 'unreadable'>
    """
    if not isinstance(action, Mapping):
        return UNREADABLE
    kind = _KINDS.get(_word(action.get("action_type")))
    if kind is None:
        return UNREADABLE
    if kind is MoveKind.ALLOCATE:
        return _allocate(action.get("allocation"))
    if kind is MoveKind.SUBMIT:
        return Move(kind=kind, verdicts=_verdicts(action.get("report")))
    named = action.get("worker")
    if named is None or named == "":
        return Move(kind=kind)
    worker = _word(named)
    return Move(kind=kind, worker=WORKERS.index(worker)) if worker in WORKERS else UNREADABLE


def _word(value: object) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _allocate(allocation: object) -> Move:
    if allocation is None:
        return Move(kind=MoveKind.ALLOCATE)
    if not isinstance(allocation, Mapping) or not all(_word(name) in WORKERS for name in allocation):
        return UNREADABLE
    pairs = tuple((WORKERS.index(_word(name)), _config(value)) for name, value in allocation.items())
    return Move(kind=MoveKind.ALLOCATE, allocation=pairs)


def _config(value: object) -> Config | None:
    """Read a configuration; None where a field is missing, unknown or of the wrong type."""
    if not isinstance(value, Mapping):
        return None
    strategy, model = _word(value.get("chunk_strategy")), _word(value.get("embedding_model"))
    size, top_k = value.get("chunk_size"), value.get("top_k")
    if type(size) is not int or type(top_k) is not int:
        return None
    try:
        return Config(chunk_strategy=strategy, chunk_size=size, embedding_model=model, top_k=top_k)
    except ValueError:
        return None


def _verdicts(report: object) -> tuple[str | None, ...]:
    """Read a verdict per worker, given as an object or a bare word; None where there is none that is known."""
    if not isinstance(report, Mapping):
        return (None,) * len(WORKERS)
    said = {_word(name): value for name, value in report.items()}
    words = (_word(one.get("verdict") if isinstance(one, Mapping) else one) for one in map(said.get, WORKERS))
    return tuple(word if word in VERDICTS else None for word in words)


def spell(move: Move) -> dict[str, object]:
    """Give a move its JSON form.

    >>> spell(Move(kind=MoveKind.HOLD, worker=0))
    {'action_type': 'hold', 'worker': 'worker_1'}
    """
    spelled: dict[str, object] = {"action_type": str(move.kind)}
    if move.kind is MoveKind.ALLOCATE:
        spelled["allocation"] = {WORKERS[index]: _spelled(config) for index, config in move.allocation if config}
    elif move.kind is MoveKind.SUBMIT:
        pairs = zip(WORKERS, move.verdicts, strict=True)
        spelled["report"] = {name: {"verdict": said} for name, said in pairs if said is not None}
    elif move.worker is not None:
        spelled["worker"] = WORKERS[move.worker]
    return spelled


def _spelled(config: Config) -> dict[str, object]:
    return {
        "chunk_strategy": config.chunk_strategy,
        "chunk_size": config.chunk_size,
        "embedding_model": config.embedding_model,
        "top_k": config.top_k,
    }
