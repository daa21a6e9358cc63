"""Say what JSON and text each kind of proto field accepts, stricter than json_format, in words a caller can act on."""

import base64
import binascii
import difflib
import math
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from kedge_bandit.adapters.rest.status import Reason, RequestRefused, refuse

TEXT_TYPES: Final[Mapping[str, str]] = {
    "google.protobuf.Timestamp": "an RFC 3339 time such as 2026-01-31T12:00:00Z",
    "google.protobuf.Duration": "a duration in seconds such as 1.5s",
    "google.protobuf.FieldMask": "field paths separated by commas",
}
WRAPPER_TYPES: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
DYNAMIC_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "google.protobuf.Struct": (dict,),
    "google.protobuf.ListValue": (list,),
    "google.protobuf.Any": (dict,),
    "google.protobuf.Value": (object,),
}
INT_RANGE: Final[Mapping[int, tuple[int, int]]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
FLOAT_MAX: Final[Mapping[int, float]] = {
    FieldDescriptor.CPPTYPE_FLOAT: 3.4028234663852886e38,
    FieldDescriptor.CPPTYPE_DOUBLE: sys.float_info.max,
}
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMES_SHOWN = 20


@lru_cache(maxsize=1024)
def fields_by_wire_name(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Map both spellings of every field, ``pageSize`` and ``page_size``, to its descriptor."""
    named = {field.name: field for field in message.fields}
    return named | {field.json_name: field for field in message.fields}


def find_field(message: Descriptor, name: str, at: str) -> FieldDescriptor:
    """Find a field by either spelling.

    Args:
        message: where to look.
        name: what the caller wrote.
        at: the dotted path of the field, for the error.

    Raises:
        RequestRefused: UNKNOWN_FIELD, with the nearest or all known names.
    """
    known = fields_by_wire_name(message)
    if (field := known.get(name)) is not None:
        return field
    names = [each.json_name for each in message.fields]
    near = difflib.get_close_matches(name, names, n=1) if len(name) <= 64 else []
    hint = f"did you mean {near[0]!r}?" if near else f"its fields: {_listed(names) or 'none'}."
    raise refuse(
        Reason.UNKNOWN_FIELD,
        f"{shown(at)} is not a field of {message.name}; {hint}",
        field=at[:200].encode(errors="replace").decode(),
    )


def is_map(field: FieldDescriptor) -> bool:
    """Say whether a field is a ``map<,>``."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def map_key(field: FieldDescriptor) -> FieldDescriptor:
    """Return the descriptor of a map field's keys."""
    return message_of(field).fields_by_name["key"]


def map_value(field: FieldDescriptor) -> FieldDescriptor:
    """Return the descriptor of a map field's values."""
    return message_of(field).fields_by_name["value"]


def message_of(field: FieldDescriptor) -> Descriptor:
    """Return the message type of a field that is known to have one."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} is no message field")
    return field.message_type


def is_text(field: FieldDescriptor) -> bool:
    """Say whether one value of a field fits in a query parameter: scalars, enums, times, durations, masks, wrappers."""
    message = field.message_type
    return message is None or message.full_name in TEXT_TYPES or message.full_name in WRAPPER_TYPES


def is_nested(field: FieldDescriptor) -> bool:
    """Say whether a dotted query parameter may go through a field: a single message of the API's own."""
    return field.message_type is not None and not (
        is_text(field) or field.is_repeated or field.message_type.full_name in DYNAMIC_TYPES
    )


def scalar_of(field: FieldDescriptor) -> FieldDescriptor:
    """Look through a wrapper such as Int64Value at the scalar inside; other fields are returned as they are."""
    message = field.message_type
    if message is not None and message.full_name in WRAPPER_TYPES:
        return message.fields_by_name["value"]
    return field


def text_value(field: FieldDescriptor, text: str, at: str) -> object:
    """Turn a query parameter or path segment into the JSON value of a field.

    Raises:
        RequestRefused: the text is no value of the field.
    """
    scalar = scalar_of(field)
    if scalar.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        if text not in ("true", "false"):
            raise wrong_value(at, "true or false", text)
        return text == "true"
    check_single(scalar, text, at)
    return text


def check_single(field: FieldDescriptor, value: object, at: str) -> None:
    """Check one scalar, enum, time, duration, mask or dynamic JSON value.

    Raises:
        RequestRefused: INVALID_VALUE, naming the field, what it takes and what it got.
    """
    if field.message_type is not None:
        _check_well_known(field.message_type, value, at)
    elif field.enum_type is not None:
        _check_enum(field.enum_type, value, at)
    elif field.cpp_type in INT_RANGE:
        low, high = INT_RANGE[field.cpp_type]
        if (whole := _whole(value)) is None or not low <= whole <= high:
            raise wrong_value(at, f"a whole number from {low} to {high}", value)
    elif field.cpp_type in FLOAT_MAX:
        largest = FLOAT_MAX[field.cpp_type]
        if (number := _finite(value)) is None or abs(number) > largest:
            raise wrong_value(at, f"a finite number up to {largest:.3g}", value)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        if not isinstance(value, bool):
            raise wrong_value(at, "true or false without quotes", value)
    elif not isinstance(value, str) or _SURROGATE.search(value):
        raise wrong_value(at, "a string of Unicode text", value)
    elif field.type == FieldDescriptor.TYPE_BYTES and not _is_base64(value):
        raise wrong_value(at, "base64", value)


def check_key(field: FieldDescriptor, key: str, at: str) -> None:
    """Check one key of a map, which JSON always writes as a string.

    Raises:
        RequestRefused: INVALID_VALUE, naming the map.
    """
    if field.cpp_type != FieldDescriptor.CPPTYPE_BOOL:
        check_single(field, key, f"a key of {at}")
    elif key not in ("true", "false"):
        raise wrong_value(f"a key of {at}", "true or false", key)


def wrong_value(at: str, expected: str, value: object) -> RequestRefused:
    """Build the refusal of a value: which field, what it takes, what it got."""
    return refuse(Reason.INVALID_VALUE, f"{shown(at)} takes {expected}, not {shown(value)}.", field=at[:200])


def shown(value: object) -> str:
    """Quote a caller's value in an error, shortened so that an answer never grows with the request.

    >>> shown("abc"), shown(None), shown([1])
    ("'abc'", 'null', 'a list')
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            text = repr(value)
            return text if len(text) <= 80 else f"{text[:77]}..."


def _check_well_known(message: Descriptor, value: object, at: str) -> None:
    if message.full_name in TEXT_TYPES and not isinstance(value, str):
        raise wrong_value(at, TEXT_TYPES[message.full_name], value)
    if not isinstance(value, DYNAMIC_TYPES.get(message.full_name, (object,))):
        raise wrong_value(at, f"a {message.name}", value)


def _check_enum(enum: EnumDescriptor, value: object, at: str) -> None:
    if isinstance(value, str) and value in enum.values_by_name:
        return
    if isinstance(value, int) and not isinstance(value, bool) and value in enum.values_by_number:
        return
    names = [each.name for each in enum.values]
    raise wrong_value(at, f"one of {_listed(names)}", value)


def _whole(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if _INTEGER.fullmatch(value):
            return int(value)
        case _:
            return None


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_base64(text: str) -> bool:
    if not _BASE64.fullmatch(text):
        return False
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error:
        return False
    return True


def _listed(names: list[str]) -> str:
    head = ", ".join(names[:_NAMES_SHOWN])
    return head if len(names) <= _NAMES_SHOWN else f"{head}, … ({len(names)} in all)"
