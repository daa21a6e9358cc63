"""Tasks and seeds become calls: the twelve base calls as written, and surface variants with clean twins."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from random import Random
from types import MappingProxyType
from typing import Final

from call_audit_env.book import Book, default
from call_audit_env.calls import Call, Tier
from call_audit_env.shapes import Shape, make, shapes

SPLITS: Final[Mapping[str, range]] = MappingProxyType(
    {"train": range(1_000_000), "dev": range(1_000_000, 1_100_000), "test": range(2_000_000, 2_100_000)}
)
"""Seeds by split; who plays decides which he may ask for."""

HERO: Final = "call_006"
CLEAN: Final = 0.4
"""Share of variants without a breach, so that no fixed set of flags pays."""
PARTLY: Final = 0.3
"""Share of the failing ones that have only some of their shape's faults."""


class Profile(StrEnum):
    """How a call is played and graded: the rules we train on, or the public original's with its holes."""

    V2 = "v2"
    COMPAT = "compat"


AUDIT, BASE, COMPAT = "audit", "base", "compat"
TASKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        AUDIT: "a variant of any of the twelve shapes, four in ten of them clean",
        "easy": "variants of the two easy shapes: one breach, in plain sight",
        "medium": "variants of the five medium shapes",
        "hard": "variants of the five hard shapes: long calls, and clean ones that look like breaches",
        "hero": "variants of the sixth shape: a happy customer and an invented rate cut",
        BASE: "the twelve base calls as written, in turn",
        COMPAT: "the same under the original's rules and grader; to compare, not to train on",
    }
)


def profile_of(task: str) -> Profile:
    """Tell by which rules a task is played."""
    return Profile.COMPAT if task == COMPAT else Profile.V2


def family(task: str) -> list[Shape]:
    """List the shapes that a task draws from.

    Raises:
        KeyError: there is no such task.

    >>> len(family("audit")), [shape.name for shape in family("hero")]
    (12, ['call_006'])
    """
    if task not in TASKS:
        raise KeyError(task)
    if task == "hero":
        return [shapes()[HERO]]
    tiers = {Tier(task)} if task in set(Tier) else set(Tier)
    return [shape for shape in shapes().values() if shape.tier in tiers]


def base(number: int, book: Book | None = None) -> Call:
    """Give a base call as written, by its number from 1 to 12."""
    shape = list(shapes().values())[number - 1]
    return make(shape, frozenset(shape.faults), book or default(), call_id=_shuffled("base", number))


def call_of(task: str, seed: int, book: Book | None = None) -> Call:
    """Make the call of a task and a seed.

    Raises:
        KeyError: there is no such task.
    """
    known = family(task)
    if task in {BASE, COMPAT}:
        shape = known[seed % len(known)]
        return make(shape, frozenset(shape.faults), book or default(), call_id=_shuffled(task, seed))
    draw = Random(f"call audit:{task}:{seed}")  # noqa: S311 - a game, not a secret
    shape = draw.choice(known)
    return make(shape, active_of(shape, known, draw), book or default(), call_id=_shuffled(task, seed), draw=draw)


def active_of(shape: Shape, known: list[Shape], draw: Random) -> frozenset[str]:
    """Choose the faults of a variant: none, some or all of its shape's."""
    clean = sum(not one.faults for one in known) / len(known)
    twins = max(0.1, (CLEAN - clean) / (1 - clean))
    keys = sorted(shape.faults)
    if draw.random() < twins:
        return frozenset()
    if len(keys) > 1 and draw.random() < PARTLY:
        return frozenset(draw.sample(keys, draw.randint(1, len(keys) - 1)))
    return frozenset(keys)


def _shuffled(task: str, seed: int) -> str:
    """Name a call so that the name tells neither shape nor seed."""
    return "call-" + sha256(f"call audit:{task}:{seed}".encode()).hexdigest()[:8]
