"""What a player sees: the case without what is hidden, and in blind mode without what gives the rules away."""

from collections import Counter
from typing import NotRequired, TypedDict

from relocation_env.rules import Department, Item, Result
from relocation_env.world import World, available, blockers

_NEUTRAL = "Two rules disagree."


class Employee(TypedDict):
    """Who moves."""

    role: str
    has_dependents: bool
    origin: str


class Conflict(TypedDict):
    """Rules of two countries that disagree."""

    countries: list[str]
    text: str
    resolved: bool


class Announcement(TypedDict):
    """What was made known after a step."""

    step: int
    text: str
    needs_acknowledgement: bool


class View(TypedDict):
    """An observation. What `NotRequired` marks is shown in open mode only."""

    task: str
    case_id: str
    employee: Employee
    countries: list[str]
    documents: dict[str, str]
    departments: dict[str, bool]
    compliance: dict[str, bool]
    conflicts: list[Conflict]
    announcements: list[Announcement]
    deadline_days: int
    steps_taken: int
    previous_actions: list[str]
    status: str
    last_action_result: str
    last_action_error: str
    open_parts: dict[str, int]
    progress: NotRequired[float]
    required_departments: NotRequired[list[str]]
    required_compliance: NotRequired[list[str]]
    current_blockers: NotRequired[list[str]]
    available_actions: NotRequired[list[str]]


def view(world: World, task: str, last: tuple[Result | None, str], *, progress: float, blind: bool) -> View:
    """Show a case.

    Args:
        world: the case.
        task: whose case it is.
        last: what became of the last action, and why; None at the start.
        progress: how far it has come, shown in open mode.
        blind: leave out the required lists, the names of blockers, the wording of conflicts and the list of actions.
    """
    case = world.case
    result, why = last
    shown = View(
        task=task,
        case_id=case.case_id,
        employee=Employee(role=case.role, has_dependents=case.has_dependents, origin="India"),
        countries=list(case.countries),
        documents={name: str(status) for name, status in zip(world.names, world.papers, strict=True)},
        departments={str(name): name in world.approved for name in Department},
        compliance={str(item): item in world.done_items for item in Item},
        conflicts=_conflicts(world, blind=blind),
        announcements=_announcements(world),
        deadline_days=world.deadline,
        steps_taken=world.steps,
        previous_actions=list(world.history),
        status=str(world.state),
        last_action_result=str(result or ""),
        last_action_error=why,
        open_parts=dict(Counter(category for category, _ in blockers(world))),
    )
    if not blind:
        shown["progress"] = progress
        shown["required_departments"] = [str(name) for name in Department if name in case.departments]
        shown["required_compliance"] = [str(item) for item in Item if item in case.items]
        shown["current_blockers"] = [f"{category}:{name}" for category, name in blockers(world)]
        shown["available_actions"] = [str(move) for move in available(world)]
    return shown


def _conflicts(world: World, *, blind: bool) -> list[Conflict]:
    if not world.case.conflict:
        return []
    text = _NEUTRAL if blind else world.case.conflict
    return [Conflict(countries=list(world.case.countries), text=text, resolved=world.resolved)]


def _announcements(world: World) -> list[Announcement]:
    """Show what has been announced so far; a decoy looks like a change of rules, but asks for nothing."""
    found = [
        Announcement(step=after, text=text, needs_acknowledgement=False)
        for after, text in world.case.decoys
        if world.steps >= after
    ]
    if world.fired and world.case.event:
        event = world.case.event
        text = f"{event.identifier}: {event.text}"
        found.append(Announcement(step=event.step - 1, text=text, needs_acknowledgement=world.unacknowledged))
    return sorted(found, key=lambda one: one["step"])
