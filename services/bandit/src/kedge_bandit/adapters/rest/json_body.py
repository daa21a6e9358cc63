"""Read a JSON body strictly and check its shape against a message, before json_format fills the message in."""

import json
import math
from typing import Final, Never

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from kedge_bandit.adapters.rest.fields import (
    DYNAMIC_TYPES,
    TEXT_TYPES,
    WRAPPER_TYPES,
    check_key,
    check_single,
    find_field,
    is_map,
    map_key,
    map_value,
    scalar_of,
    shown,
    wrong_value,
)
from kedge_bandit.adapters.rest.status import Reason, refuse

_SINGLE_VALUES: Final = frozenset({*DYNAMIC_TYPES, *TEXT_TYPES, *WRAPPER_TYPES})


def load_json(body: bytes) -> object:
    """Read JSON as RFC 8259 has it: UTF-8, no NaN or Infinity, no duplicate keys, no number beyond a double.

    Raises:
        RequestRefused: MALFORMED_JSON with line and column, or INVALID_VALUE for a number that is not finite.
    """
    try:
        return json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite_float
        )
    except UnicodeDecodeError:
        problem = "is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError:
        problem = "has an integer of too many digits"
    raise refuse(Reason.MALFORMED_JSON, f"The body {problem}. Send one JSON value in UTF-8.")


def check_message(message: Descriptor, value: object, at: str) -> None:
    """Check the shape of a JSON value against a message, before json_format reads it.

    Args:
        message: what the value should be.
        value: parsed JSON.
        at: dotted path of the value, "" for the whole.

    Raises:
        RequestRefused: UNKNOWN_FIELD or INVALID_VALUE, naming the field.
    """
    if not isinstance(value, dict):
        raise wrong_value(at or "body", "a JSON object", value)
    chosen: dict[str, str] = {}
    for name, item in value.items():
        here = f"{at}.{name}" if at else name
        field = find_field(message, name, here)
        if item is None:
            continue
        _check_field(field, item, here)
        oneof = field.containing_oneof
        if oneof is not None and (other := chosen.setdefault(oneof.name, here)) != here:
            problem = f"{shown(other)} and {shown(here)} exclude each other; send one of them."
            raise refuse(Reason.INVALID_VALUE, problem, field=here[:200])


def _check_field(field: FieldDescriptor, value: object, at: str) -> None:
    if is_map(field):
        if not isinstance(value, dict):
            raise wrong_value(at, "a JSON object", value)
        for key, item in value.items():
            check_key(map_key(field), key, at)
            _check_one(map_value(field), item, f"{at}[{shown(key)}]")
    elif field.is_repeated:
        if not isinstance(value, list):
            raise wrong_value(at, "a JSON list", value)
        for index, item in enumerate(value):
            _check_one(field, item, f"{at}[{index}]")
    else:
        _check_one(field, value, at)


def _check_one(field: FieldDescriptor, value: object, at: str) -> None:
    message = field.message_type
    if message is None or message.full_name in _SINGLE_VALUES:
        check_single(scalar_of(field), value, at)
    else:
        check_message(message, value, at)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise refuse(Reason.MALFORMED_JSON, f"The body states {shown(name)} twice in one object; state it once.")
        found[name] = value
    return found


def _not_finite(text: str) -> Never:
    raise refuse(Reason.INVALID_VALUE, f"The body holds {shown(text)}; numbers must be finite doubles.")


def _finite_float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)
