"""One episode in process: a case, its reward, and what may be seen of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from relocation_env import rubric
from relocation_env.rules import Move, Result, read_move
from relocation_env.scenarios import BLIND, Case
from relocation_env.view import View, view
from relocation_env.world import State, World, begin, play

VETO = "rule_violation"
SPELLED = 60
"""Characters of an action that was not understood, kept in the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one step gave back; the grade comes with the last one."""

    result: Result
    signals: Mapping[str, float]
    terminated: bool
    truncated: bool
    grade: float | None
    veto: str | None

    @property
    def reward(self) -> float:
        """The components' sum, unclipped."""
        return sum(self.signals.values())


class Episode:
    """Play one case.

    >>> from relocation_env.scenarios import case_of
    >>> episode = Episode("easy", case_of("easy", 0))
    >>> turn = episode.step({"action_type": "request_document", "target": "passport"})
    >>> turn.result, round(turn.reward, 3), episode.observe()["documents"]["passport"]
    (<Result.SUCCESS: 'success'>, 0.324, 'submitted')
    """

    def __init__(self, task: str, case: Case) -> None:
        self.task = task
        self.world: World = begin(case)
        self._tally = rubric.open_tally(self.world)
        self._last: tuple[Result | None, str] = (None, "")
        self._return = 0.0
        self._counts = dict.fromkeys(Result, 0)

    @property
    def over(self) -> bool:
        """Whatever is played now changes nothing."""
        return self.world.state is not State.IN_PROGRESS

    def observe(self) -> View:
        """Show the case as the task's mode allows."""
        blind = self.task.endswith(BLIND)
        return view(self.world, self.task, self._last, progress=rubric.progress(self.world), blind=blind)

    def step(self, action: Mapping[str, object]) -> Turn:
        """Play an action, `{"action_type": ..., "target": ...}`; anything else is an invalid one."""
        verb, target = action.get("action_type"), action.get("target")
        move = read_move(verb, target, self.world.case.countries)
        return self.play(move, spelled=str(verb)[:SPELLED].encode(errors="replace").decode())

    def play(self, move: Move | None, spelled: str = "") -> Turn:
        """Play an action that is read already."""
        if self.over:
            return self._turn(Result.INVALID, {})
        before = self.world
        self.world, result, why = play(before, move, spelled)
        self._tally, signals = self._tally.pay(before, self.world, result)
        self._last = (result, why)
        self._counts[result] += 1
        self._return += sum(signals.values())
        return self._turn(result, signals)

    def _turn(self, result: Result, signals: Mapping[str, float]) -> Turn:
        return Turn(
            result=result,
            signals=signals,
            terminated=self.over and not self.world.truncated,
            truncated=self.world.truncated,
            grade=rubric.grade(self.world) if self.over else None,
            veto=VETO if result is Result.RULE_VIOLATION and signals else None,
        )

    def metrics(self) -> dict[str, float]:
        """Count what an evaluation reports."""
        world, case = self.world, self.world.case
        success = world.state is State.SUCCESS
        return {
            "grade": rubric.grade(world),
            "return": self._return,
            "steps": world.steps,
            "success": float(success),
            "steps_over_optimum": float(world.steps - case.optimum) if success else float("nan"),
            "violations": self._counts[Result.RULE_VIOLATION],
            "junk": world.charges.junk,
            "invalid": self._counts[Result.INVALID],
            "progress": rubric.progress(world),
        }
