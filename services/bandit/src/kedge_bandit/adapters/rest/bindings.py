"""Read google.api.http annotations and find the binding that a request asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor

from kedge_bandit.adapters.rest.templates import ONE, PathTemplate, parse_template, split_path, split_verb

WHOLE_BODY: Final = "*"
_HTTP: Final[Any] = annotations_pb2.http  # its stub has the class of a field, not of an extension


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpBinding:
    """Tie one RPC to one HTTP method and path.

    Attributes:
        rpc: the method's descriptor.
        method: HTTP method, upper case.
        template: the path.
        body: "" for none, ``*`` for the whole request, or the name of a top-level field.
        response_body: "" for the whole response, or the name of a top-level field.
        position: 0 for the rule itself, then its additional bindings from 1.
    """

    rpc: MethodDescriptor
    method: str
    template: PathTemplate
    body: str
    response_body: str
    position: int

    @property
    def full_method(self) -> str:
        """The RPC as gRPC spells it: ``/package.Service/Method``."""
        return f"/{self.rpc.containing_service.full_name}/{self.rpc.name}"


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """Say which binding, by its place in the table, a request asks for, with the decoded segments of its path."""

    index: int
    segments: tuple[str, ...]


def http_rules(service: ServiceDescriptor) -> tuple[HttpBinding, ...]:
    """List every HTTP binding of a service, additional bindings included, in the order of the proto.

    Raises:
        ValueError: a rule names no path, a field that is not there or of the wrong kind, or annotates an RPC with a
            stream of requests, which plain HTTP cannot carry.
    """
    return tuple(binding for rpc in service.methods for binding in _bindings_of(rpc))


def _bindings_of(rpc: MethodDescriptor) -> Iterator[HttpBinding]:
    options = rpc.GetOptions()
    if not options.HasExtension(_HTTP):
        return
    if rpc.client_streaming:
        raise ValueError(f"{rpc.full_name}: an RPC with a stream of requests cannot have an HTTP rule")
    rule: http_pb2.HttpRule = options.Extensions[_HTTP]
    for position, each in enumerate((rule, *rule.additional_bindings)):
        method, path = _pattern(rpc, each)
        binding = HttpBinding(
            rpc=rpc,
            method=method,
            template=parse_template(path),
            body=each.body,
            response_body=each.response_body,
            position=position,
        )
        _check_fields(binding)
        yield binding


def _pattern(rpc: MethodDescriptor, rule: http_pb2.HttpRule) -> tuple[str, str]:
    kind = rule.WhichOneof("pattern")
    if kind is None:
        raise ValueError(f"{rpc.full_name}: the HTTP rule names no method and path")
    if kind == "custom":
        return rule.custom.kind.upper(), rule.custom.path
    return kind.upper(), str(getattr(rule, kind))


def _check_fields(binding: HttpBinding) -> None:
    where = binding.rpc.full_name
    if binding.body not in ("", WHOLE_BODY):
        _top_level_field(binding.rpc.input_type, binding.body, where)
    if binding.rpc.server_streaming and any(field.json_name == "error" for field in binding.rpc.output_type.fields):
        raise ValueError(f"{where}: a streamed message must not have a field 'error', the mark of a stream that failed")
    if binding.response_body:
        _top_level_field(binding.rpc.output_type, binding.response_body, where)
    for variable in binding.template.variables:
        field = path_field(binding.rpc.input_type, variable.field)
        if field is None or field.is_repeated or field.message_type is not None:
            raise ValueError(f"{where}: path variable {'.'.join(variable.field)!r} is no scalar field of the request")
        if not variable.single and field.type != FieldDescriptor.TYPE_STRING:
            raise ValueError(f"{where}: path variable {field.name!r} spans segments and must be a string")


def _top_level_field(message: Descriptor, name: str, where: str) -> None:
    if name not in message.fields_by_name:
        raise ValueError(f"{where}: the HTTP rule's body names {name!r}, which {message.full_name} does not have")


def path_field(message: Descriptor, names: Sequence[str]) -> FieldDescriptor | None:
    """Follow proto field names from a message to a field, None where a name leads nowhere."""
    found: FieldDescriptor | None = None
    inside: Descriptor | None = message
    for name in names:
        found = inside.fields_by_name.get(name) if inside is not None else None
        if found is None:
            return None
        inside = found.message_type
    return found


class RouteTable:
    """Find a request's binding by HTTP method, verb and number of segments, without trying every route."""

    def __init__(self, bindings: Sequence[HttpBinding]) -> None:
        """Index the bindings once.

        Raises:
            ValueError: two bindings answer the same method and path.
        """
        self._templates = tuple(binding.template for binding in bindings)
        self._fixed: dict[tuple[str, str, int], list[int]] = {}
        self._open: dict[tuple[str, str], list[int]] = {}
        self._methods = tuple(sorted({binding.method for binding in bindings}))
        seen: dict[tuple[str, str, tuple[str, ...]], HttpBinding] = {}
        for index, binding in enumerate(bindings):
            template = binding.template
            twin = seen.setdefault((binding.method, template.verb, template.segments), binding)
            if twin is not binding:
                raise ValueError(f"{binding.rpc.full_name} and {twin.rpc.full_name} both answer {template.text}")
            if template.is_open:
                self._open.setdefault((binding.method, template.verb), []).append(index)
            else:
                key = (binding.method, template.verb, len(template.segments))
                self._fixed.setdefault(key, []).append(index)
        for group in (*self._fixed.values(), *self._open.values()):
            group.sort(key=self._wildcards)

    def find(self, method: str, raw_path: str) -> RouteMatch | None:
        """Find the binding for a method and a percent-encoded path; a verb wins over a colon inside an identifier."""
        path, verb = split_verb(raw_path)
        if verb and (found := self._find(method, verb, path)) is not None:
            return found
        return self._find(method, "", raw_path)

    def allowed(self, raw_path: str) -> tuple[str, ...]:
        """List the HTTP methods that the path answers to."""
        return tuple(method for method in self._methods if self.find(method, raw_path) is not None)

    def _find(self, method: str, verb: str, path: str) -> RouteMatch | None:
        segments = split_path(path)
        if segments is None:
            return None
        fixed = self._fixed.get((method, verb, len(segments)), ())
        for index in (*fixed, *self._open.get((method, verb), ())):
            if self._templates[index].matches(segments):
                return RouteMatch(index, segments)
        return None

    def _wildcards(self, index: int) -> tuple[bool, ...]:
        """Order literal segments before wildcards, position by position from the left."""
        return tuple(segment.startswith(ONE) for segment in self._templates[index].segments)
