"""Sign evidence snapshots with the token keys."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

_PURPOSE: Final = b"kedge.snapshot.v1\0"


class HmacSeals:
    """Sign with the newest key, check with every key that was not removed.

    Args:
        keys: key id → secret.
    """

    def __init__(self, keys: Mapping[int, bytes]) -> None:
        self._keys = dict(keys)

    def sign(self, body: bytes) -> tuple[int, str]:
        """Give key id and signature, hex."""
        newest = max(self._keys)
        return newest, self._of(newest, body)

    def holds(self, body: bytes, key_id: int, signature: str) -> bool:
        """Say whether a signature is of this body and a key that is known."""
        return key_id in self._keys and hmac.compare_digest(self._of(key_id, body), signature)

    def _of(self, key_id: int, body: bytes) -> str:
        return hmac.new(self._keys[key_id], _PURPOSE + body, hashlib.sha256).hexdigest()
