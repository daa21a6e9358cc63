"""Hold the public keys that tokens are verified with, from a JWKS file or an https address, as they rotate."""

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.error import URLError

import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

MAX_BYTES: Final = 1 << 18
MAX_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048
FETCH_SECONDS: Final = 5.0
RENEW_SECONDS: Final = 300.0
"""How often an address is asked without a reason; a file is looked at every second."""
LOOK_SECONDS: Final = 1.0
UNKNOWN_KEY_SECONDS: Final = 10.0
"""How often at most an address is asked because a token names a key that is not known."""
HTTPS: Final = "https://"

log = structlog.get_logger(__name__)


class KeysRefused(Exception):
    """Say that a place gave no usable key."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: keys come from where the operator said."""


@dataclass(slots=True)
class KeySource:
    """Public keys by key id; what was read last is used until something newer could be read.

    Attributes:
        place: path of a JWKS file, or an https address of one.
        trust: of the address; None: the system's authorities.
        changed: called when the keys are others than before.
    """

    place: str
    trust: ssl.SSLContext | None = None
    changed: Callable[[], None] = lambda: None
    _keys: dict[str, Key] = field(default_factory=dict)
    _stamp: object = None
    _asked: float = float("-inf")
    _renewal: "asyncio.Task[None] | None" = None

    def find(self, key_id: str | None) -> Key | None:
        """Find a key; without an id the only one there is."""
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def look(self) -> bool:
        """Ask again because of an unknown key; False where that was done a moment ago."""
        if self._renewal is None or self._renewal.done():
            pause = UNKNOWN_KEY_SECONDS if self.is_remote else LOOK_SECONDS
            if monotonic() - self._asked < pause:
                return False
            self._renewal = asyncio.create_task(self.renew())
        await asyncio.shield(self._renewal)
        return True

    @property
    def is_remote(self) -> bool:
        """Whether the keys come over the network."""
        return self.place.startswith(HTTPS)

    async def run(self) -> None:
        """Keep the keys true for ever."""
        while True:
            if not self.is_remote or monotonic() - self._asked >= RENEW_SECONDS:
                await self.renew()
            await asyncio.sleep(LOOK_SECONDS)

    async def renew(self) -> None:
        """Read the keys again; on failure the old ones stay."""
        self._asked = monotonic()
        try:
            async with asyncio.timeout(2 * FETCH_SECONDS):  # headers, too, may come a byte at a time
                found = await asyncio.to_thread(self._load)
        except (OSError, URLError, ValueError, KeysRefused) as error:
            log.warning("jwks.not_read", error=type(error).__name__)
        else:
            # Here and not in the thread: no token is verified between the new keys and what is forgotten for them.
            self._take(found)

    def read(self) -> None:
        """Read the keys now.

        Raises:
            KeysRefused: there is no usable key, or it is no JWKS.
            OSError: the place cannot be read.
        """
        self._take(self._load())

    def _load(self) -> tuple[dict[str, Key], object] | None:
        """Read the keys, with what tells this content from the next; None where it is the same file as before."""
        stamp = None if self.is_remote else _stamp_of(Path(self.place))
        if stamp is not None and stamp == self._stamp:
            return None
        return keys_of(self._fetch() if self.is_remote else Path(self.place).read_bytes()), stamp

    def _take(self, found: tuple[dict[str, Key], object] | None) -> None:
        if found is None:
            return
        before, (self._keys, self._stamp) = _prints_of(self._keys), found
        if _prints_of(self._keys) != before:
            log.info("jwks.read", keys=len(self._keys))
            self.changed()

    def _fetch(self) -> bytes:
        context = self.trust or ssl.create_default_context()
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirect)
        until, body = monotonic() + FETCH_SECONDS, b""
        with opener.open(self.place, timeout=FETCH_SECONDS) as answer:
            while len(body) <= MAX_BYTES and (piece := answer.read1(MAX_BYTES + 1 - len(body))):
                body += piece
                if monotonic() > until:
                    raise KeysRefused(f"the JWKS did not come within {FETCH_SECONDS:g} s")
        return body


def keys_of(document: bytes) -> dict[str, Key]:
    """Read the keys of a JWKS that can verify a signature, by key id; others are left out. Raises KeysRefused."""
    if len(document) > MAX_BYTES:
        raise KeysRefused(f"the JWKS is over {MAX_BYTES} bytes")
    try:
        read = json.loads(document)
        listed = read["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeysRefused("this is no JWKS: it has no list `keys`") from error
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    found = dict(pair for pair in map(_key_of, entries[:MAX_KEYS]) if pair is not None)
    if not found:
        raise KeysRefused("the JWKS has no key of type RSA (2048 bits or more), EC or OKP that may verify signatures")
    return found


def _key_of(entry: dict[str, Any]) -> tuple[str, Key] | None:
    kinds: dict[Any, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    kind = kinds.get(entry.get("kty"))
    is_short = kind is RSAKey and 6 * len(str(entry.get("n"))) < LEAST_RSA_BITS  # base64: six bits a character
    if kind is None or is_short or entry.get("use", "sig") != "sig":
        return None
    try:
        key = kind.import_key(entry)
        key.ensure_kid()
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey) and key.public_key.key_size < LEAST_RSA_BITS:
        return None
    return str(key.kid), key


def _prints_of(keys: dict[str, Key]) -> dict[str, str]:
    return {name: key.thumbprint() for name, key in keys.items()}


def _stamp_of(path: Path) -> tuple[int, int, int]:
    """Tell one content of a file from the next without reading it."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
