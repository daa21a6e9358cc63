"""Tell other services what happened: which audited verbs, under which signature, and how often it is tried.

Messages follow the Standard Webhooks convention (standardwebhooks.com): the signature is HMAC-SHA256, keyed with the
secret's bytes, over `id.timestamp.body`.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Final
from urllib.parse import urlsplit

from kedge_bandit.domain.audit import ChainedEvent
from kedge_bandit.domain.errors import InvalidName, InvalidValue, KedgeError
from kedge_bandit.domain.identifiers import TenantId, tenant_id

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every such secret begins with
SECRET_BYTES: Final = 32
LONGEST: Final = timedelta(hours=24)
"""How long a message is tried."""
MOST_VERBS: Final = 50
ANY: Final = "*"
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_FIRST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_PAUSE: Final = timedelta(hours=2)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_VERB: Final = re.compile(r"\*|[a-z]+\.(\*|[a-z_]+)")


class WebhookNotFound(KedgeError):
    """Say that the tenant has no such webhook or delivery."""

    reason: ClassVar[str] = "WEBHOOK_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} does not exist in this tenant: see `kedge webhook list`.")
        self.name = name


class DeliveryState(StrEnum):
    """What became of a message."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One receiver.

    Attributes:
        verbs: audited verbs such as "policy.frozen"; "proposal.*" for all of a noun, "*" for everything.
        secret: `whsec_` and base64 of 32 bytes; never read back by anybody.

    Raises:
        InvalidName, InvalidValue: on construction.
    """

    name: str
    url: str
    verbs: tuple[str, ...]
    secret: str

    def __post_init__(self) -> None:
        """Refuse what could not be told."""
        if not _NAME.fullmatch(self.name):
            raise InvalidName("webhook", self.name[:80], "1 to 63 characters of [a-z0-9-]")
        if not 1 <= len(self.verbs) <= MOST_VERBS or not all(_VERB.fullmatch(verb) for verb in self.verbs):
            raise InvalidValue("verbs", ", ".join(self.verbs)[:80] or "empty", "such as policy.frozen, proposal.* or *")

    def wants(self, verb: str) -> bool:
        """Say whether it is told of a verb.

        >>> hook = Webhook(name="chat", url="https://x.example", verbs=("ramp.*", "policy.frozen"), secret="")
        >>> [hook.wants(verb) for verb in ("ramp.advanced", "policy.frozen", "policy.staged", "rampage.begun")]
        [True, True, False, False]
        """
        noun = verb.partition(".")[0]
        return any(wanted in (ANY, verb, f"{noun}.*") for wanted in self.verbs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message to one receiver.

    Attributes:
        number: within its tenant.
        sequence: of the audit event; 0 for a test.
        due: of the next attempt; None where there is none.
        answer: to the newest attempt: a status, or why there was none.
    """

    number: int
    webhook: str
    sequence: int
    state: DeliveryState
    attempts: int
    create_time: datetime
    due: datetime | None
    answer: str
    answer_time: datetime | None


def check_url(url: str, hosts: Collection[str], *, allows_loopback: bool) -> None:
    """Refuse an address that nothing may be sent to.

    Args:
        hosts: that the operator allows; "*": any.
        allows_loopback: this machine may be told too, also without TLS.

    >>> check_url("https://hooks.example/kedge", ["hooks.example"], allows_loopback=False)

    Raises:
        InvalidValue: it is no https address, carries a password, or its host is not allowed.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_here = host in LOOPBACK and allows_loopback
    if parts.scheme not in ("https", "http") or not host or parts.username or parts.password or "\0" in url:
        raise InvalidValue("url", url[:80], "an https address without a password")
    if parts.scheme == "http" and not is_here:
        raise InvalidValue("url", url[:80], "https: messages name tenants and people")
    if not is_here and host not in hosts and ANY not in hosts:
        raise InvalidValue("url", url[:80], "a host that the operator allows in KEDGE_WEBHOOK_HOSTS")


def new_secret(random: bytes) -> str:
    """Write a secret as receivers take it.

    >>> new_secret(bytes(32))[:12]
    'whsec_AAAAAA'
    """
    return SECRET_PREFIX + base64.b64encode(random).decode()


def signature(secret: str, message_id: str, at: int, body: bytes) -> str:
    """Sign a message over its id, its time in Unix seconds, and its body.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...           b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{message_id}.{at}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def pause_after(attempts: int) -> timedelta:
    """Give the pause after so many attempts: 5 s, doubled each time, 2 h at most.

    >>> [pause_after(n).total_seconds() for n in (1, 2, 3, 20)]
    [5.0, 10.0, 20.0, 7200.0]
    """
    doubled: int = 1 << min(attempts - 1, 20)
    return min(_FIRST_PAUSE * doubled, _LONGEST_PAUSE)


def after_attempt(delivery: Delivery, now: datetime, *, delivered: bool) -> tuple[DeliveryState, datetime | None]:
    """Say what becomes of a message after an attempt, its `attempts` counted, and when the next one is due."""
    if delivered:
        return DeliveryState.DELIVERED, None
    due = now + pause_after(delivery.attempts)
    if due > delivery.create_time + LONGEST:
        return DeliveryState.FAILED, None
    return DeliveryState.PENDING, due


def id_of(tenant: TenantId, delivery: Delivery) -> str:
    """Name an event, the same at every attempt and for every receiver; a receiver drops what it has seen."""
    if delivery.sequence:
        return f"{tenant}.{delivery.sequence}"
    return f"{tenant}.test-{delivery.number}"


def body_of(tenant: TenantId, event: ChainedEvent | None, at: datetime) -> bytes:
    """Write an audit event for receivers; None writes a test. Facts that were erased stay away."""
    document: dict[str, object] = {"type": "webhook.test", "tenant": f"tenants/{tenant}", "time": _written(at)}
    if event is not None:
        document |= {
            "type": event.verb,
            "time": _written(event.time),
            "sequence": event.sequence,
            "subject": event.subject,
            "actor": event.actor,
            "because": event.because,
            "facts": json.loads(event.payload or "{}"),
        }
    return json.dumps(document, separators=(",", ":")).encode()


def parse_webhook(name: str) -> tuple[TenantId, str]:
    """Read `tenants/{tenant}/webhooks/{webhook}`. Raises InvalidName."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "webhooks" or not _NAME.fullmatch(parts[3]):
        raise InvalidName("name", name[:80], "tenants/{tenant}/webhooks/{webhook}, the last of [a-z0-9-]")
    return tenant_id(parts[1]), parts[3]


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
