"""Fill the request of any RPC by its descriptor with names of somebody's choosing, and call it; compare the answers."""

import random
import re
from dataclasses import dataclass, fields
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2

from kedge_bandit.adapters.grpc.status import STATUS_DETAILS_KEY
from kedge_bandit.adapters.rest.transcode import http_rules

SECONDS = 60.0
_PATTERN = re.compile(r"\{([a-z_.]+)=([^}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Everything by which a caller can name something; every part may come from somebody else."""

    tenant: str
    policy: str
    decision: str
    episode: str
    token: bytes
    key: str
    content: str
    action: str
    page: str

    def at(self, pattern: str) -> str:
        """Write a resource name of a pattern such as tenants/*/decisions/*."""
        last = {"policies": self.policy, "decisions": self.decision}
        if pattern == "**":
            return f"tenants/{self.tenant}/policies/{self.policy}"
        written: list[str] = []
        for part in pattern.split("/"):
            if part != "*":
                written.append(part)
            else:
                written.append(self.tenant if written[-1] == "tenants" else last.get(written[-1], "none"))
        return "/".join(written)

    def mixed(self, other: "Names", chance: random.Random) -> "Names":
        """Take each part from one of two."""
        parts = {field.name: getattr(chance.choice((self, other)), field.name) for field in fields(Names)}
        return Names(**parts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to: code, message and details as the wire has them, and the bytes of what was answered."""

    code: str
    message: str
    details: str
    body: bytes

    def without(self, names: Names) -> tuple[str, str, str]:
        """The refusal with the caller's own names taken out, since it may repeat them."""
        said = (self.code, self.message, self.details)
        parts = sorted((str(getattr(names, field.name)) for field in fields(Names)), key=len, reverse=True)
        for part in parts:
            said = (said[0], said[1].replace(part, "*"), said[2].replace(part, "*")) if len(part) > 1 else said
        return said


def filled(rpc: MethodDescriptor, names: Names, chance: random.Random) -> Message:
    """Make a request of an RPC that names what it is given, in every field that can name anything."""
    request: Message = GetMessageClass(rpc.input_type)()
    _fill(request, names, chance, depth=0)
    for rule in http_rules(rpc.containing_service):
        if rule.rpc.name == rpc.name:
            for path, pattern in _PATTERN.findall(rule.template.text):
                _put(request, path.split("."), names.at(pattern))
    return request


def _put(message: Message, path: list[str], value: str) -> None:
    target: Any = message
    for part in path[:-1]:
        target = getattr(target, part)
    setattr(target, path[-1], value)


def _fill(message: Message, names: Names, chance: random.Random, *, depth: int) -> None:
    chosen = {one.name: chance.choice([field.name for field in one.fields]) for one in message.DESCRIPTOR.oneofs}
    declared: list[FieldDescriptor] = list(message.DESCRIPTOR.fields)  # type: ignore[arg-type]  # of another build
    for field in declared:
        oneof = field.containing_oneof
        if oneof is not None and chosen[oneof.name] != field.name:
            continue
        if field.message_type is not None:
            _fill_message(message, field, names, chance, depth)
        elif (value := _value(message, field, names)) is not None:
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


def _fill_message(message: Message, field: FieldDescriptor, names: Names, chance: random.Random, depth: int) -> None:
    inner = field.message_type
    if inner is None or inner.GetOptions().map_entry or depth > 3:
        return
    if inner.full_name == Timestamp.DESCRIPTOR.full_name:
        if not field.is_repeated and field.name == "observed_time":
            getattr(message, field.name).GetCurrentTime()
        return
    if inner.full_name.startswith("google."):
        return
    target = getattr(message, field.name)
    if field.is_repeated:
        target = target.add()
    else:
        target.SetInParent()
    _fill(target, names, chance, depth=depth + 1)


def _value(message: Message, field: FieldDescriptor, names: Names) -> Any:
    name, kind = field.name, field.type
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values if value.number]
        return numbers[0] if numbers else None
    if kind == FieldDescriptor.TYPE_BYTES:
        return names.token
    if kind != FieldDescriptor.TYPE_STRING:
        return None
    known = {
        "policy": names.at("tenants/*/policies/*"),
        "parent": names.at("tenants/*"),
        "tenant": names.at("tenants/*"),
        "decision": names.at("tenants/*/decisions/*"),
        "episode_id": names.episode,
        "request_id": names.key,
        "idempotency_key": names.key,
        "content_hash": names.content,
        "page_token": names.page,
        "end_user_id": names.episode,
        "because": "a test",
        "principal": "someone",
    }
    if name == "name":
        of = {"Tenant": "tenants/*", "Decision": "tenants/*/decisions/*", "Policy": "tenants/*/policies/*"}
        return names.at(of.get(message.DESCRIPTOR.name, "tenants/*/policies/*"))
    if name.endswith(("action_key", "action_keys")):
        return names.action
    return known.get(name)


def call(channel: grpc.Channel, rpc: MethodDescriptor, request: Message, key: str) -> Answer:
    """Call an RPC of any shape; of a stream that never ends, its first message."""
    ways = ("stream" if rpc.client_streaming else "unary", "stream" if rpc.server_streaming else "unary")
    method: Any = getattr(channel, "_".join(ways))(
        f"/{rpc.containing_service.full_name}/{rpc.name}",
        request_serializer=GetMessageClass(rpc.input_type).SerializeToString,
        response_deserializer=GetMessageClass(rpc.output_type).FromString,
    )
    sent: Any = iter((request,)) if rpc.client_streaming else request
    body = b""
    try:
        answer = method(sent, metadata=(("authorization", f"Bearer {key}"),), timeout=SECONDS, wait_for_ready=True)
        for each in answer if rpc.server_streaming else (answer,):
            body += each.SerializeToString()
            if rpc.name.startswith("Watch"):
                answer.cancel()
                break
    except grpc.RpcError as error:
        return _refused(error, body)
    return Answer("OK", "", "", body)


def _refused(error: grpc.RpcError, body: bytes) -> Answer:
    refused: Any = error
    packed = dict(refused.trailing_metadata() or ()).get(STATUS_DETAILS_KEY, b"")
    told: list[str] = []
    for detail in status_pb2.Status.FromString(packed).details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        known: Message = info if detail.Unpack(info) else retry
        told.append(str(known if known is info or detail.Unpack(retry) else detail))
    return Answer(refused.code().name, refused.details() or "", "".join(told), body)
