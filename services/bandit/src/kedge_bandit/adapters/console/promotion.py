"""Say what a proposal would change, in words: its title, the shares of traffic, its way so far."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kedge.bandit.v1 import policy_pb2, proposal_pb2
from kedge_bandit.adapters.console import wording

NEEDS_NO_GATE: Final = (proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE, proposal_pb2.PROPOSAL_KIND_CONFIG)
"""Kinds without a new arm: a person decides on online data alone."""
_NEW: Final = {
    "PROMPT": "New prompt",
    "LORA": "New LoRA",
    "ENVIRONMENT_POLICY": "New environment policy",
}
_DIMENSIONS: Final = {
    policy_pb2.DIMENSION_MODEL_ROUTE: "New model route",
    policy_pb2.DIMENSION_REASONING_DEPTH: "New reasoning depth",
}
_SAME: Final = 1e-6


def title(proposal: proposal_pb2.Proposal) -> str:
    """Say what a proposal changes, in a few words.

    >>> floor = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE, incumbent='{"floor": 0.8}')
    >>> floor.floor_stage.exploitation_floor = 0.2
    >>> title(floor)
    'Lower baseline share 80 % → 20 %'
    """
    kind = proposal_pb2.ProposalKind.Name(proposal.kind).removeprefix("PROPOSAL_KIND_")
    if kind == "FLOOR_STAGE":
        return _floor_title(floor_of(proposal))
    if kind == "BASELINE":
        names = [one.name for _, one in proposal.baseline.ListFields() if hasattr(one, "name") and one.name]
        return f"Baseline becomes {' · '.join(names)}" if names else "Another baseline"
    if kind == "CONFIG":
        return _config_title(wording.facts(proposal.incumbent) or {}, wording.facts(proposal.candidate) or {})
    name = proposal.arm.name
    if name and name == wording.arm_name(proposal.incumbent_name):
        return f"New text of {name}" if kind == "PROMPT" else f"New content of {name}"
    return f"{_new(kind, proposal)} {name}".strip()


def _new(kind: str, proposal: proposal_pb2.Proposal) -> str:
    if kind == "ARM":
        return _DIMENSIONS.get(proposal.arm.dimension, "New arm")
    return _NEW.get(kind, wording.kind(proposal))


@dataclass(frozen=True, slots=True)
class Shares:
    """How traffic is shared while exploring: shares of all of it, in [0, 1]."""

    baseline: float
    evenly: float

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Shares":
        """Read a stage as the wire writes it; what it does not state counts as none."""
        floor = float(facts.get("floor") or 0.0)
        return cls(floor, (1 - floor) * float(facts.get("uniform_slice") or 0.0))

    @property
    def learned(self) -> float:
        """What learning may give away, at most."""
        return 1 - self.baseline - self.evenly

    @property
    def drawn(self) -> Sequence[tuple[str, float, str]]:
        """The shares, for a chart."""
        return (
            ("baseline at least", self.baseline, "quiet"),
            ("spread evenly", self.evenly, "info"),
            ("learned at most", self.learned, "accent"),
        )


def floor_of(proposal: proposal_pb2.Proposal) -> tuple[Shares, Shares]:
    """Give the shares before and after a floor stage."""
    stated = {"floor": proposal.floor_stage.exploitation_floor, **(wording.facts(proposal.candidate) or {})}
    return Shares.of(wording.facts(proposal.incumbent) or {}), Shares.of(stated)


def _floor_title(stage: tuple[Shares, Shares]) -> str:
    before, after = stage
    if abs(before.baseline - after.baseline) < _SAME:
        return f"Spread {wording.percent(before.evenly)} → {wording.percent(after.evenly)} evenly"
    verb = "Lower" if after.baseline < before.baseline else "Raise"
    return f"{verb} baseline share {wording.percent(before.baseline)} → {wording.percent(after.baseline)}"


def _config_title(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = [name.replace("_", " ") for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    if not names:
        return "Another configuration"
    shown = names[:3] if len(names) <= 3 else [*names[:2], f"{len(names) - 2} more settings"]
    return "Change " + (shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}")


@dataclass(frozen=True, slots=True)
class Taken:
    """A step as it is told; `because` is empty where the reason was given by the step before."""

    said: str
    step: proposal_pb2.ProposalStep
    because: str


def history(proposal: proposal_pb2.Proposal) -> Iterator[Taken]:
    """Tell a proposal's way: no gate where none is asked, and each reason once."""
    is_waived, told = proposal.kind in NEEDS_NO_GATE, {proposal.because}
    for step in proposal.steps:
        state = wording.step(step)
        if is_waived and state == "GATE_RUNNING":
            continue
        said = state.replace("_", " ").capitalize()
        if is_waived and state == "AWAITING_APPROVAL":
            said = "Gate waived, awaiting approval"
        if state == "SUBMITTED":
            said = "Proposed"
        yield Taken(said, step, "" if step.because in told else step.because)
        told.add(step.because)


@dataclass(frozen=True, slots=True)
class Moved:
    """One action in one context whose share of traffic would change."""

    context: str
    key: str
    before: float
    after: float


def moved(proposal: proposal_pb2.Proposal) -> list[Moved]:
    """List the shares that would change, the largest change first."""
    rest = "every other context" if len(proposal.previews) > 1 else "every context"
    found = [
        Moved(rest if preview.bucket == "*" else preview.bucket, key, before, after)
        for preview in proposal.previews
        for key, before, after in zip(preview.action_keys, preview.before, preview.after, strict=True)
        if abs(after - before) > _SAME
    ]
    return sorted(found, key=lambda one: -abs(one.after - one.before))


def only_baseline(proposal: proposal_pb2.Proposal) -> bool:
    """Say whether every context is served by one action alone now: what is held back stays so after approval."""
    return all(max(preview.before, default=0.0) > 1 - _SAME for preview in proposal.previews)


def served_time(proposal: proposal_pb2.Proposal) -> Any:
    """Give when it began to serve: its last step while it serves, else when it was approved."""
    return proposal.update_time if wording.state(proposal) == "SERVING" else proposal.approve_time
