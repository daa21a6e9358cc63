"""Find a shortest solution breadth first, over the real rules: the proof behind every optimum."""

from collections.abc import Iterator

from relocation_env.rules import Move, Verb
from relocation_env.scenarios import Case
from relocation_env.world import State, World, available, begin, play

_IDLE = Move(Verb.FINALIZE)
"""Waits for an event: it changes nothing as long as the case cannot be closed."""


def shortest(case: Case) -> tuple[Move, ...] | None:
    """Give a shortest clean solution, or None if there is none before the deadline.

    What `available` leaves out never succeeds, so that it may be left out here, but for waiting, which can pay while an
    event is to come. Branches that cost grade are cut: the solution is perfect as well as short.

    >>> from relocation_env.scenarios import NAMED
    >>> len(shortest(NAMED["medium"]))
    12
    """
    frontier: dict[tuple[object, ...], tuple[World, tuple[Move, ...]]] = {}
    start = begin(case)
    frontier[_position(start)] = (start, ())
    seen = set(frontier)
    while frontier:
        following: dict[tuple[object, ...], tuple[World, tuple[Move, ...]]] = {}
        for world, path in frontier.values():
            for move in _choices(world):
                after, _, _ = play(world, move)
                if after.state is State.SUCCESS:
                    return (*path, move)
                position = _position(after)
                if after.state is State.IN_PROGRESS and after.charges == start.charges and position not in seen:
                    seen.add(position)
                    following[position] = (after, (*path, move))
        frontier = following
    return None


def _choices(world: World) -> Iterator[Move]:
    yield from available(world)
    if world.case.event and not world.fired:
        yield _IDLE


def _position(world: World) -> tuple[object, ...]:
    """What the future depends on; before an event its distance is part of that."""
    clock = world.steps if world.case.event and not world.fired else 0
    return (world.papers, world.approved, world.done_items, world.resolved, world.fired, world.acknowledged, clock)
