"""Map keys, persons and bindings between the wire and the domain."""

from kedge.bandit.v1 import tenant_service_pb2 as pb
from kedge_bandit.adapters.grpc.wire import moment, timestamp
from kedge_bandit.adapters.grpc.wire_governance import ROLE, role_of
from kedge_bandit.application.identify import KeyWish
from kedge_bandit.application.identity_ports import KeptBinding, KeptKey
from kedge_bandit.domain.errors import InvalidName
from kedge_bandit.domain.identifiers import TenantId, tenant_id, text_id
from kedge_bandit.domain.principal import Person


def key_wish(request: pb.CreateKeyRequest) -> KeyWish:
    """Read what a key should be. Raises InvalidValue."""
    return KeyWish(
        principal=request.principal,
        role=role_of(request.role),
        person=Person(request.person.issuer, request.person.subject) if request.HasField("person") else None,
        expire_time=moment(request.expire_time, field="expire_time") if request.HasField("expire_time") else None,
    )


def parse_key(name: str) -> tuple[TenantId, str]:
    """Read `tenants/{tenant}/keys/{key}`.

    >>> parse_key("tenants/acme/keys/0000abcd")
    ('acme', '0000abcd')

    Raises:
        InvalidName: it is something else.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "keys":
        raise InvalidName("name", name[:80], "tenants/{tenant}/keys/{key}")
    return tenant_id(parts[1]), text_id(parts[3], field="key")


def page_token_of(page_token: str) -> str:
    """Read the name after which a page begins; empty for the first page. Raises InvalidName."""
    return text_id(page_token, field="page_token") if page_token else ""


def key_message(kept: KeptKey) -> pb.Key:
    """Put a key on the wire."""
    key = kept.key
    message = pb.Key(
        name=f"tenants/{key.tenant}/keys/{key.key_id}",
        principal=key.principal,
        role=ROLE[key.role],
        create_time=timestamp(kept.create_time),
    )
    if key.person is not None:
        message.person.issuer, message.person.subject = key.person.issuer, key.person.subject
    if key.expire_time is not None:
        message.expire_time.FromDatetime(key.expire_time)
    if kept.revoke_time is not None:
        message.revoke_time.FromDatetime(kept.revoke_time)
    return message


def identity_message(kept: KeptBinding) -> pb.Identity:
    """Put a binding on the wire."""
    return pb.Identity(name=kept.binding.name, role=ROLE[kept.binding.role], create_time=timestamp(kept.create_time))
