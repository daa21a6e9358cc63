"""Search a tenant's written memory with BM25, cite what was found, and read the rules that it states.

Each tenant has an index of its own folder, and a citation resolves in that index alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import log
from typing import Final, Self

from brief_routing_env.ledger import Fill

FOLDER: Final = "memory"
K1: Final = 1.5
B: Final = 0.75
FOUND: Final = 2
"""Chunks that a query brings."""

SNIPPET: Final = 280
PREFIX: Final = "memory:"
_TOKEN: Final = re.compile(r"[a-z][a-z0-9_-]+")
_CITED: Final = re.compile(r"memory:([\w-]+)/[\w/.#-]*", re.IGNORECASE)
_MONTHS: Final = {"two": 2, "three": 3, "four": 4, "six": 6}


def tokens(text: str) -> list[str]:
    """Split text into lower-case words of two characters or more.

    >>> tokens("The 15 % band, break-even: Q3.")
    ['the', 'band', 'break-even', 'q3']
    """
    return _TOKEN.findall(text.lower())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A paragraph; its id is `tenant/path#chunkN`."""

    id: str
    text: str

    @property
    def citation(self) -> str:
        """How a report cites it."""
        return PREFIX + self.id

    @property
    def snippet(self) -> str:
        """The beginning, on one line."""
        return self.text[:SNIPPET]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What written memory says about numbers; None where it says nothing.

    Args:
        fill: What stands in for a missing price.
        months: Trailing months that the next quarter is projected from.
        band: Half-width around the projection, as a share.
        on_plan: Largest variance that still counts as on-plan, percent.
    """

    fill: Fill | None = None
    months: int | None = None
    band: float | None = None
    on_plan: float | None = None

    @classmethod
    def read(cls, texts: Iterable[str]) -> Self:
        """Read what paragraphs state.

        >>> Rules.read(["Fill with the category median. The trailing three months, with a 15 % band."])
        Rules(fill=<Fill.CATEGORY_MEDIAN: 'category median'>, months=3, band=0.15, on_plan=None)
        """
        text = " ".join(texts).lower()
        fills = [fill for fill in Fill if str(fill) in text]
        months = re.search(rf"trailing ({'|'.join(_MONTHS)}) months", text)
        band = re.search(r"(\d+) % band", text)
        on_plan = re.search(r"(\d+) % (?:above|below)", text)
        return cls(
            fill=fills[0] if fills else None,
            months=_MONTHS[months.group(1)] if months else None,
            band=int(band.group(1)) / 100 if band else None,
            on_plan=float(on_plan.group(1)) if on_plan else None,
        )


class Index:
    """One tenant's memory, searchable."""

    def __init__(self, tenant: str, chunks: Iterable[Chunk]) -> None:
        self.tenant = tenant
        self.chunks = tuple(chunks)
        self._by_id = {chunk.id: chunk for chunk in self.chunks}
        self._counts = [Counter(tokens(chunk.text)) for chunk in self.chunks]
        lengths = [count.total() for count in self._counts]
        mean = sum(lengths) / max(1, len(lengths))
        self._norms = [K1 * (1.0 - B + B * length / mean) for length in lengths]

    def weigh(self, query: str) -> list[tuple[float, Chunk]]:
        """Score every chunk (Robertson and Zaragoza 2009, eq. 3.15, with an idf that is never negative)."""
        wanted = sorted(set(tokens(query)))
        scores = [0.0] * len(self.chunks)
        for word in wanted:
            containing = sum(word in count for count in self._counts)
            idf = log(1.0 + (len(self.chunks) - containing + 0.5) / (containing + 0.5))
            for place, count in enumerate(self._counts):
                times = count[word]
                scores[place] += idf * times * (K1 + 1.0) / (times + self._norms[place])
        return list(zip(scores, self.chunks, strict=True))

    def search(self, query: str) -> tuple[Chunk, ...]:
        """Give the best chunks that share a word with the query; ties by id."""
        ranked = sorted(self.weigh(query), key=lambda one: (-one[0], one[1].id))
        return tuple(chunk for score, chunk in ranked[:FOUND] if score > 0.0)

    def resolve(self, citation: str) -> Chunk | None:
        """Look a citation up; None for whatever is not in this tenant's memory."""
        return self._by_id.get(citation.removeprefix(PREFIX)) if citation.startswith(PREFIX) else None

    def rules(self) -> Rules:
        """Read the whole memory."""
        return Rules.read(chunk.text for chunk in self.chunks)


def foreign(text: str, tenant: str) -> str | None:
    """Find the first citation of another tenant's memory in a text.

    >>> foreign("see memory:harbour/sop/finance-forecasting.md#chunk0", "default")
    'memory:harbour/sop/finance-forecasting.md#chunk0'
    >>> foreign("see memory:default/sop/finance-forecasting.md#chunk0", "default")
    """
    cited = _CITED.finditer(text)
    return next((found.group() for found in cited if found.group(1).lower() != tenant.lower()), None)


@cache
def tenants() -> tuple[str, ...]:
    """List whose memory there is."""
    return tuple(sorted(folder.name for folder in (files("brief_routing_env") / FOLDER).iterdir() if folder.is_dir()))


@cache
def index_of(tenant: str) -> Index:
    """Read a tenant's folder.

    Raises:
        KeyError: There is no such tenant.
    """
    if tenant not in tenants():
        raise KeyError(tenant)
    return Index(tenant, _chunks(files("brief_routing_env") / FOLDER / tenant, tenant))


def _chunks(folder: Traversable, path: str) -> Iterator[Chunk]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _chunks(entry, name)
        elif entry.name.endswith(".md"):
            paragraphs = [" ".join(block.split()) for block in entry.read_text(encoding="utf-8").split("\n\n")]
            bodies = [block for block in paragraphs if block and not block.startswith("#")]
            yield from (Chunk(f"{name}#chunk{place}", body) for place, body in enumerate(bodies))


@lru_cache(maxsize=1024)
def recall(index: Index, query: str) -> tuple[Chunk, ...]:
    """Search, and remember what was found: queries repeat from episode to episode."""
    return index.search(query)
