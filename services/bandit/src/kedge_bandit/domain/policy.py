"""A policy: what a person configures (`PolicySpec`), and that with its version, mode and epoch (`Policy`)."""

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from kedge_bandit.domain.context import Feature, check_features
from kedge_bandit.domain.dimension import Action, Arm, Dimension, joint_actions
from kedge_bandit.domain.divergence_spec import DivergenceSpec
from kedge_bandit.domain.errors import InvalidPolicy
from kedge_bandit.domain.identifiers import PolicyName, policy_name
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.settlement import Windows

MIN_HALF_LIFE = timedelta(minutes=1)
DEFAULT_HALF_LIFE = timedelta(days=14)
AUTO = "auto"
MOST_INDEPENDENT = 6
"""Live joint actions up to which independent beliefs learn as well as correlated ones (vetted by `make bench`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """How much of the traffic explores.

    Attributes:
        floor: exploitation floor φ, in [.05, 1]; .8 at the start (vetted in the design's simulations).
        uniform_slice: e, in (0, .5].
        budget_share: largest share of the baseline's expected reward that exploring may cost.
        budget_off: publish without the budget rule.
        arm_caps: arm id → largest probability of every action that contains it.
        max_non_baseline_decisions_per_hour: once so many were made, the baseline alone is published; 0: no cap.
        max_non_baseline_cost_usd_per_day: likewise by what their logged episodes cost, US dollars; 0: no cap.
    """

    floor: float = 0.8
    uniform_slice: float = 0.10
    budget_share: float = 0.05
    budget_off: bool = False
    arm_caps: dict[str, float] = field(default_factory=dict)
    max_non_baseline_decisions_per_hour: int = 0
    max_non_baseline_cost_usd_per_day: float = 0.0

    @property
    def has_caps(self) -> bool:
        """Whether decisions beside the baseline are counted against a cap."""
        return self.max_non_baseline_decisions_per_hour > 0 or self.max_non_baseline_cost_usd_per_day > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """When an episode's outcomes are complete.

    Attributes:
        expects_task_success: a verifier answers for this policy's turns, so settlement waits for it.
        judge_rate: share of episodes for which a judge is requested, in [0, 1].
    """

    expects_task_success: bool = False
    judge_rate: float = 0.0
    windows: Windows = Windows()


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """What a person configures. Immutable; a change is a new version.

    Attributes:
        baseline: arm name per dimension used.
        half_life: policy time after which evidence counts half; at least a minute.
        learner: a registered one, or "auto", see `learner_in_force`.
        prior_strength: s of the learner, in [0, 1000].

    Raises:
        InvalidPolicy: on construction, with what to change; exploration is checked by `allocation.check_exploration`.
    """

    features: tuple[Feature, ...] = ()
    arms: tuple[Arm, ...]
    baseline: dict[Dimension, str]
    reward: RewardSpec
    settlement: Settlement = Settlement()
    exploration: Exploration = Exploration()
    divergence: DivergenceSpec = DivergenceSpec()
    learner: str = AUTO
    half_life: timedelta = DEFAULT_HALF_LIFE
    prior_strength: float = 6.0

    def __post_init__(self) -> None:
        """Check everything that does not need the learners' registry."""
        check_features(self.features)
        if len({(arm.dimension, arm.arm_id) for arm in self.arms}) != len(self.arms):
            raise InvalidPolicy("an arm is declared twice with the same content: remove one")
        live = [(arm.dimension, arm.name) for arm in self.arms if not arm.retired]
        if len(set(live)) != len(live):
            raise InvalidPolicy("two live arms of one dimension share a name: retire the old one")
        if self.half_life < MIN_HALF_LIFE:
            raise InvalidPolicy(f"half_life {self.half_life}: use at least one minute")
        if not 0 <= self.prior_strength <= 1000:
            raise InvalidPolicy("prior_strength: use a number in [0, 1000]")
        if not 0 <= self.settlement.judge_rate <= 1:
            raise InvalidPolicy("judge_rate: use a share in [0, 1]")
        if not 0 < self.exploration.budget_share <= 1:
            raise InvalidPolicy("budget_share: use a share in (0, 1]")
        if self.exploration.max_non_baseline_decisions_per_hour < 0:
            raise InvalidPolicy("max_non_baseline_decisions_per_hour: use a number from 1, or 0 for no cap")
        if not 0 <= self.exploration.max_non_baseline_cost_usd_per_day < math.inf:
            raise InvalidPolicy("max_non_baseline_cost_usd_per_day: use US dollars above 0, or 0 for no cap")
        _ = self.baseline_index
        known = {arm.arm_id for arm in self.arms}
        for arm_id, cap in self.exploration.arm_caps.items():
            if arm_id not in known or not 0 < cap <= 1:
                raise InvalidPolicy(f"arm cap {arm_id[:80]!r}: name an arm id of the policy and a cap in (0, 1]")

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """Joint actions of the live arms in canonical order; at most 36."""
        return joint_actions(self.arms)

    @cached_property
    def action_keys(self) -> tuple[str, ...]:
        """Keys of `actions`."""
        return tuple(action.key for action in self.actions)

    @cached_property
    def index(self) -> dict[str, int]:
        """Place of each action key in canonical order."""
        return {key: i for i, key in enumerate(self.action_keys)}

    @cached_property
    def baseline_index(self) -> int:
        """Place of the baseline.

        Raises:
            InvalidPolicy: the baseline does not name one live arm of each dimension used.
        """
        for i, action in enumerate(self.actions):
            if {arm.dimension: arm.name for arm in action.arms} == self.baseline:
                return i
        raise InvalidPolicy("baseline: name one live arm of every dimension that has arms")

    @property
    def baseline_key(self) -> str:
        """Key of the baseline."""
        return self.action_keys[self.baseline_index]

    @property
    def learner_in_force(self) -> str:
        """Name the learner that "auto" stands for: `beta` up to 6 live joint actions, `anova` above."""
        if self.learner != AUTO:
            return self.learner
        return "beta" if len(self.actions) <= MOST_INDEPENDENT else "anova"

    @cached_property
    def action_caps(self) -> tuple[float, ...] | None:
        """Cap of each action (the smallest of its arms'), None when no arm is capped."""
        caps = self.exploration.arm_caps
        if not caps:
            return None
        return tuple(min((caps.get(arm.arm_id, 1.0) for arm in action.arms), default=1.0) for action in self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy as it stands.

    Attributes:
        version: `policy_version`; grows by one with every change of configuration, stage or mode.
        configuration_version: the version of the last change of anything but stage and mode.
        mode: its own; the effective one may be more restrictive.
        seed_epoch: changes at unfreeze, so that draws before and after are independent.
    """

    name: PolicyName
    version: int
    configuration_version: int
    mode: Mode
    seed_epoch: int
    spec: PolicySpec
    create_time: datetime
    update_time: datetime

    def __post_init__(self) -> None:
        """Refuse a name that is not one."""
        policy_name(self.name)
