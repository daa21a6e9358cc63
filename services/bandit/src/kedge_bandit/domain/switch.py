"""State the rules of the kill switch, which are the same for a policy, a tenant and everything at once."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.principal import person_in
from kedge_bandit.domain.proposal_errors import SecondPersonRequired


class QuarantineChoice(StrEnum):
    """What becomes of the evidence that was quarantined while nothing was learned."""

    REPLAY = "REPLAY"
    KEEP = "KEEP"
    DROP = "DROP"


def check_freeze(mode: Mode) -> None:
    """Refuse to freeze what is stopped already; the same rule holds for policy, tenant and everything.

    Raises:
        IllegalTransition: it already is FROZEN or BYPASS.
    """
    if mode.stops_time:
        raise IllegalTransition(f"it is {mode} already: nothing to freeze")


def check_unfreeze(mode: Mode) -> None:
    """Refuse to unfreeze what is not stopped. Raises IllegalTransition."""
    if not mode.stops_time:
        raise IllegalTransition(f"it is {mode}, not FROZEN or BYPASS: nothing to unfreeze at this level")


def check_set_mode(found: Mode, wanted: Mode) -> None:
    """Refuse a mode that is in force already, and to resume without unfreezing. Raises IllegalTransition."""
    if found is wanted:
        raise IllegalTransition(f"it is {found} already")
    if found.stops_time and not wanted.stops_time:
        raise IllegalTransition(f"it is {found}: unfreeze it, which also says what becomes of quarantined evidence")


def mode_before_stop(changes: Iterable[ModeChange], level: str) -> Mode:
    """Find the mode in which a level resumes: its last one that was neither FROZEN nor BYPASS, else APPLY.

    Args:
        changes: in the order in which they happened.
        level: "global", "tenant" or "policy".
    """
    running = [change.mode for change in changes if change.level == level and not change.mode.stops_time]
    return running[-1] if running else Mode.APPLY


def who_stopped(changes: Iterable[ModeChange], level: str) -> str:
    """Name who began the present stop of a level; empty where it runs, or where that was not kept.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> frozen = ModeChange("policy", Mode.FROZEN, at, "person:x#alice")
    >>> who_stopped([frozen, ModeChange("policy", Mode.BYPASS, at, "key:ops")], "policy")
    'person:x#alice'
    """
    stopper = ""
    stands = False
    for change in changes:
        if change.level == level:
            if not change.mode.stops_time:
                stopper = ""
            elif not stands:
                stopper = change.actor
            stands = change.mode.stops_time
    return stopper


def stopped_since(changes: Iterable[ModeChange], level: str) -> datetime | None:
    """Say when the present stop of a level began; None where it runs.

    >>> from datetime import UTC, datetime
    >>> first, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    >>> stops = [ModeChange("policy", Mode.FROZEN, first), ModeChange("policy", Mode.BYPASS, later)]
    >>> stopped_since(stops, "policy") == first
    True
    """
    since: datetime | None = None
    for change in changes:
        if change.level == level:
            since = (since or change.time) if change.mode.stops_time else None
    return since


def check_second_person(stopper: str, actor: Actor) -> None:
    """Refuse to let anybody resume what a person stopped but another person or the operator.

    A program counts as the person who made it; what a program stopped that nobody answers for, anybody lets go on.

    Raises:
        SecondPersonRequired: both are the same person, through whatever door, or nobody answers for the actor.
    """
    stopped = person_in(stopper)
    if stopped and not actor.is_operator and person_in(actor.name) in ("", stopped):
        raise SecondPersonRequired(f"{stopped} stopped it, and letting it go on takes a second person, or the operator")


def deciding_level(modes: Mapping[str, Mode]) -> str:
    """Name the level that decides the effective mode: the strictest, of equal ones the first.

    >>> deciding_level({"policy": Mode.APPLY, "tenant": Mode.FROZEN, "global": Mode.FROZEN})
    'tenant'
    """
    return max(modes, key=lambda level: modes[level].restriction)


def newest_mode(changes: Sequence[ModeChange]) -> Mode:
    """Give the mode of a level by its changes, oldest first; APPLY before the first."""
    return changes[-1].mode if changes else Mode.APPLY
