"""What a proposal would serve, what it would take the place of, and the hashes that an approval binds to."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import assert_never

from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.divergence_spec import DivergenceSpec
from kedge_bandit.domain.errors import InvalidPolicy, InvalidValue
from kedge_bandit.domain.policy import PolicySpec

_OUTSIDE_CONFIG = ("arms", "baseline")


class ProposalKind(StrEnum):
    """What a proposal would change."""

    PROMPT = "PROMPT"
    LORA = "LORA"
    ENVIRONMENT_POLICY = "ENVIRONMENT_POLICY"
    BASELINE = "BASELINE"
    FLOOR_STAGE = "FLOOR_STAGE"
    CONFIG = "CONFIG"
    ARM = "ARM"

    @property
    def needs_query(self) -> bool:
        """Whether the holdout is asked: not for what changes no arm."""
        return self not in (ProposalKind.FLOOR_STAGE, ProposalKind.CONFIG)


_DIMENSIONS: Mapping[ProposalKind, tuple[Dimension, ...]] = {
    ProposalKind.PROMPT: (Dimension.PROMPT_VARIANT,),
    ProposalKind.LORA: (Dimension.MODEL_ROUTE,),
    ProposalKind.ENVIRONMENT_POLICY: (Dimension.MODEL_ROUTE,),
    ProposalKind.ARM: (Dimension.MODEL_ROUTE, Dimension.REASONING_DEPTH),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """What would be served; exactly the field of its kind is set, else it is refused.

    Attributes:
        arm: of PROMPT, LORA, ENVIRONMENT_POLICY and ARM.
        baseline: of BASELINE: the name of a live arm for each dimension used.
        configuration: of CONFIG; its arms and baseline are not read.
        floor, uniform_slice: of FLOOR_STAGE; no slice: as it is.
    """

    kind: ProposalKind
    arm: Arm | None = None
    baseline: Mapping[Dimension, str] | None = None
    configuration: PolicySpec | None = None
    floor: float | None = None
    uniform_slice: float | None = None

    def __post_init__(self) -> None:
        """Refuse a candidate that is not of its kind. Raises InvalidValue."""
        wanted = _FIELD[self.kind]
        stated = [name for name in ("arm", "baseline", "configuration", "floor") if getattr(self, name) is not None]
        if stated != [wanted]:
            raise InvalidValue("candidate", ", ".join(stated) or "empty", f"only {wanted} for kind {self.kind}")
        if self.arm is not None and self.arm.dimension not in _DIMENSIONS[self.kind]:
            dimensions = " or ".join(_DIMENSIONS[self.kind])
            raise InvalidValue("dimension of the arm", self.arm.dimension, f"{dimensions} for kind {self.kind}")

    def text(self, spec: PolicySpec) -> str:
        """Write what would be served, to be read beside the incumbent's: an arm's content, else JSON."""
        return self.arm.content if self.arm is not None else pretty(self._facts(spec))

    def hash(self, spec: PolicySpec) -> str:
        """Hash the whole candidate; of a baseline with the contents that its names stand for in `spec`."""
        return digest([self.kind, self._facts(spec)])

    def content_hash(self, spec: PolicySpec) -> str:
        """Hash what would be served and nothing beside it: the same content under another name has the same hash."""
        return self.arm.content_hash if self.arm is not None else digest(self._facts(spec))

    def _facts(self, spec: PolicySpec) -> object:
        if self.arm is not None:
            return asdict(replace(self.arm, retired=False))
        if self.baseline is not None:
            return contents(arms_of(spec, self.baseline))
        if self.configuration is not None:
            return settings(self.configuration)
        stated = self.uniform_slice
        uniform_slice = spec.exploration.uniform_slice if stated is None else stated
        return {"floor": self.floor, "uniform_slice": uniform_slice}


_FIELD: Mapping[ProposalKind, str] = {
    ProposalKind.PROMPT: "arm",
    ProposalKind.LORA: "arm",
    ProposalKind.ENVIRONMENT_POLICY: "arm",
    ProposalKind.ARM: "arm",
    ProposalKind.BASELINE: "baseline",
    ProposalKind.CONFIG: "configuration",
    ProposalKind.FLOOR_STAGE: "floor",
}


@dataclass(frozen=True, slots=True)
class Incumbent:
    """What is served in a candidate's place, read from the policy as it is."""

    name: str
    text: str
    hash: str


