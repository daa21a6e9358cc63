"""Make and recognise API keys: `kdg_<key id>_<secret>`, of which only the secret's hash is kept."""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Maker, Person, Principal, Role

PREFIX = "kdg_"
SECRET_BYTES = 32
KEY_ID_BYTES = 4

_KEY_ID_END = len(PREFIX) + 2 * KEY_ID_BYTES
_LENGTH = _KEY_ID_END + 1 + 43  # 43 characters of base64url are 256 bits
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What is kept of a key.

    Attributes:
        key_id: 8 lower-case hex digits.
        key_hash: SHA-256 of the secret.
        principal: who holds it, e.g. "core-app".
        tenant: the only one it may name; None for operators.
        person: whom it stands for; None for a program.
        made_by: who made it.
        expire_time: when it stops working; None: never.
    """

    key_id: str
    key_hash: bytes
    principal: str
    role: Role
    tenant: TenantId | None
    person: Person | None = None
    made_by: Maker = Maker()
    expire_time: datetime | None = None
    is_revoked: bool = False

    def admits(self, secret: str) -> bool:
        """Say whether a secret is this key's, in constant time."""
        return hmac.compare_digest(self.key_hash, hash_of(secret)) and not self.is_revoked

    @property
    def holder(self) -> Principal:
        """The principal that the key stands for."""
        return Principal(f"key:{self.principal}", {self.tenant: self.role}, self.person, self.made_by)


def format_key(randomness: bytes) -> str:
    """Write a key of 36 random bytes: four for its id, the rest is the secret.

    >>> format_key(bytes(36))
    'kdg_00000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    if len(randomness) != KEY_ID_BYTES + SECRET_BYTES:
        raise ValueError(f"a key is made of {KEY_ID_BYTES + SECRET_BYTES} random bytes, not {len(randomness)}")
    key_id = randomness[:KEY_ID_BYTES].hex()
    secret = base64.urlsafe_b64encode(randomness[KEY_ID_BYTES:]).rstrip(b"=").decode("ascii")
    return f"{PREFIX}{key_id}_{secret}"


def split_key(key: str) -> tuple[str, str] | None:
    """Read key id and secret; None when the text has another form.

    >>> split_key("kdg_0000abcd_" + "A" * 43) == ("0000abcd", "A" * 43)
    True
    >>> split_key("kdg_short") is None
    True
    """
    if len(key) != _LENGTH or not key.startswith(PREFIX) or key[_KEY_ID_END] != "_":
        return None
    key_id, secret = key[len(PREFIX) : _KEY_ID_END], key[_KEY_ID_END + 1 :]
    return (key_id, secret) if _ALPHABET.issuperset(secret) else None


def hash_of(secret: str) -> bytes:
    """Hash a secret for storage; 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).digest()
