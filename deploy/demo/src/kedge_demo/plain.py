"""Read plain JSON data back into the frozen dataclasses that it was written from."""

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_plain(kind: type[T], value: object) -> T:
    """Build a dataclass from a dictionary, nested dataclasses, lists, tuples and optional fields included.

    Fields that are missing take their default; keys that are not fields are refused.

    Raises:
        ValueError: the value does not have the dataclass's shape.
    """
    found = _read(kind, value)
    if not isinstance(found, kind):
        raise ValueError(f"expected {kind.__name__}, found {value!r:.80}")  # noqa: TRY004 - it is the data that is wrong
    return found


def _read(kind: object, value: object) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return None if value is None else _read(next(one for one in arguments if one is not type(None)), value)
    if origin is list and isinstance(value, list):
        return [_read(arguments[0], one) for one in value]
    if origin is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], one) for one in value)
    if origin is dict and isinstance(value, dict):
        return {key: _read(arguments[1], one) for key, one in value.items()}
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        names = {field.name for field in fields(kind)}
        if unknown := set(value) - names:
            raise ValueError(f"{kind.__name__} has no field {sorted(unknown)}")
        return kind(**{name: _read(hints[name], one) for name, one in value.items()})
    if kind is float and isinstance(value, int):
        return float(value)
    return value
