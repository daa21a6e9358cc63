"""A second pair of eyes: a reviewer works over an auditor's draft, with less budget and the same reading tools.

A wrapper around an audit that is over. What counts is by how much the grade changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from call_audit_env import rubric
from call_audit_env.calls import Severity
from call_audit_env.episode import Episode
from call_audit_env.moves import Move, Tool, read
from call_audit_env.report import draft
from call_audit_env.view import view
from call_audit_env.world import Answer, Flag, State, World, begin, limited, play

SHARE: Final = 0.4
"""Of the auditor's budget."""

DROPPED_HIGH: Final = 0.05
"""Charged once if a true high finding was dropped."""

READING: Final = frozenset({Tool.METADATA, Tool.SENTIMENT, Tool.LENGTH, Tool.READ, Tool.ANALYZE})


class Verb(StrEnum):
    """What a reviewer does to a finding of the draft, and to the draft; only adding costs what flagging costs."""

    KEEP = "keep_finding"
    DROP = "drop_finding"
    ADD = "add_finding"
    REGRADE = "regrade_finding"
    SEND_BACK = "send_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one step of a review gave back; the change comes with its end."""

    reward: float
    over: bool
    waiting: bool
    grade: float | None = None


class Review:
    """Review one draft.

    >>> from call_audit_env.scenarios import base
    >>> audit = Episode("base", base(3))
    >>> _ = audit.step({"action_type": "read_transcript_chunk", "start_turn": 4, "end_turn": 5})
    >>> _ = audit.step({"action_type": "submit_report", "compliance_pass": True})
    >>> review = Review(audit)
    >>> _ = review.step({"action_type": "add_finding", "violation_type": "pii_exposure_risk",
    ...                  "violation_severity": "high", "turn_index": 4})
    >>> round(review.step({"action_type": "submit_report"}).reward, 3)
    0.998
    """

    def __init__(self, audit: Episode) -> None:
        """Take a draft up.

        Raises:
            RuntimeError: the audit is not over.
        """
        if not audit.over:
            raise RuntimeError("a review begins with a draft: finish the audit first")
        self._audit = audit
        self._first = audit.grade()
        self._world = begin(
            audit.world.call, audit.world.book, audit.world.profile, total=int(SHARE * audit.world.total)
        )
        self._findings = self._drafted()
        self._dropped = False
        self._sent_back = False
        self.waiting = False
        """The draft is with the auditor again; `resume` goes on once it is handed in."""

        self._last = Answer()

    def _drafted(self) -> dict[str, Flag]:
        return {one.policy: one for one in self._audit.world.flags}

    @property
    def over(self) -> bool:
        """The review is handed in."""
        return self._world.over

    def observe(self) -> dict[str, object]:
        """Show the draft, the findings as they stand, and what the reviewer opened: nothing of the truth."""
        shown = view(replace(self._world, flags=tuple(self._findings.values())), self._last)
        return {**shown, "draft_incident_report": draft(self._audit.world), "may_send_back": not self._sent_back}

    def step(self, action: Mapping[str, object]) -> Outcome:
        """Play a review's action, or a reading tool; anything else is refused and does nothing."""
        if self.over or self.waiting:
            self._last = Answer(error="the review is over" if self.over else "the draft is with the auditor")
            return Outcome(reward=0.0, over=self.over, waiting=self.waiting)
        move, verb = read(action), action.get("action_type")
        if move.tool is Tool.SUBMIT or move.tool in READING:
            self._world, self._last = play(self._world, replace(move, passed=not self._findings))
        else:
            known = isinstance(verb, str) and verb in set(Verb)
            told = self._edit(Verb(str(verb)), move) if known else f"a reviewer has {', '.join((*Verb, *Tool))}"
            self._world, self._last = limited(replace(self._world, steps=self._world.steps + 1)), Answer(error=told)
        if not self._world.over:
            return Outcome(reward=0.0, over=False, waiting=self.waiting)
        after = rubric.score(self.reviewed()).total
        charge = DROPPED_HIGH if self._dropped else 0.0
        return Outcome(reward=after - self._first - charge, over=True, waiting=False, grade=after)

    def _edit(self, verb: Verb, move: Move) -> str:
        """Change the findings; give back why not, empty if it was done."""
        if verb is Verb.SEND_BACK:
            return self._send_back()
        policy = move.policy or ""
        if verb is Verb.ADD:
            return self._add(policy, move)
        if policy not in self._findings:
            return f"the draft has no finding of type {policy or 'none'}"
        if verb is Verb.DROP:
            del self._findings[policy]
            self._dropped |= policy in self._true_highs()
        elif verb is Verb.REGRADE:
            if move.severity not in set(Severity):
                return f"violation_severity is one of {', '.join(Severity)}"
            self._findings[policy] = replace(self._findings[policy], severity=Severity(move.severity))
        return ""

    def _add(self, policy: str, move: Move) -> str:
        flagged, answer = play(self._world, replace(move, tool=Tool.FLAG))
        self._world = replace(flagged, flags=())
        if not answer.error:
            self._findings[policy] = flagged.flags[-1]
            self._dropped &= bool(self._true_highs() - set(self._findings))
        return answer.error

    def _true_highs(self) -> set[str]:
        """Name the high breaches that the auditor's draft had found."""
        found = rubric.score(self._audit.world).found
        return {one.policy for one in found if one.severity is Severity.HIGH}

    def _send_back(self) -> str:
        if self._sent_back:
            return "the draft was sent back once already"
        self._sent_back = self.waiting = True
        self._audit.reopen()
        return ""

    def resume(self) -> None:
        """Go on with the auditor's second draft.

        Raises:
            RuntimeError: the auditor has not handed it in.
        """
        if not self._audit.over:
            raise RuntimeError("the auditor has not handed the draft in again")
        self.waiting = False
        self._findings = self._drafted()
        self._dropped = False

    def reviewed(self) -> World:
        """Give the audit as reviewed: its budget, the turns that either opened, and the findings as they stand."""
        audit = self._audit.world
        return replace(
            audit,
            flags=tuple(self._findings.values()),
            shown={**audit.shown, **self._world.shown},
            passed=not self._findings,
            state=audit.state if audit.state is State.EXHAUSTED else State.SUBMITTED,
        )
