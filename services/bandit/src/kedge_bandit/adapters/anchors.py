"""Sign heads of audit chains with Ed25519 and keep them in a file of JSON lines, outside the database.

Whoever has the public key and the file can check a chain; only the service has the private key. Each line also holds
the hash of the one before, so that none can be taken out of the middle.
"""

import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kedge_bandit.domain.anchor import Anchor

ANCHOR_FILE: Final = "audit_anchors.jsonl"
KEY_FILE: Final = "anchor.key"
PUBLIC_KEY_FILE: Final = "anchor.pub"
_FIRST: Final = "0" * 64
_TAIL_BYTES: Final = 65_536


class AnchorsRefused(Exception):
    """Say that an anchor file cannot be believed, and where."""


@dataclass(frozen=True, slots=True)
class AnchorFile:
    """Append signed heads to one file; several processes may."""

    path: Path
    key: Ed25519PrivateKey

    @classmethod
    def open(cls, folder: Path) -> "AnchorFile":
        """Take the key in a data folder, and make it with its public half where there is none. Raises OSError."""
        return cls(folder / ANCHOR_FILE, _key_of(folder))

    def append(self, anchors: Sequence[Anchor]) -> None:
        """Write anchors, on the disk before this returns, or none of them. Raises OSError."""
        with self.path.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end, last = _end_of(file)
            file.truncate(end)
            previous = hashlib.sha256(last).hexdigest() if last else _FIRST
            lines = bytearray()
            for anchor in anchors:
                line = self._line(anchor, previous)
                lines += line + b"\n"
                previous = hashlib.sha256(line).hexdigest()
            try:
                if file.write(lines) != len(lines):
                    raise OSError(errno.ENOSPC, "there was room for a part of the anchors only", str(self.path))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def _line(self, anchor: Anchor, previous: str) -> bytes:
        said = {
            "tenant": anchor.tenant,
            "sequence": anchor.sequence,
            "row_hash": anchor.row_hash,
            "time": anchor.time.astimezone(UTC).isoformat(timespec="microseconds"),
            "previous_line": previous,
            "signature": self.key.sign(_signed(anchor, previous)).hex(),
        }
        return json.dumps(said, separators=(",", ":")).encode()


def _end_of(file: FileIO) -> tuple[int, bytes]:
    """Find where the last finished line ends, and that line; what a crash left of another comes after it."""
    start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
    file.seek(start)
    tail, newline, _ = file.read().rpartition(b"\n")
    return start + len(tail + newline), tail.rpartition(b"\n")[2]


def read_anchors(path: Path, public_key: Path) -> list[Anchor]:
    """Read a file of anchors, and check every signature and the order of its lines.

    Raises:
        AnchorsRefused: a line was not signed by this key, does not follow the one before, or is no anchor.
        OSError: a file cannot be read.
    """
    found: list[Anchor] = []
    key = _public_key(public_key)
    previous = None
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            said = json.loads(line)
            time = datetime.fromisoformat(said["time"])
            anchor = Anchor(tenant=said["tenant"], sequence=said["sequence"], row_hash=said["row_hash"], time=time)
            key.verify(bytes.fromhex(said["signature"]), _signed(anchor, said["previous_line"]))
        except InvalidSignature:
            raise AnchorsRefused(f"line {number} of {path} was not signed by the key of {public_key}") from None
        except (ValueError, KeyError, TypeError):
            raise AnchorsRefused(f"line {number} of {path} is no anchor") from None
        if said["previous_line"] != (previous or _FIRST):
            raise AnchorsRefused(f"line {number} of {path} does not follow the one before: a line was taken out")
        previous = hashlib.sha256(line).hexdigest()
        found.append(anchor)
    return found


def _signed(anchor: Anchor, previous: str) -> bytes:
    return anchor.statement + b"\n" + previous.encode()


def _key_of(folder: Path) -> Ed25519PrivateKey:
    path = folder / KEY_FILE
    if not path.exists():
        _put(path, Ed25519PrivateKey.generate().private_bytes_raw().hex().encode() + b"\n")
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii").strip()))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _put(folder / PUBLIC_KEY_FILE, public)
    return key


def _put(path: Path, content: bytes) -> None:
    """Write a file as a whole, for its owner only; one that is there stays as it is."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise AnchorsRefused(f"{path} holds no Ed25519 public key: take the anchor.pub of the service's data folder")
    return key


def of_tenant(anchors: Iterable[Anchor], tenant: str) -> list[Anchor]:
    """Keep the anchors of one tenant."""
    return [anchor for anchor in anchors if anchor.tenant == tenant]
