"""Write the OpenAPI 3.1 document of the transcoded routes from the proto descriptors."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from kedge_bandit.adapters.rest.bindings import WHOLE_BODY, HttpBinding, path_field
from kedge_bandit.adapters.rest.calls import NDJSON
from kedge_bandit.adapters.rest.comments import comments_of
from kedge_bandit.adapters.rest.fields import is_nested, is_text, message_of
from kedge_bandit.adapters.rest.schemas import Schema, Schemas, is_required
from kedge_bandit.adapters.rest.templates import ONE, REST, PathTemplate

_STANDARD_METHODS: Final = frozenset({"GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"})
_NAMELESS: Final = re.compile(r"\*\*?|v[0-9]+\w*")
_ERROR: Final = "Error"
_ERROR_SCHEMA: Final[Schema] = {
    "type": "object",
    "description": "A google.rpc.Status; its details hold a google.rpc.ErrorInfo whose reason a program can act on.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "status", "message", "details"],
            "properties": {
                "code": {"type": "integer", "description": "HTTP status.", "minimum": 400, "maximum": 599},
                "status": {
                    "type": "string",
                    "description": "gRPC code.",
                    "enum": [code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK],
                },
                "message": {"type": "string", "description": "What is wrong and what to do."},
                "details": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["@type"],
                        "properties": {
                            "@type": {"type": "string"},
                            "reason": {"type": "string"},
                            "domain": {"type": "string"},
                            "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                    },
                },
            },
        }
    },
}


def openapi_document(
    bindings: Sequence[HttpBinding],
    *,
    title: str,
    version: str,
    descriptors: FileDescriptorSet | None = None,
    security: Literal["none", "bearer"] = "none",
) -> dict[str, object]:
    """Describe every binding.

    Args:
        bindings: what the application serves.
        title: of the API.
        version: of the API.
        descriptors: proto files with source info, for descriptions.
        security: whether calls carry a bearer token.
    """
    schemas = Schemas(comments_of(descriptors))
    paths: dict[str, dict[str, object]] = {}
    for binding in bindings:
        if binding.method in _STANDARD_METHODS:
            paths.setdefault(path_of(binding.template), {})[binding.method.lower()] = _operation(binding, schemas)
    components: dict[str, object] = {"schemas": {**schemas.components(), _ERROR: _ERROR_SCHEMA}}
    services = {binding.rpc.containing_service.full_name: binding.rpc.containing_service.name for binding in bindings}
    document: dict[str, object] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "tags": [_tag(short, schemas.comment(full)) for full, short in services.items()],
        "paths": paths,
        "components": components,
    }
    if security == "bearer":
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"bearer": []}]
    return document


def path_of(template: PathTemplate) -> str:
    """Write a template as OpenAPI does, one parameter for each wildcard.

    >>> from kedge_bandit.adapters.rest.templates import parse_template
    >>> path_of(parse_template("/v1/{name=tenants/*/policies/*}:freeze"))
    '/v1/tenants/{tenant}/policies/{policy}:freeze'
    """
    names = dict(_parameter_names(template))
    path = "/".join(f"{{{names[i]}}}" if i in names else segment for i, segment in enumerate(template.segments))
    return f"/{path}:{template.verb}" if template.verb else f"/{path}"


def _parameter_names(template: PathTemplate) -> Iterator[tuple[int, str]]:
    """Name each ``*`` after the collection before it, others "resource"; paths of one shape have the same names."""
    used: set[str] = set()
    for index, segment in enumerate(template.segments):
        if segment in (ONE, REST):
            before = template.segments[index - 1] if index else ONE
            name = _singular(before) if segment == ONE and not _NAMELESS.fullmatch(before) else "resource"
            while name in used:
                name += "_"
            used.add(name)
            yield index, name


def _singular(collection: str) -> str:
    """Name one element of a collection.

    >>> _singular("policies"), _singular("tenants")
    ('policy', 'tenant')
    """
    if collection.endswith("ies"):
        return f"{collection[:-3]}y"
    return collection.removesuffix("s")


def _tag(name: str, comment: str) -> Schema:
    return {"name": name, "description": comment} if comment else {"name": name}


def _operation(binding: HttpBinding, schemas: Schemas) -> Schema:
    service = binding.rpc.containing_service.name
    suffix = f"_{binding.position + 1}" if binding.position else ""
    operation: Schema = {
        "operationId": f"{service}_{binding.rpc.name}{suffix}",
        "tags": [service],
        "parameters": [*_path_parameters(binding, schemas), *_query_parameters(binding, schemas)],
        "responses": {
            "200": {"description": "Success.", "content": _response_content(binding, schemas)},
            "default": {
                "description": "Any failure.",
                "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{_ERROR}"}}},
            },
        },
    }
    if binding.body:
        operation["requestBody"] = _request_body(binding, schemas)
    if comment := schemas.comment(binding.rpc.full_name):
        operation["summary"] = " ".join(comment.split("\n\n")[0].split()).partition(". ")[0].removesuffix(".")
        operation["description"] = comment
    if binding.rpc.GetOptions().deprecated:
        operation["deprecated"] = True
    return operation


def _path_parameters(binding: HttpBinding, schemas: Schemas) -> Iterator[Schema]:
    template = binding.template
    for index, name in _parameter_names(template):
        schema: Schema = {"type": "string", "minLength": 1}
        for variable in template.variables:
            field = path_field(binding.rpc.input_type, variable.field)
            if variable.single and variable.start == index and field is not None:
                schema = {**schemas.parameter(field), **({"minLength": 1} if field.type == field.TYPE_STRING else {})}
        parameter: Schema = {"name": name, "in": "path", "required": True, "schema": schema}
        if template.segments[index] == REST:
            parameter["description"] = "One or more segments; slashes are part of it."
        yield parameter


def _query_parameters(binding: HttpBinding, schemas: Schemas) -> Iterator[Schema]:
    if binding.body == WHOLE_BODY:
        return
    bound = {variable.field for variable in binding.template.variables}
    for path, fields in _text_fields(binding.rpc.input_type, (), frozenset()):
        if path in bound or path[0] == binding.body:
            continue
        leaf = fields[-1]
        parameter: Schema = {
            "name": ".".join(field.json_name for field in fields),
            "in": "query",
            "required": all(is_required(field) for field in fields),
            "schema": schemas.parameter(leaf),
        }
        if comment := schemas.comment(leaf.full_name):
            parameter["description"] = comment
        yield parameter


def _text_fields(
    message: Descriptor, above: tuple[FieldDescriptor, ...], open_types: frozenset[str]
) -> Iterator[tuple[tuple[str, ...], tuple[FieldDescriptor, ...]]]:
    """Walk to every field that a query parameter can name; a message inside itself is not walked again."""
    open_types |= {message.full_name}
    for field in message.fields:
        fields = (*above, field)
        if is_text(field):
            yield tuple(each.name for each in fields), fields
        elif is_nested(field) and (inside := message_of(field)).full_name not in open_types:
            yield from _text_fields(inside, fields, open_types)


def _request_body(binding: HttpBinding, schemas: Schemas) -> Schema:
    message = binding.rpc.input_type
    bound = frozenset(variable.field for variable in binding.template.variables)
    if binding.body != WHOLE_BODY:
        field = message.fields_by_name[binding.body]
        inside = frozenset(path[1:] for path in bound if path[0] == binding.body)
        schema = schemas.object(message_of(field), left_out=inside) if inside else schemas.field(field)
    else:
        schema = schemas.object(message, left_out=bound) if bound else schemas.message(message)
    return {"required": bool(schema.get("required")), "content": {"application/json": {"schema": schema}}}


def _response_content(binding: HttpBinding, schemas: Schemas) -> Schema:
    message = binding.rpc.output_type
    if binding.response_body:
        schema = schemas.field(message.fields_by_name[binding.response_body])
    else:
        schema = schemas.message(message)
    if not binding.rpc.server_streaming:
        return {"application/json": {"schema": schema}}
    line = {"oneOf": [schema, {"$ref": f"#/components/schemas/{_ERROR}"}]}
    note = "One JSON value a line; a failure after the first line is a last line with an error."
    return {NDJSON: {"schema": {**line, "description": note}}}
