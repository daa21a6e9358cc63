"""What a policy serves and whether it learns, and the clock that stops while it does not."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Mode(StrEnum):
    """A mode, from least to most restrictive."""

    APPLY = "APPLY"
    OBSERVE = "OBSERVE"
    FROZEN = "FROZEN"
    BYPASS = "BYPASS"

    @property
    def restriction(self) -> int:
        """Rank: a higher one wins."""
        return _RANK[self]

    @property
    def stops_time(self) -> bool:
        """Whether policy time stands still and evidence is quarantined."""
        return self in (Mode.FROZEN, Mode.BYPASS)


_RANK = {mode: rank for rank, mode in enumerate(Mode)}


def most_restrictive(modes: Iterable[Mode]) -> Mode:
    """Combine the modes of global, tenant, policy and override; APPLY when there is none.

    >>> most_restrictive([Mode.APPLY, Mode.FROZEN, Mode.OBSERVE])
    <Mode.FROZEN: 'FROZEN'>
    """
    return max(modes, key=lambda mode: _RANK[mode], default=Mode.APPLY)


@dataclass(frozen=True, slots=True)
class ModeChange:
    """One change of one level's mode.

    Attributes:
        level: "global", "tenant" or "policy".
        actor: who changed it, as in the audit log; empty where that was not kept.
    """

    level: str
    mode: Mode
    time: datetime
    actor: str = ""


@dataclass(frozen=True, slots=True)
class PolicyClock:
    """Policy time: seconds since the Unix epoch less the time spent in FROZEN or BYPASS.

    Attributes:
        stops: disjoint intervals [from, to) in seconds since the epoch, increasing; the last may be open (to = inf).
    """

    stops: tuple[tuple[float, float], ...] = ()

    def at(self, moment: datetime) -> float:
        """Read policy time at a moment; the same moment always gives the same time once its stops are known.

        >>> clock = PolicyClock(((10.0, 30.0),))
        >>> [clock.at(datetime.fromtimestamp(s, UTC)) for s in (5, 20, 40)]
        [5.0, 10.0, 20.0]
        """
        seconds = moment.timestamp()
        stopped = 0.0
        for begin, end in self.stops:
            if begin >= seconds:
                break
            stopped += min(end, seconds) - begin
        return seconds - stopped


def policy_clock(changes: Iterable[ModeChange]) -> PolicyClock:
    """Combine the changes of all levels that bear on a policy into its clock.

    >>> at = lambda s: datetime.fromtimestamp(s, UTC)
    >>> policy_clock([ModeChange("policy", Mode.FROZEN, at(10)), ModeChange("global", Mode.BYPASS, at(20)),
    ...               ModeChange("policy", Mode.APPLY, at(30)), ModeChange("global", Mode.APPLY, at(40))]).stops
    ((10.0, 40.0),)
    """
    levels: dict[str, Mode] = {}
    stops: list[tuple[float, float]] = []
    since: float | None = None
    for change in sorted(changes, key=lambda change: change.time):
        levels[change.level] = change.mode
        stopped = any(mode.stops_time for mode in levels.values())
        moment = change.time.astimezone(UTC).timestamp()
        if stopped and since is None:
            since = moment
        elif not stopped and since is not None:
            if moment > since:
                stops.append((since, moment))
            since = None
    if since is not None:
        stops.append((since, float("inf")))
    return PolicyClock(tuple(stops))
