"""Make messages for any RPC from its descriptor: first as its comments ask, then spoiled in one of many ways."""

import re
import string
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

MANY = 10_000
LONG = 100_000
DEPTH = 6
NOW = 1_790_000_000

SURROGATE_MARK = "\x7f\x7e\x7f"
"""Stands for a lone surrogate, which no string object may hold; on the wire its three bytes are put in its place."""
SURROGATE = b"\xed\xa0\x80"

HOSTILE = (
    "",
    "\x00",
    "before\x00after",
    SURROGATE_MARK,
    "a" + SURROGATE_MARK + "b",
    "\u202egnirts\u202c",
    "مرحبا \u2067שלום\u2069",
    "e\u0301 \u200b\ufeff\U0001f469\u200d\U0001f52c \ufdd0 \U0010ffff",
    "'; DROP SCHEMA control CASCADE; --",
    '"; SELECT pg_sleep(30); --',
    "$$ || (SELECT version()) || $$",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "../../../../etc/passwd",
    "file:///etc/passwd\r\nX-Injected: 1",
    "%s%s%s%n%x %(name)s {0.__class__} {name!r} ${HOME} `id`",
    "\x1b[2J\x1b]0;title\x07\x1b[31mred\x9b31m",
    'line one\nline two\r{"level": "error", "event": "forged"}',
    "\t \u00a0\u2028\u2029 ",
    "NaN",
    "-0",
    "9" * 400,
    "name@" + "f" * 12 + "|" * 50,
    "tenants/fuzzed/policies/../../control",
    "tenants//policies/",
    "tenants/*/policies/*",
    "kdg_00000000_" + "A" * 43,
    "x" * LONG,
    "\U0001f4a9" * (LONG // 4),
)
NUMBERS = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 5e-324, 1.7976931348623157e308, -1.0, 1e18, 2.0**63)
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), -1, 0, 1, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), -1, 0, 99, 2**31 - 1),
}
_RANGE = re.compile(r"[\[(](-?[.\d]+), (-?[.\d]+)[\])]")
_LENGTH = re.compile(r"\b1 to ([\d,]+)")


