"""Describe proto messages, enums and fields as JSON Schema, exactly as the transcoder reads and writes them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from kedge_bandit.adapters.rest.fields import (
    FLOAT_MAX,
    INT_RANGE,
    WRAPPER_TYPES,
    is_map,
    map_key,
    map_value,
    message_of,
    scalar_of,
)

Schema = dict[str, object]

_TEXT_SCHEMAS: Final[Mapping[str, Schema]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"},
    "google.protobuf.FieldMask": {"type": "string", "description": "Field paths separated by commas."},
}
_DYNAMIC_SCHEMAS: Final[Mapping[str, Schema]] = {
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Value": {},
    "google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
    },
}
_BEHAVIOR: Final[Any] = field_behavior_pb2.field_behavior  # its stub has the class of a field, not of an extension
_WIDE: Final = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})


class Schemas:
    """Collect the component schemas that a document refers to, each once, with comments as descriptions."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        """Start with no components.

        Args:
            comments: by full name, as comments.py finds them.
        """
        self._comments = comments
        self._components: dict[str, Schema] = {}

    def components(self) -> dict[str, Schema]:
        """Return every schema that was referred to, by full name, sorted."""
        return dict(sorted(self._components.items()))

    def message(self, message: Descriptor) -> Schema:
        """Describe a message by reference, or in place when it is a well-known type."""
        if message.full_name in WRAPPER_TYPES:
            return {"anyOf": [self._scalar(message.fields_by_name["value"]), {"type": "null"}]}
        known = _TEXT_SCHEMAS.get(message.full_name) or _DYNAMIC_SCHEMAS.get(message.full_name)
        if known is not None:
            return dict(known)
        name = message.full_name
        if name not in self._components:
            self._components[name] = {}  # a recursive message refers to itself
            self._components[name] = self.object(message, left_out=frozenset())
        return _reference(name)

    def object(self, message: Descriptor, *, left_out: Collection[tuple[str, ...]]) -> Schema:
        """Describe a message in place.

        Args:
            message: what to describe.
            left_out: proto names down to fields that the path carries.
        """
        fields = [field for field in message.fields if (field.name,) not in left_out]
        properties: dict[str, Schema] = {}
        for field in fields:
            inside = frozenset(path[1:] for path in left_out if path[0] == field.name)
            properties[field.json_name] = (
                self.object(message_of(field), left_out=inside) if inside else self.field(field)
            )
        schema: Schema = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if required := [field.json_name for field in fields if is_required(field)]:
            schema["required"] = required
        if choices := [_at_most_one(names) for names in _oneofs(fields)]:
            schema["allOf"] = choices
        return self._described(schema, message.full_name)

    def field(self, field: FieldDescriptor) -> Schema:
        """Describe a field with its comment; maps and lists included."""
        if is_map(field):
            schema: Schema = {"type": "object", "additionalProperties": self._single(map_value(field))}
            if pattern := _key_pattern(map_key(field)):
                schema["propertyNames"] = {"pattern": pattern}
        elif field.is_repeated:
            schema = {"type": "array", "items": self._single(field)}
        else:
            schema = self._single(field)
        if field.GetOptions().deprecated:
            schema["deprecated"] = True
        behaviors = field.GetOptions().Extensions[_BEHAVIOR]
        if field_behavior_pb2.OUTPUT_ONLY in behaviors:
            schema["readOnly"] = True
        if field_behavior_pb2.INPUT_ONLY in behaviors:
            schema["writeOnly"] = True
        return self._described(schema, field.full_name)

    def parameter(self, field: FieldDescriptor) -> Schema:
        """Describe a field that travels as text in a path or query; a wrapper is its scalar."""
        single = self._single(scalar_of(field))
        return {"type": "array", "items": single} if field.is_repeated else single

    def comment(self, full_name: str) -> str:
        """Return the comment of a service, method or anything else, "" without one."""
        return self._comments.get(full_name, "")

    def _single(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            return self._enum(field.enum_type)
        return self._scalar(field)

    def _enum(self, enum: EnumDescriptor) -> Schema:
        if enum.full_name not in self._components:
            schema = self._described({"type": "string", "enum": [each.name for each in enum.values]}, enum.full_name)
            lines = [
                f"* `{each.name}`: {' '.join(text.split())}"
                for each in enum.values
                if (text := self.comment(f"{enum.full_name}.{each.name}"))
            ]
            if lines:
                schema["description"] = "\n".join([str(schema.get("description", "")), "", *lines]).strip()
            self._components[enum.full_name] = schema
        return _reference(enum.full_name)

    def _scalar(self, field: FieldDescriptor) -> Schema:
        if field.cpp_type in _WIDE:
            low, high = INT_RANGE[field.cpp_type]
            name = "Int64" if low else "UInt64"
            pattern = f"^{'-?' if low else ''}{digits_up_to(high)}$"
            self._components[name] = {"type": "string", "format": name.lower(), "pattern": pattern}
            return _reference(name)
        if field.cpp_type in INT_RANGE:
            low, high = INT_RANGE[field.cpp_type]
            return {"type": "integer", "minimum": low, "maximum": high}
        if field.cpp_type in FLOAT_MAX:
            if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
                return {"type": "number", "format": "double"}
            largest = FLOAT_MAX[field.cpp_type]
            return {"type": "number", "format": "float", "minimum": -largest, "maximum": largest}
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return {"type": "boolean"}
        if field.type == FieldDescriptor.TYPE_BYTES:
            return {"type": "string", "contentEncoding": "base64", "format": "byte"}
        return {"type": "string"}

    def _described(self, schema: Schema, full_name: str) -> Schema:
        if text := self.comment(full_name):
            schema["description"] = text
        return schema


def is_required(field: FieldDescriptor) -> bool:
    """Say whether a field is annotated ``google.api.field_behavior = REQUIRED``."""
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[_BEHAVIOR]


def digits_up_to(limit: int) -> str:
    """Write a regular expression for the decimal digits of 0 to `limit`, at least 10.

    >>> digits_up_to(255)
    '(?:[0-9]{1,2}|[0-1][0-9]{2}|2[0-4][0-9]{1}|25[0-4]|255)'
    """
    text = str(limit)
    choices = [f"[0-9]{{1,{len(text) - 1}}}"]
    for index, digit in enumerate(text):
        if digit != "0":
            rest = len(text) - index - 1
            choices.append(f"{text[:index]}[0-{int(digit) - 1}]" + (f"[0-9]{{{rest}}}" if rest else ""))
    return f"(?:{'|'.join([*choices, text])})"


def _key_pattern(field: FieldDescriptor) -> str:
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "^(?:true|false)$"
    if field.cpp_type in INT_RANGE:
        low, high = INT_RANGE[field.cpp_type]
        return f"^{'-?' if low else ''}{digits_up_to(high)}$"
    return ""


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _oneofs(fields: Iterable[FieldDescriptor]) -> list[list[str]]:
    """Group the JSON names of fields by the real oneof that holds them, groups of one left out."""
    groups: dict[str, list[str]] = {}
    for field in fields:
        oneof = field.containing_oneof
        if oneof is not None and not (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
            groups.setdefault(oneof.full_name, []).append(field.json_name)
    return [names for names in groups.values() if len(names) > 1]


def _at_most_one(names: list[str]) -> Schema:
    """Allow none or exactly one of the names."""
    present: list[Schema] = [{"required": [name]} for name in names]
    return {"oneOf": [*present, {"not": {"anyOf": list(present)}}]}
