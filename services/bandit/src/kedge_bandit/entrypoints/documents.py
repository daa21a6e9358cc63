"""Write a proto message as a document for machines: snake_case, whole numbers as such, enum values without prefix."""

from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

Document = dict[str, Any]

_LARGE = {
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT64,
}


def document_of(message: Message) -> Document:
    """Write a message, fields that have their default value included.

    >>> from kedge.bandit.v1 import policy_pb2
    >>> document = document_of(policy_pb2.Policy(policy_version=3, mode=policy_pb2.MODE_FROZEN))
    >>> document["policy_version"], document["mode"]
    (3, 'FROZEN')
    """
    document = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    _convert(document, message.DESCRIPTOR.fields_by_name)
    return document


def enum_text(kind: EnumDescriptor, number: int) -> str:
    """Name an enum's value without its prefix.

    >>> from kedge.bandit.v1 import policy_pb2
    >>> enum_text(policy_pb2.Mode.DESCRIPTOR, policy_pb2.MODE_APPLY)
    'APPLY'
    """
    return kind.values_by_number[number].name.removeprefix(_prefix(kind))


def _prefix(kind: EnumDescriptor) -> str:
    return str(kind.values_by_number[0].name.removesuffix("UNSPECIFIED"))


def _convert(document: Document, fields: Mapping[str, Any]) -> None:
    for name, value in document.items():
        field = fields[name]
        convert = _conversion(field)
        if convert is None:
            continue
        if isinstance(value, list):
            document[name] = [convert(item) for item in value]
        elif isinstance(value, dict) and _is_map(field):
            document[name] = {key: convert(item) for key, item in value.items()}
        else:
            document[name] = convert(value)


def _conversion(field: FieldDescriptor) -> Callable[[Any], Any] | None:
    if field.message_type is not None and _is_map(field):
        return _conversion(field.message_type.fields_by_name["value"])
    if field.cpp_type in _LARGE:
        return int
    if field.enum_type is not None:
        prefix = _prefix(field.enum_type)
        return lambda name: name.removeprefix(prefix) if isinstance(name, str) else name
    if field.message_type is not None and not field.message_type.full_name.startswith("google.protobuf."):
        return _inner(field.message_type.fields_by_name)
    return None


def _inner(fields: Mapping[str, Any]) -> Callable[[Any], Any]:
    def convert(document: Document) -> Document:
        _convert(document, fields)
        return document

    return convert


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
