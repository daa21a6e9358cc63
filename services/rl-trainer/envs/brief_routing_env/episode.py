"""One episode in process: a case, its reward, and what may be seen of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from brief_routing_env import rubric
from brief_routing_env.actions import read_move, spelled
from brief_routing_env.retrieval import foreign
from brief_routing_env.scenarios import Case
from brief_routing_env.view import View, view
from brief_routing_env.world import Event, Move, World, play

VETO = "foreign_citation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one step gave back; the grade comes with the last one."""

    event: Event
    signals: Mapping[str, float]
    terminated: bool
    truncated: bool
    grade: float | None
    veto: str | None

    @property
    def reward(self) -> float:
        """The components' sum, to four decimals."""
        return round(sum(self.signals.values()), 4)


class Episode:
    """Play one brief.

    >>> from brief_routing_env.scenarios import case_of
    >>> episode = Episode(case_of("hard_brief", 0))
    >>> turn = episode.step({"action_type": "consult", "expert_id": "analyst"})
    >>> str(turn.event), turn.reward, episode.observe()["consulted_experts"]
    ('first report of a required expert', 0.08, ['analyst'])
    """

    def __init__(self, case: Case) -> None:
        self.world = World(case=case)
        self._history: list[str] = []
        self._last: tuple[Event | None, str] = (None, "")
        self._paid: frozenset[Event | str] = frozenset()
        self._return = 0.0
        self._counts = dict.fromkeys(Event, 0)
        self._breaches = 0

    @property
    def over(self) -> bool:
        """Whatever is played now changes nothing."""
        return self.world.over

    @property
    def task(self) -> str:
        """The task's name, modes included."""
        return self.world.case.name

    def observe(self) -> View:
        """Show the office."""
        return view(self.world, self._history, self._last)

    def step(self, action: Mapping[str, object]) -> Turn:
        """Play an action, `{"action_type": ..., "expert_id": ..., ...}`; what cannot be read is refused."""
        if self.over:
            return self._turn(Event.REFUSED, {}, None)
        move = read_move(action)
        self._history.append(json.dumps(spelled(action)))
        texts = " ".join(value for value in action.values() if isinstance(value, str))
        breach = foreign(texts, self.world.case.switches.tenant)
        self._breaches += breach is not None
        return self._play(move, VETO if breach else None)

    def _play(self, move: Move | None, veto: str | None) -> Turn:
        self.world, event, why = play(self.world, move)
        key = f"{event}:{move.expert}:{move.question}" if move and move.expert else event
        strict = self.world.case.strict
        signals = {"step": rubric.STEP, "shaping": rubric.paid(event, self._paid, key, strict=strict)}
        self._paid |= {key}
        if self.over:
            signals["grade"] = rubric.grade(self.world)
        self._last = (event, why)
        self._counts[event] += 1
        turn = self._turn(event, signals, veto)
        self._return += turn.reward
        return turn

    def _turn(self, event: Event, signals: Mapping[str, float], veto: str | None) -> Turn:
        return Turn(
            event=event,
            signals=signals,
            terminated=self.over and not self.world.truncated,
            truncated=self.world.truncated,
            grade=rubric.grade(self.world) if self.over else None,
            veto=veto,
        )

    def metrics(self) -> dict[str, float]:
        """Count what an evaluation reports."""
        world, parts = self.world, rubric.components(self.world)
        counts = self._counts
        return {
            "grade": rubric.grade(world),
            "return": self._return,
            "steps": world.steps,
            "coverage": parts.coverage,
            "metrics": parts.metrics,
            "memo": parts.hr,
            "strategy": parts.strategy,
            "grounding": parts.grounding,
            "path": parts.path,
            "repeats": counts[Event.REPEATED] + counts[Event.REPEATED_AGAIN],
            "invalid": counts[Event.REFUSED],
            "breaches": self._breaches,
        }
