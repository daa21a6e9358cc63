"""Name things: tenants, policies, decisions, episodes, and the resource names that carry them on the wire."""

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

from kedge_bandit.domain.errors import InvalidName

TenantId = NewType("TenantId", str)
PolicyName = NewType("PolicyName", str)
DecisionId = NewType("DecisionId", str)
EpisodeId = NewType("EpisodeId", str)

MAX_ID_CHARACTERS = 128

_TENANT = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_POLICY = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def tenant_id(text: str) -> TenantId:
    """Check a tenant's own name: 1 to 40 characters of [a-z0-9-], starting with a letter.

    >>> tenant_id("acme-eu")
    'acme-eu'

    Raises:
        InvalidName: the text is something else.
    """
    if not _TENANT.match(text):
        raise InvalidName("tenant", text, "1 to 40 characters of [a-z0-9-], starting with a letter")
    return TenantId(text)


def policy_name(text: str) -> PolicyName:
    """Check a policy's own name: 1 to 64 characters of [a-z0-9_-], starting with a letter.

    Raises:
        InvalidName: the text is something else.
    """
    if not _POLICY.match(text):
        raise InvalidName("policy", text, "1 to 64 characters of [a-z0-9_-], starting with a letter")
    return PolicyName(text)


def text_id(text: str, *, field: str) -> str:
    """Check an id that a caller made: 1 to 128 characters, none of them zero.

    Raises:
        InvalidName: it is empty, too long or holds a zero character.
    """
    if not text or len(text) > MAX_ID_CHARACTERS or "\0" in text:
        raise InvalidName(field, text[:40], "1 to 128 characters without a zero character")
    return text


def parse_tenant(name: str) -> TenantId:
    """Read `tenants/{tenant}`.

    >>> parse_tenant("tenants/acme")
    'acme'
    """
    kind, _, rest = name.partition("/")
    if kind != "tenants":
        raise InvalidName("name", name[:80], "tenants/{tenant}")
    return tenant_id(rest)


def parse_policy(name: str) -> tuple[TenantId, PolicyName]:
    """Read `tenants/{tenant}/policies/{policy}`.

    >>> parse_policy("tenants/acme/policies/support")
    ('acme', 'support')
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "policies":
        raise InvalidName("name", name[:80], "tenants/{tenant}/policies/{policy}")
    return tenant_id(parts[1]), policy_name(parts[3])


def parse_decision(name: str) -> tuple[TenantId, DecisionId]:
    """Read `tenants/{tenant}/decisions/{decision}`; the last part is a UUID."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "decisions" or not _UUID.match(parts[3]):
        raise InvalidName("name", name[:80], "tenants/{tenant}/decisions/{decision}, a UUID at the end")
    return tenant_id(parts[1]), DecisionId(parts[3])


def made_at(decision: DecisionId) -> datetime:
    """Read when a decision was made from its UUIDv7, to the millisecond.

    Raises:
        InvalidName: its time is beyond the year 9999.

    >>> made_at(decision_id(1_700_000_000_123, 0)).isoformat()
    '2023-11-14T22:13:20.123000+00:00'
    """
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(decision[:8] + decision[9:13], 16))
    except OverflowError as error:
        raise InvalidName(
            "decision", decision, "the id that Decide answered: its time is beyond the year 9999"
        ) from error


def decision_id(milliseconds: int, randomness: int) -> DecisionId:
    """Make a UUIDv7 (RFC 9562 §5.7) of a time and 74 random bits.

    Args:
        milliseconds: since the Unix epoch, under 2**48.
        randomness: at least 74 random bits; higher ones are ignored.

    >>> decision_id(0x0123456789AB, 0)
    '01234567-89ab-7000-8000-000000000000'
    """
    high = f"{milliseconds:012x}"
    a = f"{randomness & 0xFFF:03x}"
    b = f"{0x8000000000000000 | (randomness >> 12) & 0x3FFFFFFFFFFFFFFF:016x}"
    return DecisionId(f"{high[:8]}-{high[8:]}-7{a}-{b[:4]}-{b[4:]}")
