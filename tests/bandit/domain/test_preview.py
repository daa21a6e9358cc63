"""A preview is what would be published for a bucket if the candidate served now."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.policy import Exploration, PolicySpec
from kedge_bandit.domain.preview import preview
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.reward_spec import RewardSpec

PROMPT = Dimension.PROMPT_VARIANT
A, B, C = (Arm(dimension=PROMPT, name=name, content=f"Answer as {name}.") for name in "abc")
SPEC = PolicySpec(
    arms=(A, B),
    baseline={PROMPT: "a"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=2000),
    exploration=Exploration(floor=0.2, uniform_slice=0.1),
)
NOW = Allocation(
    policy=PolicyName("support"),
    bucket="task=math",
    version=3,
    policy_version=1,
    configuration_version=1,
    seed_epoch=1,
    as_of=0.0,
    evidence_sequence=0,
    evidence_hash="",
    actions=(A.arm_id, B.arm_id),
    baseline=0,
    floor=0.2,
    uniform_slice=0.1,
    caps=None,
    q=(0.25, 0.75),
    p=(0.42, 0.58),
    mean=(0.5, 0.6),
    eligible=(True, True),
    closed=None,
    publish_time=datetime(2026, 1, 1, tzinfo=UTC),
)


def test_a_new_arm_gets_no_more_than_its_cap_and_the_rest_goes_to_the_baseline() -> None:
    capped = replace(SPEC.exploration, arm_caps={C.arm_id: 0.05})
    seen = preview(NOW, replace(SPEC, arms=(A, B, C), exploration=capped))
    assert seen.actions == (A.arm_id, B.arm_id, C.arm_id)
    assert seen.before == (0.42, 0.58, 0.0)
    assert seen.after[2] == 0.05
    assert sum(seen.after) == pytest.approx(1.0)
    # q = (.25, .75, 1/3) of 4/3; each has .8·(.9·q/Σq + .1/3), the baseline also the floor and what the cap cuts off.
    assert seen.after[1] == pytest.approx(0.8 * (0.9 * 0.75 * 3 / 4 + 0.1 / 3))


def test_another_baseline_takes_the_floor() -> None:
    seen = preview(NOW, replace(SPEC, baseline={PROMPT: "b"}))
    assert seen.after == pytest.approx((0.8 * (0.9 * 0.25 + 0.05), 0.2 + 0.8 * (0.9 * 0.75 + 0.05)))


def test_a_bucket_that_is_closed_stays_with_the_baseline() -> None:
    closed = replace(NOW, closed=Reason.BUDGET, p=(1.0, 0.0))
    assert preview(closed, replace(SPEC, arms=(A, B, C))).after == (1.0, 0.0, 0.0)


def test_an_arm_that_goes_is_shown_with_nothing_after() -> None:
    seen = preview(NOW, replace(SPEC, arms=(A, replace(B, retired=True))))
    assert (seen.actions, seen.after) == ((A.arm_id, B.arm_id), (1.0, 0.0))