@dataclass(frozen=True, slots=True)
class Messages:
    """Draw messages, all from one seeded generator.

    Attributes:
        comments: of the proto files, by full name; they state ranges and the form of names.
        known: values that exist, by a field's name or full name, or by the form that its comment states.
        seeds: whole messages that are right, by their type's full name.
    """

    random: Random
    comments: Mapping[str, str]
    known: Mapping[str, list[Any]]
    seeds: Mapping[str, list[Message]]

    def wire(self, kind: Descriptor) -> bytes:
        """Draw one message as it goes over the wire: a quarter right, half spoiled in fields, a quarter in bytes."""
        message = self.right(kind)
        fate = self.random.random()
        if fate < 0.25:
            return message.SerializeToString()
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            self._spoil(message)
        sent = message.SerializeToString().replace(SURROGATE_MARK.encode(), SURROGATE)
        return sent if fate < 0.75 else self._spoiled_bytes(sent)

    def right(self, kind: Descriptor, depth: int = 0) -> Message:
        """Draw a message whose fields are as their comments ask."""
        if kind.full_name in self.seeds and self.random.random() < 0.8:
            message = GetMessageClass(kind)()
            message.CopyFrom(self.random.choice(self.seeds[kind.full_name]))
            return message
        if kind.full_name == Timestamp.DESCRIPTOR.full_name:
            return Timestamp(seconds=NOW + self.random.randint(-86400, 86400))
        if kind.full_name == Duration.DESCRIPTOR.full_name:
            return Duration(seconds=self.random.randint(0, 3600))
        message = GetMessageClass(kind)()
        for field in kind.fields:
            is_chosen = field.containing_oneof is None or self.random.random() < 0.5
            if is_chosen and self.random.random() < 0.85 and depth < DEPTH:
                self._fill(message, field, depth)
        return message

    def _fill(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._fill_map(value, field.message_type, self.random.randint(0, 3))
        elif field.is_repeated and field.message_type is not None:
            value.extend([self.right(field.message_type, depth + 1) for _ in range(self.random.randint(0, 3))])
        elif field.is_repeated:
            value.extend([self._scalar(field) for _ in range(self.random.randint(0, 3))])
        elif field.message_type is not None:
            value.CopyFrom(self.right(field.message_type, depth + 1))
        else:
            setattr(message, field.name, self._scalar(field))

    def _fill_map(self, value: Any, entry: Descriptor, entries: int) -> None:
        for number in range(entries):
            item = entry.fields_by_name["value"]
            content = NUMBERS[3] if item.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else self._scalar(item)
            value[self._word() + str(number)] = content

    def _scalar(self, field: FieldDescriptor) -> Any:
        comment = self.comments.get(field.full_name, "")
        for form, values in self.known.items():
            if form in (field.name, field.full_name) or (not form.isidentifier() and comment.startswith(form)):
                return self.random.choice(values)
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return self.random.randbytes(self.random.randint(0, 64))
            case FieldDescriptor.CPPTYPE_STRING:
                found = _LENGTH.search(comment)
                longest = min(int(found[1].replace(",", "")), 64) if found else 20
                return self._word()[:longest]
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.random.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.random.choice([value.number for value in _enum(field).values])
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                found = _RANGE.search(comment)
                return self.random.uniform(*map(float, found.groups())) if found else self.random.uniform(0, 2)
            case _:
                return self.random.randint(0, 3)

    def _word(self) -> str:
        return "".join(self.random.choices(string.ascii_lowercase, k=self.random.randint(1, 20)))

    def _spoil(self, message: Message) -> None:
        """Spoil one field of the message or of a message in it."""
        kind = message.DESCRIPTOR
        if not kind.fields:
            return
        field: Any = self.random.choice(kind.fields)
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._spoil_map(value, field.message_type)
        elif field.is_repeated:
            self._spoil_list(value, field)
        elif field.message_type is None:
            message.ClearField(field.name)
            if self.random.random() < 0.8:
                setattr(message, field.name, self._bad(field))
        elif self.random.random() < 0.15:
            message.ClearField(field.name)
        else:
            self._spoil(value)
            value.SetInParent()

    def _spoil_list(self, value: Any, field: FieldDescriptor) -> None:
        fate = self.random.random()
        if fate < 0.2:
            del value[:]
        elif fate < 0.3:
            item = self.right(field.message_type, DEPTH - 1) if field.message_type is not None else self._scalar(field)
            value.extend([item] * MANY)
        elif field.message_type is None:
            value.append(self._bad(field))
        elif value:
            self._spoil(self.random.choice(value))
        else:
            value.append(GetMessageClass(field.message_type)())

    def _spoil_map(self, value: Any, entry: Descriptor) -> None:
        item = entry.fields_by_name["value"]
        if self.random.random() < 0.1:
            for number in range(MANY // 10):
                value[f"key{number}"] = self._bad(item, short=True)
        else:
            value[self.random.choice(HOSTILE[:-2])] = self._bad(item)

    def _bad(self, field: FieldDescriptor, *, short: bool = False) -> Any:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
                return self.random.choice((b"", b"\x00", self.random.randbytes(200), b"x" * (1 if short else LONG)))
            case FieldDescriptor.CPPTYPE_STRING:
                return self.random.choice(HOSTILE[:20] if short else HOSTILE)
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.random.random() < 0.5
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self.random.choice(NUMBERS)
            case kind:
                return self.random.choice(_INTEGERS[kind])

    def _spoiled_bytes(self, sent: bytes) -> bytes:
        ways: tuple[Callable[[bytes], bytes], ...] = (
            lambda _: self.random.randbytes(self.random.choice((0, 1, 7, 100, 5000))),
            lambda sent: sent[: self.random.randint(0, len(sent))],
            self._flipped,
            lambda sent: sent + b"\xfa\x3f\x03abc" + b"\xf8\x3f\x01",  # fields 1023, which nobody declares
            lambda sent: sent + sent,
            lambda sent: sent + b"\x0b" * 300 + b"\x0c" * 300,  # groups in groups, 300 deep
            lambda sent: sent + _nested(200),
            lambda sent: sent + b"\x0a\xff\xff\xff\xff\x0f",  # a length beyond the end
            lambda sent: sent + b"\x0a\x04\xff\xfe\xc0\x80",  # no UTF-8
            lambda sent: sent + b"\x09" + struct.pack("<d", float("nan")),
        )
        return self.random.choice(ways)(sent)

    def _flipped(self, sent: bytes) -> bytes:
        spoiled = bytearray(sent)
        for _ in range(self.random.randint(1, 8)):
            if spoiled:
                spoiled[self.random.randrange(len(spoiled))] ^= 1 << self.random.randrange(8)
        return bytes(spoiled)


def _enum(field: FieldDescriptor) -> EnumDescriptor:
    assert field.enum_type is not None
    return field.enum_type


def _nested(depth: int) -> bytes:
    """Put field 1 into field 1 and so on."""
    inner = b""
    for _ in range(depth):
        size, length = len(inner), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        inner = b"\x0a" + length + bytes([size]) + inner
    return inner
