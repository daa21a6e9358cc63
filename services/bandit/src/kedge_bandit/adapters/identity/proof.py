"""Say what a proof of identity gives, without the cryptography that checks it; only who uses that loads it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from kedge_bandit.domain.errors import KedgeError, TenantDenied, Unauthenticated
from kedge_bandit.domain.principal import Principal


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known of the holder of a verified certificate.

    Attributes:
        name: its SPIFFE id, else `dns:` and its first DNS name; the common name says nothing.
        until: the end of its validity, seconds since the Unix epoch.
    """

    name: str
    until: float


ReadCertificate = Callable[[bytes], Certificate]
"""Reads a PEM that the TLS handshake has verified. Raises Unauthenticated where it has no name."""


class Tokens(Protocol):
    """Verifies bearer tokens."""

    def verify(self, token: str) -> tuple[Principal, float]:
        """Give a token's principal, and until when it is good, seconds since the Unix epoch. Raises Unauthenticated."""


class KeptKeys(Protocol):
    """An issuer's keys, kept true."""

    async def run(self) -> None:
        """Keep them true for ever."""


Look = Callable[[], Awaitable[bool]]
"""Looks where credentials come from, from now on; False where there was nothing to wait for."""


class MayBeNew(KedgeError):
    """Refuse who is not known here; they may be new, and known after a look."""

    _look: Look

    async def may_try_again(self) -> bool:
        """Look, and say whether the call is worth another try."""
        return await self._look()


class CredentialUnknown(Unauthenticated, MayBeNew):
    """Refuse a credential that is not known."""

    def __init__(self, message: str, look: Look) -> None:
        super().__init__(message)
        self._look = look


class BindingUnknown(TenantDenied, MayBeNew):
    """Refuse a tenant that a certificate is not bound to."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
