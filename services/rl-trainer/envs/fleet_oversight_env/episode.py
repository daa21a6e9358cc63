"""One episode in process: its world, its luck, what each step pays and what may be seen."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from fleet_oversight_env.actions import read
from fleet_oversight_env.fleet import Move, World, grade, score
from fleet_oversight_env.luck import Luck
from fleet_oversight_env.observation import Oversight, Planning, observe
from fleet_oversight_env.rubric import (
    ACTION_WEIGHT,
    OVERSIGHT_WEIGHT,
    PLAN_WEIGHT,
    TERMINAL_WEIGHT,
    Event,
    detection,
    needless_share,
)
from fleet_oversight_env.world import step

VETO = "hold_on_active_fault"
_WEIGHTS = {
    "plan": PLAN_WEIGHT,
    "oversight": OVERSIGHT_WEIGHT,
    "action": ACTION_WEIGHT,
    "terminal": TERMINAL_WEIGHT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one step gave back: the change of R_total, the same by weighted component, and at the end the grade."""

    reward: float
    signals: Mapping[str, float]
    terminated: bool
    grade: float | None
    veto: str | None
    truncated: bool = False


class Episode:
    """Play one fleet.

    >>> from fleet_oversight_env.luck import luck_of
    >>> from fleet_oversight_env.scenarios import TASKS, begin
    >>> luck = luck_of(1)
    >>> episode = Episode(begin(TASKS["nexacrm_easy"], luck), luck)
    >>> [episode.step({"action_type": "allocate"}).reward for _ in range(3)], episode.observe()["phase"]
    ([0.0, 0.0, 0.0], 'oversight')
    """

    def __init__(self, world: World, luck: Luck) -> None:
        self._world = world
        self._luck = luck

    @property
    def hidden(self) -> World:
        """The world with all that is hidden: for tests and debugging, never for a player."""
        return self._world

    @property
    def over(self) -> bool:
        """Whether whatever is played now changes nothing."""
        return self._world.ended

    def observe(self) -> Planning | Oversight:
        """Show what the overseer sees now."""
        return observe(self._world)

    def step(self, action: object) -> Turn:
        """Play a JSON action; what cannot be read uses the step and is counted."""
        return self.play(read(action))

    def play(self, move: Move) -> Turn:
        """Play a move."""
        before, self._world = self._world, step(self._world, move, self._luck)
        old, new = score(before), score(self._world)
        was, now = asdict(old), asdict(new)
        breach = self._world.tally[Event.BREACH] > before.tally[Event.BREACH]
        return Turn(
            reward=new.total - old.total,
            signals={name: (now[name] - was[name]) * weight for name, weight in _WEIGHTS.items()},
            terminated=self._world.ended,
            grade=grade(self._world) if self._world.ended else None,
            veto=VETO if breach else None,
        )

    def metrics(self) -> dict[str, float]:
        """Measure the episode so far; detection and false positives belong together."""
        world, paid = self._world, score(self._world)
        found = {
            "detection": detection(world.tally, max(1, world.faults)),
            "false_positives": float(needless_share(world.tally)),
            "oversight": paid.oversight,
            "return": paid.total,
            "plan": paid.plan,
            "action": paid.action,
            "terminal": paid.terminal,
            "steps": float(world.step - (0 if world.ended else 1)),
            "governance_left": float(world.governance_budget),
            "invalid": float(world.invalid_moves),
            "breaches": float(world.tally[Event.BREACH]),
        }
        return {"grade": grade(world)} | found if world.ended else found
