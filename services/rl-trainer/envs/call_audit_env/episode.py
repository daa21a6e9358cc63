"""One audit in process: a call, its reward, and what may be seen of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from call_audit_env import rubric
from call_audit_env.book import Book, default
from call_audit_env.calls import Call, Severity
from call_audit_env.moves import read
from call_audit_env.report import Report, graded
from call_audit_env.scenarios import Profile
from call_audit_env.view import View, view
from call_audit_env.world import Answer, Event, State, World, begin, play


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one step gave back; the grade comes with the last one."""

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
    """Audit one call.

    >>> from call_audit_env.scenarios import base
    >>> episode = Episode("base", base(1))
    >>> turn = episode.step({"action_type": "read_transcript_chunk", "start_turn": 0, "end_turn": 0})
    >>> turn.reward, episode.observe()["checklist"]["budget_remaining_units"]
    (0.005, 71)
    """

    def __init__(
        self,
        task: str,
        call: Call,
        *,
        book: Book | None = None,
        profile: Profile = Profile.V2,
        total: int | None = None,
    ) -> None:
        self.task = task
        self.world: World = begin(call, book or default(), profile, total=total)
        self._last = Answer()
        self._return = 0.0
        self._refused = 0
        self._exposed = 0
        self._settled = 0.0

    @property
    def over(self) -> bool:
        """Whatever is played now changes nothing."""
        return self.world.over

    def observe(self) -> View:
        """Show the audit."""
        return view(self.world, self._last)

    def step(self, action: Mapping[str, object]) -> Turn:
        """Play an action, `{"action_type": ..., ...}`; anything else is refused and costs as the datasheet says."""
        if self.over:
            self._last = Answer(error="the audit is over")
            return self._turn({}, None)
        self.world, self._last = play(self.world, read(action))
        return self._paid(self._last.events)

    def _paid(self, events: tuple[Event, ...]) -> Turn:
        """Book what the step was worth."""
        self._refused += bool(self._last.error)
        self._exposed += Event.EXPOSED in events
        signals = {"shaping": rubric.step_reward(events, self.world.profile)} if events else {}
        if self.over:
            signals["final"] = self.grade() - self._exhaustion() - self._settled
        self._return += sum(signals.values())
        return self._turn(signals, self._veto(events))

    def reopen(self) -> None:
        """Take a draft back to work on, with the budget that is left; the next grade pays the difference.

        Raises:
            RuntimeError: the audit is not over.
        """
        if not self.over:
            raise RuntimeError("the audit is not over: there is no draft to send back")
        self._settled = self.grade()
        self.world = replace(self.world, state=State.OPEN, passed=None)
        self._last = Answer(body={"remark": "the reviewer sent the draft back"})

    def _exhaustion(self) -> float:
        """Charge exhaustion on the reward where the grade does not hold it: the original's way."""
        beside = self.world.profile is Profile.COMPAT and self.world.state is State.EXHAUSTED
        return rubric.EXHAUSTION if beside else 0.0

    def _veto(self, events: tuple[Event, ...]) -> str | None:
        if Event.EXPOSED in events:
            return "pii_in_report"
        return "budget_exhausted" if self.world.state is State.EXHAUSTED else None

    def _turn(self, signals: Mapping[str, float], veto: str | None) -> Turn:
        cut_off = self.world.state is State.CUT_OFF
        return Turn(
            signals=signals,
            terminated=self.over and not cut_off,
            truncated=cut_off,
            grade=self.grade() if self.over else None,
            veto=veto,
        )

    def grade(self) -> float:
        """Grade the audit as it stands."""
        return rubric.score(self.world).total

    def graded_report(self) -> Report:
        """Write the report against the truth, for an evaluator.

        Raises:
            RuntimeError: the audit is not over.
        """
        if not self.over:
            raise RuntimeError("the audit is not over: a graded report before its end would tell")
        return graded(self.world)

    def metrics(self) -> dict[str, float]:
        """Count what an evaluation reports; shares of nothing are not a number."""
        found = rubric.score(self.world)
        high = [one for one in self.world.call.breaches if one.severity is Severity.HIGH]
        return {
            "grade": found.total,
            "return": self._return,
            "steps": self.world.steps,
            "f1": found.f1,
            "missed_high": sum(one in found.missed for one in high) / len(high) if high else float("nan"),
            "false_flags": len(found.false),
            "budget_left": self.world.left / self.world.total if self.world.total else 0.0,
            "exhausted": float(self.world.state is State.EXHAUSTED),
            "refused": self._refused,
            "exposed": self._exposed,
        }
