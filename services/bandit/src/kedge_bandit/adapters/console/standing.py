"""Say how a policy stands: whether it is held back, by what and why, and how the learned part does."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kedge.bandit.v1 import audit_event_pb2, ramp_service_pb2
from kedge_bandit.adapters.console import wording
from kedge_bandit.adapters.console.charts import Interval

FIRST_STAGE: Final = 0.8
_Z95: Final = 1.959964
_SAID: Final = {"OBSERVE": "Only observing", "FROZEN": "Frozen", "BYPASS": "Bypassed"}
_STOPPED: Final = ("FROZEN", "BYPASS")
FEWEST: Final = 30
"""Episodes under which a mean gets no interval: of a few that agree it would be of no width."""
_RAMPS: Final = {
    ramp_service_pb2.RAMP_STATE_PAUSED: "Ramp paused",
    ramp_service_pb2.RAMP_STATE_ROLLED_BACK: "Ramp rolled back",
    ramp_service_pb2.RAMP_STATE_ABORTED: "Ramp aborted",
}
_TOLD: Final = re.compile(
    r"learning is held|the self-check alarms|the exploration budget allows no|a cap on what is not|\S+ is not eligible:"
)
"""Warnings of the server that a hold says already."""
_HASH: Final = re.compile(r"@[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One thing that keeps learned choices back.

    Attributes:
        tone: "bad" where the baseline alone is served, "warn" where less is served or nothing is learned, "info".
        headline: in a few words.
        why: in a sentence, with what to do.
        event: the audit event that made it so; None where there is none.
    """

    tone: str
    headline: str
    why: str
    event: audit_event_pb2.AuditEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A policy at one moment.

    Attributes:
        status: what GetPolicyStatus answered.
        mode: effective mode.
        decided_by: level that decides the mode; empty for APPLY.
        holds: what keeps learned choices back, the worst first.
        ramps: of the policy.
    """

    status: Any
    mode: str
    decided_by: str
    holds: Sequence[Hold]
    ramps: Sequence[ramp_service_pb2.Ramp]

    @property
    def name(self) -> str:
        """Resource name."""
        return str(self.status.policy.name)

    @property
    def own_name(self) -> str:
        """Last part of the name."""
        return wording.own_name(self.name)

    @property
    def worst(self) -> Hold | None:
        """The first of what holds it back; None where nothing does."""
        return next(iter(self.serious), None)

    @property
    def serious(self) -> list[Hold]:
        """What keeps it back, without what is only said."""
        return [hold for hold in self.holds if hold.tone != "info"]

    @property
    def floor(self) -> float:
        """Least share of the baseline."""
        return float(self.status.policy.exploration.exploitation_floor)

    @property
    def baseline_key(self) -> str:
        """Key of the baseline's action."""
        keys = self.status.policy.action_keys
        index = self.status.policy.baseline_index
        return str(keys[index]) if index < len(keys) else ""

    @property
    def lift(self) -> Interval | None:
        """Observed mean reward of learned traffic less the baseline's, all episodes alike.

        The interval takes the largest variance that a mean of rewards in [0, 1] can have (Bhatia and Davis 2000): it is
        never too narrow for want of a sum of squares. None under 30 episodes a side.
        """
        (learned, n), (baseline, m) = self._groups()
        if min(n, m) < FEWEST:
            return None
        half = _Z95 * math.sqrt(learned * (1 - learned) / n + baseline * (1 - baseline) / m)
        mean = learned - baseline
        return Interval(label="online reward", mean=mean, lower=mean - half, upper=mean + half)

    @property
    def compared(self) -> str:
        """Say what there is to compare."""
        (_, n), (_, m) = self._groups()
        return f"{n:,} learned and {m:,} baseline episodes settled in this configuration; {FEWEST} of each are needed"

    def _groups(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """Give mean reward and episodes of learned and of baseline traffic."""
        actions = self.status.actions
        learned = [one for one in actions if one.action_key != self.baseline_key]
        return _pooled(learned), _pooled([one for one in actions if one.action_key == self.baseline_key])

    @property
    def is_stopped(self) -> bool:
        """Whether it is frozen or bypassed."""
        return self.mode in _STOPPED

    @property
    def stopper(self) -> str:
        """Actor who brought the present mode; empty where that is not known."""
        return next((hold.event.actor for hold in self.holds if hold.event is not None), "")

    @property
    def serves_baseline_alone(self) -> bool:
        """Whether nothing but the baseline is published, whatever share is allowed."""
        closed = wording.decision_reason(self.status.closed_reason)
        return self.mode != "APPLY" or bool(closed) or not self.status.allocation_version

    @property
    def advice(self) -> list[str]:
        """What else to look at: the server's warnings that no hold says, without hashes."""
        kept = (warning for warning in self.status.warnings if not _TOLD.match(warning))
        return [_HASH.sub("", warning).replace("|", " · ") for warning in kept]

    @property
    def veto_rate(self) -> float | None:
        """Vetoed share of what was settled; None before anything was."""
        counts = self.status.episode_counts
        ended = counts["SETTLED"] + counts["VETOED"]
        return counts["VETOED"] / ended if ended else None

    @property
    def ended(self) -> int:
        """Episodes that were settled or vetoed."""
        counts = self.status.episode_counts
        return int(counts["SETTLED"] + counts["VETOED"])


def _pooled(actions: Sequence[Any]) -> tuple[float, int]:
    size = sum(one.episodes for one in actions)
    return (sum(one.mean_reward * one.episodes for one in actions) / size if size else 0.0), size


def stand(
    status: Any, decided_by: str, event: audit_event_pb2.AuditEvent | None, ramps: Sequence[ramp_service_pb2.Ramp] = ()
) -> Standing:
    """Judge a policy's status.

    Args:
        decided_by: the level that decides the mode, as GetMode names it.
        event: the audit event that brought the present mode, where it is known.
        ramps: of the policy; one that stands holds it.
    """
    mode = wording.mode(status.effective_mode)
    holds = [*_by_mode(mode, decided_by, event), *_by_ramps(ramps), *_by_status(status, mode)]
    return Standing(status=status, mode=mode, decided_by=decided_by, holds=holds, ramps=ramps)


_ENDS: Final = {
    "policy": "Unfreeze the policy to go on.",
    "tenant": "The whole tenant is stopped: unfreeze the tenant to go on.",
    "global": "Everything is stopped, by whoever runs the service: only an operator can end it.",
    "file": "A file `mode_override` on the server's machine says so: whoever runs the service can remove it.",
    "environment": "The server was started with KEDGE_MODE_OVERRIDE: whoever runs the service can change it.",
    "flags": "Your flag system says so: switch its flag on again.",
}


def _by_mode(mode: str, decided_by: str, event: audit_event_pb2.AuditEvent | None) -> Iterator[Hold]:
    if mode == "APPLY":
        return
    levels = {"policy": "", "tenant": "with its tenant", "global": "with everything", "": ""}
    level = levels.get(decided_by, f"by {decided_by}")
    tone = "bad" if mode in _STOPPED else "warn"
    ends = _ENDS.get(decided_by, "") if mode in _STOPPED else "Set the mode to APPLY to serve learned choices."
    yield Hold(
        tone=tone, headline=f"{_SAID[mode]} {level}".strip(), why=f"{wording.MODE_MEANS[mode]}. {ends}", event=event
    )


def _by_ramps(ramps: Sequence[ramp_service_pb2.Ramp]) -> Iterator[Hold]:
    for ramp in ramps:
        if ramp.state in _RAMPS:
            about = f"The cap of {wording.arm_name(ramp.arm_id)}" if ramp.arm_id else "The baseline's least share"
            value = wording.percent(ramp.stages[ramp.stage].value)
            why = f"{about} stays at {value} until an approver lets it go on. {wording.sentence(ramp.why)}"
            yield Hold(tone="warn", headline=_RAMPS[ramp.state], why=why)


def _by_status(status: Any, mode: str) -> Iterator[Hold]:
    if not status.allocation_version:
        yield Hold(
            tone="warn", headline="No allocation yet", why="The worker has published nothing: the baseline is served."
        )
    closed = wording.decision_reason(status.closed_reason)
    if closed == "BUDGET" and mode == "APPLY":
        why = (
            "It may cost a share of the baseline's reward, and none is left or earned yet. The baseline alone is served"
        )
        why += f"{_as_of(status)}. Nobody has to act: it goes on when the budget is earned again, often within minutes."
        yield Hold(tone="warn", headline="No exploration budget left", why=why)
    elif mode == "APPLY" and not status.policy.exploration.budget_off:
        why = "It rests whenever its exploration budget is spent, often for minutes, and goes on by itself."
        yield Hold(tone="info", headline="Paced by its exploration budget", why=why)
    if closed == "CAP":
        yield Hold(tone="bad", headline="A cap is reached", why=_cap(status))
    if status.learning_held:
        why = f"Learning is held ({status.learning_held}): outcomes are stored, belief does not move."
        yield Hold(tone="warn", headline="Learning held", why=why)
    if status.self_check.alarm:
        why = "What was drawn does not fit what was published. Do not clear it before you know why: `kedge replay`."
        yield Hold(tone="bad", headline="Self-check alarm", why=why)
    yield from _by_floor(float(status.policy.exploration.exploitation_floor), mode)
    out = [wording.action_name(one.action_key) for one in status.actions if not one.eligible]
    if out:
        why = f"Believed to be vetoed too often, and not served: {', '.join(out)}."
        yield Hold(tone="warn", headline=f"{wording.count(len(out), 'action')} excluded", why=why)


def _as_of(status: Any) -> str:
    published = wording.time_of(status.publish_time)
    return f", as published at {published:%H:%M:%S} UTC" if published else ""


def _by_floor(floor: float, mode: str) -> Iterator[Hold]:
    if mode != "APPLY":
        return
    if floor >= FIRST_STAGE:
        why = f"At least {wording.percent(floor)} of traffic stays with the baseline until a later stage is reached."
        yield Hold(tone="info", headline="At its first stage", why=why)


def _cap(status: Any) -> str:
    until = wording.time_of(status.capped_until)
    text = f"{status.non_baseline_decisions:,} decisions of the last hour were not the baseline"
    if status.non_baseline_cost_usd:
        text += f", and they cost ${status.non_baseline_cost_usd:,.2f} in a day"
    return f"{text}. The baseline alone is published" + (f" until {until:%Y-%m-%d %H:%M} UTC." if until else ".")
