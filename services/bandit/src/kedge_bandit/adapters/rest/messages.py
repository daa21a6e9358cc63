"""Build a request message from path, query and body, and write a response as JSON."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import parse_qsl

import orjson
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from kedge_bandit.adapters.rest.bindings import WHOLE_BODY, HttpBinding, path_field
from kedge_bandit.adapters.rest.fields import find_field, is_nested, is_text, message_of, shown, text_value, wrong_value
from kedge_bandit.adapters.rest.json_body import check_message, load_json
from kedge_bandit.adapters.rest.status import Reason, RequestRefused, refuse
from kedge_bandit.adapters.rest.templates import Variable

MAX_QUERY_PARAMETERS: Final = 1000
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBuilder:
    """Make the request message of one binding.

    Attributes:
        binding: what to build for.
        message: class of the request.
        bound: field paths that the path already sets, as the proto spells them.
    """

    binding: HttpBinding
    message: type[Message]
    bound: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, binding: HttpBinding) -> Self:
        """Prepare everything that does not depend on the request."""
        return cls(
            binding=binding,
            message=message_factory.GetMessageClass(binding.rpc.input_type),
            bound=frozenset(variable.field for variable in binding.template.variables),
        )

    def build(self, variables: Iterable[tuple[Variable, str]], query: bytes, body: bytes) -> Message:
        """Build the request message.

        Args:
            variables: the path's variables with their decoded text.
            query: the raw query string.
            body: the raw body; empty is the same as an empty object.

        Raises:
            RequestRefused: anything in it is not what the proto says.
        """
        message = self.message()
        if self.binding.body:
            self._merge_body(message, body)
        elif body.strip() not in (b"", b"{}"):
            raise refuse(Reason.INVALID_VALUE, "This call takes no body; use path and query parameters.")
        if query:
            _merge(self._query_tree(query), message)
        for variable, text in variables:
            self._merge_variable(message, variable, text)
        return message

    def _merge_body(self, message: Message, body: bytes) -> None:
        if not body.strip():
            return
        value = load_json(body)
        if self.binding.body != WHOLE_BODY:
            if value is None:
                raise wrong_value("body", f"the value of {self.binding.body!r}", value)
            value = {self.binding.body: value}
        try:
            check_message(self.binding.rpc.input_type, value, "")
            _merge(value, message)
        except RecursionError:
            raise refuse(Reason.MALFORMED_JSON, "The body is nested too deeply; flatten it.") from None

    def _query_tree(self, query: bytes) -> dict[str, object]:
        tree: dict[str, object] = {}
        for name, text in _query_pairs(query):
            fields = _follow(self.binding.rpc.input_type, name)
            path = tuple(field.name for field in fields)
            if path in self.bound or path[0] == self.binding.body or self.binding.body == WHOLE_BODY:
                place = "path" if path in self.bound else "body"
                message = f"Query parameter {shown(name)} is not taken here; this call reads it from the {place}."
                raise refuse(Reason.UNKNOWN_FIELD, message, field=name[:200])
            _place(tree, fields, text_value(fields[-1], text, name), name)
        return tree

    def _merge_variable(self, message: Message, variable: Variable, text: str) -> None:
        field = path_field(self.binding.rpc.input_type, variable.field)
        assert field is not None  # noqa: S101 - bindings.py checked it at start
        at = ".".join(variable.field)
        stated = _read(message, variable.field)
        tree: object = text_value(field, text, at)
        for name in reversed(variable.field):
            tree = {name: tree}
        _merge(tree, message)
        if stated is not None and stated != (said := _read(message, variable.field)):
            problem = f"The body's {shown(at)} is {shown(stated)}, the path's {shown(said)}; leave it out of the body."
            raise refuse(Reason.INVALID_VALUE, problem, field=at)


def _merge(tree: Any, message: Message) -> None:  # Any JSON value; json_format's stub asks for an object
    try:
        json_format.ParseDict(tree, message)
    except (json_format.ParseError, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        problem = _SPACE.sub(" ", str(error))[:300]
        raise refuse(Reason.INVALID_VALUE, f"The request does not fit {message.DESCRIPTOR.name}: {problem}") from error


def _query_pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        text = query.decode("ascii")
        return parse_qsl(
            text, keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MAX_QUERY_PARAMETERS
        )
    except UnicodeDecodeError:
        raise refuse(Reason.INVALID_VALUE, "The query string is not percent-encoded UTF-8.") from None
    except ValueError:
        problem = f"The query string has more than {MAX_QUERY_PARAMETERS} parameters."
        raise refuse(Reason.INVALID_VALUE, problem) from None


def _follow(message: Descriptor, dotted: str) -> list[FieldDescriptor]:
    *above, last = dotted.split(".")
    fields: list[FieldDescriptor] = []
    inside = message
    for name in above:
        fields.append(find_field(inside, name, dotted))
        if not is_nested(fields[-1]):
            raise _no_query_form(dotted)
        inside = message_of(fields[-1])
    fields.append(find_field(inside, last, dotted))
    if not is_text(fields[-1]):
        raise _no_query_form(dotted)
    return fields


def _no_query_form(dotted: str) -> RequestRefused:
    problem = f"Query parameter {shown(dotted)} is no single value; name scalar fields, nested ones by dots."
    return refuse(Reason.UNKNOWN_FIELD, problem, field=dotted[:200])


def _place(tree: dict[str, object], fields: Sequence[FieldDescriptor], value: object, name: str) -> None:
    for field in fields[:-1]:
        branch = tree.setdefault(field.name, {})
        assert isinstance(branch, dict)  # noqa: S101 - _follow let only messages through
        tree = branch
    leaf = fields[-1]
    if leaf.is_repeated:
        values = tree.setdefault(leaf.name, [])
        assert isinstance(values, list)  # noqa: S101 - the only writer of a repeated leaf
        values.append(value)
    elif leaf.name in tree:
        raise refuse(Reason.INVALID_VALUE, f"Query parameter {shown(name)} is given twice; send one.", field=name[:200])
    else:
        tree[leaf.name] = value


def _read(message: Message, path: Sequence[str]) -> object | None:
    """Read a scalar at a path, None where it is unset."""
    for name in path[:-1]:
        if not message.HasField(name):
            return None
        message = getattr(message, name)
    value: object = getattr(message, path[-1])
    return value or None


def to_json(message: Message, response_body: str = "") -> bytes:
    """Write a response as JSON: camelCase, fields without presence always printed, int64 as strings.

    Args:
        message: the response.
        response_body: top-level field to write alone, "" for the whole message.
    """
    tree = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    if not response_body:
        return orjson.dumps(tree)
    name = message.DESCRIPTOR.fields_by_name[response_body].json_name
    return orjson.dumps(tree.get(name))
