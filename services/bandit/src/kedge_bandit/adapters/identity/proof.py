"""Say what a proof of identity gives, without the cryptography that checks it; only who uses that loads it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kedge_bandit.domain.errors import Unauthenticated
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


class SignerUnknown(Unauthenticated):
    """Refuse a token whose key is not known; it may be known once the keys that are being read are here."""

    def __init__(self, renewal: "asyncio.Task[None] | None") -> None:
        super().__init__("the token is signed with a key that is not in the key set: get a new one")
        self._renewal = renewal

    async def may_try_again(self) -> bool:
        """Wait for keys that are being read; False where none are."""
        if self._renewal is None:
            return False
        await asyncio.shield(self._renewal)
        return True
