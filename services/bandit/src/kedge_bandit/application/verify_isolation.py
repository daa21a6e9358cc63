"""Verify isolation: inspect the walls between tenants in the catalogs, then run against them as every tenant's role."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

NEIGHBOURS: Final = 24
"""Other tenants that a tenant's role is tried against; the catalogs are inspected for all."""
SERVICE: Final = "kedge_service"
HOLDOUT: Final = "holdout"
"""Schema that only the gate's login may enter."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A place where a wall is not what it has to be.

    Attributes:
        kind: GRANT, SEARCH_PATH, ...; REACHED where an attempt went through.
        place: the object, e.g. "table t_acme.outcome".
        detail: who may do what.
    """

    kind: str
    place: str
    detail: str


@dataclass(frozen=True, slots=True)
class Places:
    """Who lives where.

    Attributes:
        tenants: (role, schema) of each tenant, by name.
        shared: every other schema that is not the database's own.
        login: what the service is logged in with.
    """

    tenants: Sequence[tuple[str, str]]
    shared: Sequence[str]
    login: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """What a role tried in a schema: how often, and (object, verb) of what went through."""

    tried: int
    reached: Sequence[tuple[str, str]]


class Walls(Protocol):
    """The walls as they stand in the database."""

    async def places(self) -> Places:
        """Read who lives where."""

    async def faults(self) -> Sequence[Fault]:
        """Inspect the catalogs."""

    async def attempt(self, role: str, schema: str) -> Attempts:
        """Try everything in a schema as a role; nothing is changed."""


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """What was found; no faults are the proof."""

    tenants: int
    attempts: int
    faults: Sequence[Fault]
    login: str


@dataclass(frozen=True, slots=True)
class VerifyIsolation:
    """Inspect and try."""

    walls: Walls

    async def __call__(self) -> IsolationReport:
        """Try every tenant's role against its neighbours and what is shared, and the service against all."""
        places = await self.walls.places()
        faults, tried = list(await self.walls.faults()), 0
        for role, schema in pairs(places):
            found = await self.walls.attempt(role, schema)
            tried += found.tried
            faults += [Fault("REACHED", place, f"{role} could {verb} it") for place, verb in found.reached]
        return IsolationReport(len(places.tenants), tried, faults, places.login)


def pairs(places: Places) -> list[tuple[str, str]]:
    """Name who is tried against what: each tenant against those after it in a ring, so that all are somebody's prey.

    >>> pairs(Places([("a", "t_a"), ("b", "t_b")], ["holdout"], "login"))[:4]
    [('a', 't_b'), ('a', 'holdout'), ('b', 't_a'), ('b', 'holdout')]
    >>> pairs(Places([("a", "t_a"), ("b", "t_b")], ["holdout"], "login"))[4:]
    [('kedge_service', 't_a'), ('kedge_service', 't_b'), ('kedge_service', 'holdout')]
    """
    tenants = places.tenants
    made: list[tuple[str, str]] = []
    for place, (role, _) in enumerate(tenants):
        ring = [*tenants[place + 1 :], *tenants[:place]]
        made += [(role, schema) for _, schema in ring[:NEIGHBOURS]]
        made += [(role, schema) for schema in places.shared]
    return [*made, *((SERVICE, schema) for _, schema in tenants), (SERVICE, HOLDOUT)]
