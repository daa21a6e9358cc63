"""Draw policies that a person could configure."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.context import CategoricalFeature, Feature, NumericFeature
from kedge_bandit.domain.dimension import Arm, CostCard, Dimension
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import create
from kedge_bandit.domain.policy import Exploration, Policy, PolicySpec, Settlement
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource
from kedge_bandit.domain.settlement import Windows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACME = TenantId("acme")

_text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
_name = st.from_regex(r"[A-Za-z0-9._:-]{1,12}", fullmatch=True)
_usd = st.floats(0, 1e6)
_cards = st.builds(
    CostCard, usd_per_million_prompt_tokens=_usd, usd_per_million_completion_tokens=_usd, usd_per_episode=_usd
)


def change(because: str = "to see whether it works", *, minutes: int = 0) -> Change:
    """Make a change of acme's by one person."""
    return Change(tenant=ACME, actor=Actor("key:ada"), because=because, at=NOON + timedelta(minutes=minutes))


@st.composite
def arms(draw: st.DrawFn) -> tuple[Arm, ...]:
    """Draw one to three arms of one to three dimensions, and tombstones beside them."""
    used = draw(st.sets(st.sampled_from(Dimension), min_size=1))
    made: list[Arm] = []
    for dimension in sorted(used):
        for name in draw(st.lists(_name, min_size=1, max_size=3, unique=True)):
            contents = draw(st.lists(_text, min_size=1, max_size=2, unique=True))
            made += [
                Arm(
                    dimension=dimension,
                    name=name,
                    content=content,
                    cost_card=draw(_cards),
                    template_variables=tuple(draw(st.lists(_text, max_size=2))),
                    retired=place > 0,
                )
                for place, content in enumerate(contents)
            ]
    return tuple(draw(st.permutations(made)))


@st.composite
def features(draw: st.DrawFn) -> tuple[Feature, ...]:
    """Draw up to three features."""
    names = draw(st.lists(st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True), max_size=3, unique=True))
    made: list[Feature] = []
    for name in names:
        if draw(st.booleans()):
            made.append(CategoricalFeature(name, tuple(draw(st.lists(_text, min_size=1, max_size=3)))))
        else:
            points = draw(st.lists(st.floats(-1e9, 1e9), max_size=4, unique=True))
            made.append(NumericFeature(name, tuple(sorted(point + 0.0 for point in points))))
    return tuple(made)


@st.composite
def specs(draw: st.DrawFn) -> PolicySpec:
    """Draw a configuration that `create` accepts."""
    chosen = draw(arms())
    live = [arm for arm in chosen if not arm.retired]
    baseline = {arm.dimension: arm.name for arm in draw(st.permutations(live))}
    capped = draw(st.sets(st.sampled_from([arm.arm_id for arm in chosen])))
    return PolicySpec(
        features=draw(features()),
        arms=chosen,
        baseline=baseline,
        reward=RewardSpec(
            cost_reference_usd=draw(st.floats(1e-6, 10)),
            latency_reference_ms=draw(st.floats(1, 1e6)),
            weight_judge=draw(st.floats(0, 0.3)),
            missing_cost=draw(st.floats(0, 1)),
            safety_source=draw(st.sampled_from(SafetySource)),
        ),
        settlement=Settlement(
            expects_task_success=draw(st.booleans()),
            judge_rate=draw(st.floats(0, 1)),
            windows=Windows(judge=timedelta(seconds=draw(st.integers(0, 7200)))),
        ),
        exploration=Exploration(
            floor=draw(st.floats(0.05, 1)),
            uniform_slice=draw(st.floats(0.001, 0.5)),
            budget_share=draw(st.floats(0.01, 1)),
            budget_off=draw(st.booleans()),
            arm_caps=dict.fromkeys(sorted(capped), 1.0),
            max_non_baseline_decisions_per_hour=draw(st.integers(0, 10**9)),
            max_non_baseline_cost_usd_per_day=draw(st.floats(0, 1e6)),
        ),
        half_life=timedelta(seconds=draw(st.integers(60, 10**8))),
        prior_strength=draw(st.floats(0, 1000)),
    )


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy at its first version."""
    return create(PolicyName("support"), draw(specs()), change())[0]
