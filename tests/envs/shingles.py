"""Tell wording that was taken from the source articles: runs of eight words, kept as hashes.

The articles themselves are not ours to ship.

`python -m tests.envs.shingles ARTICLE...` writes the file anew from the articles' text.
"""

import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

RUN = 8
"""Words that may not follow each other in ours as in a source."""

SIZE = 6
"""Bytes of a hash: two texts of a million runs share one by chance once in ten thousand times."""

FILE = Path(__file__).parent / "source_shingles.bin"


def runs(text: str) -> Iterator[tuple[bytes, str]]:
    """Give the hash of every run of words, and the run."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    for start in range(len(words) - RUN + 1):
        run = " ".join(words[start : start + RUN])
        yield sha256(run.encode()).digest()[:SIZE], run


def source_hashes() -> frozenset[bytes]:
    """Read the hashes of the sources."""
    packed = FILE.read_bytes()
    return frozenset(packed[start : start + SIZE] for start in range(0, len(packed), SIZE))


def shared_runs(text: str, sources: frozenset[bytes]) -> list[str]:
    """List the runs of a text that a source has too."""
    return [run for found, run in runs(text) if found in sources]


if __name__ == "__main__":
    found = {one for name in sys.argv[1:] for one, _ in runs(Path(name).read_text(encoding="utf-8"))}
    FILE.write_bytes(b"".join(sorted(found)))
    print(f"{len(found)} runs of {RUN} words in {FILE.name}")
