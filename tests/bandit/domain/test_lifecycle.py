"""A policy moves by audited transitions only."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.advice import warnings_of
from kedge_bandit.domain.arm_caps import NEW_ARM_CAP
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import ArmNotFound, ExplorationRefused, IllegalTransition, InvalidPolicy, ReasonRequired
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.lifecycle import (
    ArmPointer,
    create,
    freeze,
    renew_epoch,
    replace_spec,
    retire_arm,
    set_mode,
    stage,
    unfreeze,
    upsert_arm,
    with_history,
)
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.policy import Exploration, Policy, PolicySpec
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.switch import QuarantineChoice, mode_before_stop
from tests.bandit.domain.policy_strategies import NOON, change, policies, specs

SMALL = Arm(dimension=Dimension.MODEL_ROUTE, name="small", content="provider/small-1")
LARGE = Arm(dimension=Dimension.MODEL_ROUTE, name="large", content="provider/large-1")
SPEC = PolicySpec(
    arms=(SMALL, LARGE),
    baseline={Dimension.MODEL_ROUTE: "small"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0),
)


def fresh(spec: PolicySpec = SPEC) -> Policy:
    return create(PolicyName("support"), spec, change())[0]


def in_mode(mode: Mode) -> Policy:
    return replace(fresh(), mode=mode)


MOVES = [
    lambda policy: stage(policy, change(), floor=0.5),
    lambda policy: freeze(replace(policy, mode=Mode.APPLY), change()),
    lambda policy: unfreeze(
        replace(policy, mode=Mode.FROZEN), change(), resume=Mode.OBSERVE, quarantine=QuarantineChoice.KEEP
    ),
    lambda policy: renew_epoch(policy, change(), quarantine=QuarantineChoice.DROP),
    lambda policy: set_mode(policy, Mode.OBSERVE, change()),
    lambda policy: upsert_arm(policy, replace(LARGE, content="provider/large-2"), change()),
    lambda policy: retire_arm(policy, ArmPointer(Dimension.MODEL_ROUTE, "large"), change()),
    lambda policy: replace_spec(policy, replace(policy.spec, prior_strength=3.0), change()),
]


@pytest.mark.parametrize("move", MOVES)
def test_every_move_raises_the_version_by_one_and_names_it_in_its_event(move: object) -> None:
    assert callable(move)
    moved, event = move(fresh())
    assert isinstance(event, AuditEvent)
    assert moved.version == 2
    assert event.payload["policy_version"] == 2
    assert event.subject == "tenants/acme/policies/support"
    assert event.because == change().because


@given(specs())
def test_a_created_policy_serves_its_configuration_at_version_one(spec: PolicySpec) -> None:
    policy, event = create(PolicyName("support"), spec, change())
    assert (policy.version, policy.configuration_version, policy.mode, policy.seed_epoch) == (1, 1, Mode.APPLY, 1)
    assert (policy.spec, event.verb) == (spec, "policy.created")


@given(policies(), st.floats(0.05, 1), st.floats(0.001, 0.5))
def test_a_stage_moves_floor_and_slice_and_nothing_else(policy: Policy, floor: float, uniform_slice: float) -> None:
    try:
        staged, _ = stage(policy, change(minutes=1), floor=floor, uniform_slice=uniform_slice)
    except (IllegalTransition, ExplorationRefused):
        return
    assert staged.configuration_version == policy.configuration_version
    old = policy.spec.exploration
    back = replace(staged.spec.exploration, floor=old.floor, uniform_slice=old.uniform_slice)
    assert replace(staged.spec, exploration=back) == policy.spec


@given(policies())
def test_putting_what_is_in_force_changes_nothing(policy: Policy) -> None:
    assert with_history(policy, policy.spec) == policy.spec


@given(policies(), specs())
def test_no_arm_is_ever_lost_by_a_new_configuration(policy: Policy, spec: PolicySpec) -> None:
    replaced, _ = replace_spec(policy, spec, change(minutes=1))
    kept = {(arm.dimension, arm.arm_id) for arm in replaced.spec.arms}
    assert {(arm.dimension, arm.arm_id) for arm in (*policy.spec.arms, *spec.arms)} == kept
    assert replaced.spec.action_keys == spec.action_keys
    assert with_history(replaced, spec) == replaced.spec


def test_floor_and_slice_alone_are_a_stage_also_when_they_are_put() -> None:
    staged = replace(SPEC, exploration=Exploration(floor=0.5))
    assert replace_spec(fresh(), staged, change())[0].configuration_version == 1
    assert replace_spec(fresh(), replace(staged, prior_strength=2.0), change())[0].configuration_version == 2


def test_a_new_reward_is_a_new_reward_version() -> None:
    other = replace(SPEC, reward=replace(SPEC.reward, weight_human=0.3))
    replaced, event = replace_spec(fresh(), other, change())
    assert (replaced.spec.reward.version, event.payload["changed"]) == (2, "reward")
    assert replace_spec(replaced, replace(other, prior_strength=1.0), change())[0].spec.reward.version == 2


@pytest.mark.parametrize("mode", Mode)
def test_only_what_runs_is_frozen_and_only_what_stands_is_unfrozen(mode: Mode) -> None:
    policy = in_mode(mode)
    if mode.stops_time:
        with pytest.raises(IllegalTransition):
            freeze(policy, change())
        resumed, _ = unfreeze(policy, change(), resume=Mode.OBSERVE, quarantine=QuarantineChoice.REPLAY)
        assert (resumed.mode, resumed.seed_epoch) == (Mode.OBSERVE, policy.seed_epoch + 1)
    else:
        with pytest.raises(IllegalTransition):
            unfreeze(policy, change(), resume=Mode.APPLY, quarantine=QuarantineChoice.KEEP)
        frozen, event = freeze(policy, change())
        assert (frozen.mode, event.payload["mode_before"]) == (Mode.FROZEN, mode)
        assert (frozen.spec, frozen.seed_epoch, frozen.configuration_version) == (policy.spec, 1, 1)


@pytest.mark.parametrize("found", Mode)
@pytest.mark.parametrize("wanted", Mode)
def test_a_mode_that_resumes_learning_is_only_reached_by_unfreezing(found: Mode, wanted: Mode) -> None:
    refused = found is wanted or (found.stops_time and not wanted.stops_time)
    if refused:
        with pytest.raises(IllegalTransition):
            set_mode(in_mode(found), wanted, change())
    else:
        assert set_mode(in_mode(found), wanted, change())[0].mode is wanted


def test_unfreezing_finds_the_mode_before_the_stop() -> None:
    modes = [Mode.OBSERVE, Mode.BYPASS, Mode.FROZEN]
    changes = [ModeChange("policy", mode, NOON + timedelta(minutes=i)) for i, mode in enumerate(modes)]
    assert mode_before_stop([*changes, ModeChange("tenant", Mode.APPLY, NOON)], "policy") is Mode.OBSERVE
    assert mode_before_stop([], "policy") is Mode.APPLY


def test_other_content_under_a_name_is_another_arm_and_retires_the_old_one() -> None:
    newer = replace(LARGE, content="provider/large-2")
    policy, event = upsert_arm(fresh(), newer, change())
    live = [arm for arm in policy.spec.arms if not arm.retired]
    assert live == [SMALL, newer]
    assert [arm.arm_id for arm in policy.spec.arms if arm.retired] == [LARGE.arm_id]
    assert (event.verb, event.payload["retired"]) == ("arm.added", LARGE.arm_id)
    assert policy.spec.exploration.arm_caps == {newer.arm_id: NEW_ARM_CAP}
    assert policy.configuration_version == 2


def test_an_arm_that_is_put_later_starts_under_a_cap_which_stays_until_another_is_stated() -> None:
    policy = fresh()
    newer = replace(LARGE, name="newer", content="provider/newer")
    joined, _ = replace_spec(policy, replace(policy.spec, arms=(*policy.spec.arms, newer)), change())
    assert joined.spec.exploration.arm_caps == {newer.arm_id: NEW_ARM_CAP}

    again = replace(joined.spec, exploration=replace(joined.spec.exploration, arm_caps={}))
    assert with_history(joined, again) == joined.spec
    stated = replace(joined.spec, exploration=replace(joined.spec.exploration, arm_caps={newer.arm_id: 1.0}))
    assert replace_spec(joined, stated, change())[0].spec.exploration.arm_caps == {newer.arm_id: 1.0}


def test_a_new_baseline_starts_under_no_cap() -> None:
    policy = fresh()
    newer = replace(LARGE, name="newer", content="provider/newer")
    spec = replace(policy.spec, arms=(*policy.spec.arms, newer), baseline={Dimension.MODEL_ROUTE: "newer"})
    assert replace_spec(policy, spec, change())[0].spec.exploration.arm_caps == {}


def test_a_new_arm_never_gets_a_cap_under_the_slices_share() -> None:
    wide = replace(SPEC, exploration=Exploration(floor=0.05, uniform_slice=0.5))
    policy, _ = upsert_arm(fresh(wide), Arm(dimension=Dimension.MODEL_ROUTE, name="new", content="x"), change())
    assert policy.spec.action_caps is not None
    assert min(policy.spec.action_caps) == pytest.approx(0.95 * 0.5 / 3)


def test_a_tombstone_comes_back_with_its_own_content() -> None:
    retired, _ = retire_arm(fresh(), ArmPointer(Dimension.MODEL_ROUTE, "large"), change())
    assert len(retired.spec.actions) == 1
    revived, event = upsert_arm(retired, LARGE, change())
    assert (revived.spec.arms, event.verb) == (SPEC.arms, "arm.added")


def test_the_baselines_arm_cannot_be_taken_away() -> None:
    with pytest.raises(IllegalTransition):
        retire_arm(fresh(), ArmPointer(Dimension.MODEL_ROUTE, "small"), change())
    with pytest.raises(IllegalTransition):
        upsert_arm(fresh(), replace(SMALL, content="provider/small-2"), change())


def test_an_arm_that_is_not_there_or_retired_already_cannot_be_retired() -> None:
    with pytest.raises(ArmNotFound):
        retire_arm(fresh(), ArmPointer(Dimension.MODEL_ROUTE, "large", "0" * 12), change())
    retired, _ = retire_arm(fresh(), ArmPointer(Dimension.MODEL_ROUTE, "large", LARGE.content_hash[:12]), change())
    with pytest.raises(IllegalTransition):
        retire_arm(retired, ArmPointer(Dimension.MODEL_ROUTE, "large"), change())


@pytest.mark.parametrize(
    "exploration",
    [
        Exploration(floor=0.04),
        Exploration(floor=float("nan")),
        Exploration(uniform_slice=0.0),
        Exploration(uniform_slice=0.6),
        Exploration(arm_caps={LARGE.arm_id: 1e-4}),
    ],
)
def test_exploration_out_of_range_is_refused_when_it_is_written(exploration: Exploration) -> None:
    with pytest.raises(ExplorationRefused):
        fresh(replace(SPEC, exploration=exploration))


def test_auto_is_beta_up_to_six_live_actions_and_anova_above() -> None:
    def spec(models: int, *, retired: int = 0) -> PolicySpec:
        arms = tuple(
            Arm(dimension=Dimension.MODEL_ROUTE, name=f"m{i}", content=f"m{i}", retired=0 < i <= retired)
            for i in range(models)
        )
        return replace(SPEC, arms=arms, baseline={Dimension.MODEL_ROUTE: "m0"}, learner="auto")

    assert [spec(models).learner_in_force for models in (1, 6, 7, 36)] == ["beta", "beta", "anova", "anova"]
    assert spec(7, retired=1).learner_in_force == "beta"
    assert replace(spec(7), learner="linear").learner_in_force == "linear"


def test_an_unknown_learner_or_predecessor_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="beta"):
        fresh(replace(SPEC, learner="oracle"))
    with pytest.raises(InvalidPolicy, match="succeeds"):
        fresh(replace(SPEC, arms=(SMALL, replace(LARGE, succeeds="gone@000000000000"))))
    prompt = Arm(dimension=Dimension.PROMPT_VARIANT, name="plain", content="Answer.")
    baseline = SPEC.baseline | {Dimension.PROMPT_VARIANT: "plain"}
    with pytest.raises(InvalidPolicy, match="same dimension"):
        fresh(replace(SPEC, arms=(SMALL, replace(LARGE, succeeds=prompt.arm_id), prompt), baseline=baseline))


@pytest.mark.parametrize("because", ["", "  ", "x" * 1001])
def test_nothing_changes_without_a_reason(because: str) -> None:
    with pytest.raises(ReasonRequired):
        freeze(fresh(), change(because))


def test_what_deserves_a_second_look_is_said() -> None:
    assert warnings_of(SPEC) == ()
    risky = replace(
        SPEC,
        reward=replace(SPEC.reward, weight_judge=0.35, weight_human=0.3, weight_task_success=0.3),
        exploration=Exploration(budget_off=True),
    )
    assert [word for word in ("judge", "budget") if any(word in warning for warning in warnings_of(risky))] == [
        "judge",
        "budget",
    ]