def incumbent_of(candidate: Candidate, spec: PolicySpec) -> Incumbent:
    """Find what a candidate would take the place of, with the arms that it is served with.

    Raises:
        InvalidPolicy: the policy has no arm in that dimension, or none of that name.
    """
    kind = candidate.kind
    match kind:
        case ProposalKind.PROMPT | ProposalKind.LORA | ProposalKind.ENVIRONMENT_POLICY | ProposalKind.ARM:
            arm, beside = incumbent_arm(candidate, spec), contents(arms_of(spec, spec.baseline))
            return Incumbent(arm.arm_id, arm.content, digest([contents((arm,)), beside]))
        case ProposalKind.BASELINE:
            served = contents(arms_of(spec, spec.baseline))
            return Incumbent(spec.baseline_key, pretty(served), digest(served))
        case ProposalKind.CONFIG:
            settled = settings(spec)
            return Incumbent("configuration", pretty(settled), digest(settled))
        case ProposalKind.FLOOR_STAGE:
            stage = {"floor": spec.exploration.floor, "uniform_slice": spec.exploration.uniform_slice}
            return Incumbent(f"floor {spec.exploration.floor}", pretty(stage), digest(stage))
        case _:
            assert_never(kind)


def incumbent_arm(candidate: Candidate, spec: PolicySpec) -> Arm:
    """Find the arm that a candidate is compared with: of its name, else the one it succeeds, else the baseline's.

    Raises:
        InvalidPolicy: the candidate is no arm, or the policy has none in its dimension.
    """
    new = candidate.arm
    live = [arm for arm in spec.arms if new is not None and arm.dimension is new.dimension and not arm.retired]
    if new is None or not live:
        raise InvalidPolicy("the policy has no arm of that dimension: a proposal replaces or joins arms that are there")
    wanted = (new.name, new.succeeds, spec.baseline[new.dimension])
    return min(live, key=lambda arm: [arm.name != wanted[0], arm.arm_id != wanted[1], arm.name != wanted[2]])


def actions_compared(candidate: Candidate, spec: PolicySpec) -> tuple[tuple[Arm, ...], tuple[Arm, ...]]:
    """Give the arms of the incumbent's action and of the candidate's, one per dimension used.

    An arm is compared beside the baseline's other arms.
    """
    served = arms_of(spec, spec.baseline)
    if candidate.baseline is not None:
        return served, arms_of(spec, candidate.baseline)
    if candidate.arm is None:
        return served, served
    new, old = candidate.arm, incumbent_arm(candidate, spec)
    return (
        tuple(old if arm.dimension is new.dimension else arm for arm in served),
        tuple(new if arm.dimension is new.dimension else arm for arm in served),
    )


def arms_of(spec: PolicySpec, names: Mapping[Dimension, str]) -> tuple[Arm, ...]:
    """Find the live arms of these names, in the order of dimensions. Raises InvalidPolicy where one is missing."""
    found = tuple(arm for arm in spec.arms if not arm.retired and names.get(arm.dimension) == arm.name)
    used = {arm.dimension for arm in spec.arms if not arm.retired}
    if {arm.dimension for arm in found} != used or set(names) != used:
        raise InvalidPolicy("baseline: name one live arm of every dimension that has arms")
    return tuple(sorted(found, key=lambda arm: list(Dimension).index(arm.dimension)))


def settings(spec: PolicySpec) -> Mapping[str, object]:
    """Give everything of a configuration but arms, their caps, the baseline and the floor's stage."""
    facts = asdict(spec)
    if spec.divergence == DivergenceSpec():
        del facts["divergence"]  # as before there was one: what was proposed then keeps its hash
    for name in ("arm_caps", "floor", "uniform_slice"):
        del facts["exploration"][name]
    return {name: value for name, value in facts.items() if name not in _OUTSIDE_CONFIG}


def contents(arms: tuple[Arm, ...]) -> list[list[str]]:
    """Give dimension, name and content's hash of arms."""
    return [[arm.dimension, arm.name, arm.content_hash] for arm in arms]


def digest(facts: object) -> str:
    """Hash facts, whatever the order of their names: SHA-256 in hex.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    written = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(written.encode()).hexdigest()


def pretty(facts: object) -> str:
    """Write facts as JSON that two sides of can be compared line by line."""
    return json.dumps(facts, sort_keys=True, indent=2, default=str)
