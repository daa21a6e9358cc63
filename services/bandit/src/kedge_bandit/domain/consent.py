"""Say what of a change takes a second person's consent, once a policy exists."""

from typing import Final

from kedge_bandit.domain.candidate import arms_of, contents
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.reward_spec import SafetySource

_ROUNDING: Final = 1e-12

Served = tuple[Dimension, str, str]


def served(arm: Arm) -> Served:
    """Name what an arm serves by its whole hash: two contents may share the 12 digits of an arm id by design."""
    return arm.dimension, arm.name, arm.content_hash


def new_content(before: PolicySpec, arm: Arm) -> bool:
    """Say whether an arm serves what no live arm of the policy serves under that name; a tombstone serves nothing."""
    return served(arm) not in {served(old) for old in before.arms if not old.retired}


def check_terms(before: PolicySpec, arm: Arm) -> None:
    """Refuse to take from a live arm what it joined with: its successors are held to it, and its evidence came by it.

    Raises:
        IllegalTransition: it would lose template variables, or have another predecessor.
    """
    [old] = [one for one in before.arms if not one.retired and served(one) == served(arm)] or [arm]
    lost = sorted(set(old.template_variables) - set(arm.template_variables))
    terms = [f"arm {arm.name} without its template variables {', '.join(lost)}"] if lost else []
    if old.succeeds != arm.succeeds:
        terms.append(f"another predecessor of arm {arm.name}")
    if terms:
        raise IllegalTransition(f"{' and '.join(terms)}: that is fixed when an arm joins, give it another name")


def what_needs_consent(before: PolicySpec, after: PolicySpec) -> tuple[str, ...]:
    """Name everything of a new configuration that a person alone may not bring: none, and it may be put.

    Floors have rules of their own, see `ramp_step.check_floor`.

    >>> from kedge_bandit.domain.reward_spec import RewardSpec
    >>> direct = Arm(dimension=Dimension.PROMPT_VARIANT, name="direct", content="Answer.")
    >>> spec = PolicySpec(arms=(direct,), baseline={Dimension.PROMPT_VARIANT: "direct"},
    ...                   reward=RewardSpec(cost_reference_usd=1, latency_reference_ms=1))
    >>> what_needs_consent(spec, spec)
    ()
    """
    found = [f"new content of arm {arm.name}" for arm in after.arms if not arm.retired and new_content(before, arm)]
    if contents(arms_of(before, before.baseline)) != contents(arms_of(after, after.baseline)):
        found.append("another baseline")
    if after.reward.safety_source is SafetySource.NONE is not before.reward.safety_source:
        found.append("learning without safety verdicts")
    if after.divergence.is_weaker_than(before.divergence):
        found.append("a weaker divergence alarm")
    caps = before.exploration.arm_caps
    for arm in after.arms:
        if arm.retired or new_content(before, arm):
            continue
        if after.exploration.arm_caps.get(arm.arm_id, 1.0) > caps.get(arm.arm_id, 1.0) + _ROUNDING:
            found.append(f"a higher cap of arm {arm.name}")
    return tuple(found)
