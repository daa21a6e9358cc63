"""The state table of proposals, what an approval binds to, and that going back undoes what was served."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.candidate import Candidate, ProposalKind, actions_compared
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.consent import check_terms, served, what_needs_consent
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.errors import IllegalTransition, InvalidPolicy, InvalidValue
from kedge_bandit.domain.gate import Difference, GateResult, Inconclusive, Verdict
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import create, upsert_arm
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.promotion import demote, promote
from kedge_bandit.domain.proposal import (
    EXPIRY,
    Proposal,
    ProposalId,
    Step,
    approve,
    conclude_gate,
    expire,
    reject,
    revert,
    serve,
    start_gate,
    submit,
    supersede,
    void,
    withdraw,
)
from kedge_bandit.domain.proposal_errors import SecondPersonRequired
from kedge_bandit.domain.proposal_state import FORCEABLE, NEXT, ProposalState
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource

COLLIDING = (3884054, 26312800)
"""Found by a search of half a minute: the 12 digits in an arm id are 48 bits."""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALICE, BOB = Person("https://login.example", "alice"), Person("https://login.example", "bob")
PROMPT, ROUTE = Dimension.PROMPT_VARIANT, Dimension.MODEL_ROUTE
SPEC = PolicySpec(
    arms=(
        Arm(dimension=ROUTE, name="small", content="small-model"),
        Arm(dimension=PROMPT, name="plain", content="Answer plainly."),
        Arm(dimension=PROMPT, name="steps", content="Go step by step."),
    ),
    baseline={ROUTE: "small", PROMPT: "plain"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=2000),
)


def change(days: float = 0.0) -> Change:
    at = NOON + timedelta(days=days)
    return Change(tenant=TenantId("acme"), actor=Actor(str(ALICE)), because="to test it", at=at)


def result(verdict: Verdict, vetoes: int = 0) -> GateResult:
    return GateResult(
        verdict=verdict,
        gate_time=NOON,
        inconclusive_reason=Inconclusive.CRASHED if verdict is Verdict.INCONCLUSIVE else None,
        quality=Difference(0.0, -0.1, 0.1),
        vetoes=vetoes,
        holdout_version="h1",
    )


def arm(name: str = "warm", content: str = "Answer warmly.") -> Candidate:
    return Candidate(ProposalKind.PROMPT, arm=Arm(dimension=PROMPT, name=name, content=content))


def proposed(candidate: Candidate | None = None) -> Proposal:
    made = candidate or arm()
    return submit(ProposalId("p1"), PolicyName("support"), SPEC, made, change(), person=ALICE)[0]


def steps(proposal: Proposal) -> dict[str, Step]:
    """Take every step that can be taken."""
    late = change(days=20)
    tries: dict[str, Callable[[], Step]] = {
        "start_gate": lambda: start_gate(proposal, change()),
        "pass": lambda: conclude_gate(proposal, result(Verdict.PASS), change()),
        "fail": lambda: conclude_gate(proposal, result(Verdict.FAIL), change()),
        "inconclusive": lambda: conclude_gate(proposal, result(Verdict.INCONCLUSIVE), change()),
        "approve": lambda: approve(proposal, BOB, change()),
        "reject": lambda: reject(proposal, change()),
        "withdraw": lambda: withdraw(proposal, change()),
        "void": lambda: void(proposal, change()),
        "expire": lambda: expire(proposal, late),
        "serve": lambda: serve(proposal, change()),
        "revert": lambda: revert(proposal, change()),
        "supersede": lambda: supersede(proposal, ProposalId("p2"), change()),
    }
    taken = {}
    for name, attempt in tries.items():
        try:
            taken[name] = attempt()
        except IllegalTransition:
            continue
    return taken


@given(st.lists(st.integers(0, 11), max_size=12))
def test_every_way_follows_the_table_and_raises_the_version_by_one(choices: list[int]) -> None:
    proposal = proposed()
    for choice in choices:
        possible = steps(proposal)
        assert {moved.state for moved, _ in possible.values()} <= NEXT.get(proposal.state, frozenset())
        if not possible:
            assert proposal.state not in NEXT
            return
        moved, event = list(possible.values())[choice % len(possible)]
        assert (moved.version, event.payload["state"]) == (proposal.version + 1, moved.state)
        proposal = moved


def test_all_of_the_table_can_be_walked() -> None:
    seen, open_ends = {ProposalState.SUBMITTED}, [proposed()]
    while open_ends:
        for moved, _ in steps(open_ends.pop()).values():
            if moved.state not in seen:
                seen.add(moved.state)
                open_ends.append(moved)
    assert seen == set(ProposalState)


@pytest.mark.parametrize("state", sorted(ProposalState))
def test_force_leaves_the_table_in_three_places_alone_and_never_for_the_author_or_after_vetoes(
    state: ProposalState,
) -> None:
    proposal = replace(proposed(), state=state, expire_time=NOON + EXPIRY)
    if state in FORCEABLE:
        forced, event = approve(proposal, BOB, change(), force=True)
        assert (forced.state, forced.forced, event.verb) == (ProposalState.APPROVED, True, "proposal.forced")
        vetoed = replace(proposal, gate_result=result(Verdict.FAIL, vetoes=1))
        with pytest.raises(IllegalTransition):
            approve(vetoed, BOB, change(), force=True)
    elif state is not ProposalState.AWAITING_APPROVAL:
        with pytest.raises(IllegalTransition):
            approve(proposal, BOB, change(), force=True)
    for nobody in (ALICE, None):
        with pytest.raises(SecondPersonRequired):
            approve(proposal, nobody, change(), force=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"gate_result": result(Verdict.PASS)},
        {"lineage": '{"run": "r2"}'},
        {"evaluation_hash": "0" * 64},
        {"candidate": arm(content="Answer warmly!")},
        {"candidate": arm(name="warmer")},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_the_binding_changes_with_everything_that_was_compared(changed: dict[str, object]) -> None:
    proposal = proposed()
    assert replace(proposal, **changed).binding(SPEC) != proposal.binding_hash  # type: ignore[arg-type]


def test_the_binding_outlives_what_it_is_not_about() -> None:
    proposal = proposed()
    retired = replace(SPEC.arms[2], retired=True)
    halved = replace(SPEC, arms=(*SPEC.arms[:2], retired), half_life=timedelta(days=7))
    assert proposal.why_void(halved, "") == ""
    other_model = replace(SPEC, arms=(replace(SPEC.arms[0], content="another"), *SPEC.arms[1:]))
    assert proposal.why_void(other_model, "") != ""


def test_the_gate_compares_the_candidate_with_what_it_takes_the_place_of() -> None:
    pinned = Candidate(ProposalKind.BASELINE, baseline={ROUTE: "small", PROMPT: "steps"})
    for candidate, old, new in (
        (arm(), "Answer plainly.", "Answer warmly."),
        (arm(name="steps", content="In steps."), "Go step by step.", "In steps."),
        (pinned, "Answer plainly.", "Go step by step."),
    ):
        incumbents, candidates = actions_compared(candidate, SPEC)
        assert [one.content for one in incumbents] == ["small-model", old]
        assert [one.content for one in candidates] == ["small-model", new]


CANDIDATES = [
    arm(),
    arm(name="steps", content="In steps."),
    Candidate(ProposalKind.BASELINE, baseline={ROUTE: "small", PROMPT: "steps"}),
    Candidate(ProposalKind.CONFIG, configuration=replace(SPEC, half_life=timedelta(days=3))),
    Candidate(ProposalKind.FLOOR_STAGE, floor=0.4),
]


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda one: one.kind)
def test_going_back_serves_what_was_served(candidate: Candidate) -> None:
    policy, _ = create(PolicyName("support"), SPEC, change())
    promoted, _ = promote(policy, candidate, change())
    assert promoted.spec != policy.spec
    moved = demote(promoted, candidate, SPEC, change())
    assert moved is not None
    back = moved[0].spec
    assert {served(one) for one in back.arms if not one.retired} == {served(one) for one in SPEC.arms}
    assert (back.baseline, back.half_life, back.exploration.floor) == (SPEC.baseline, SPEC.half_life, 0.8)
    assert demote(moved[0], candidate, SPEC, change()) is None


def test_two_texts_with_one_arm_id_are_two_contents() -> None:
    first, second = (Arm(dimension=PROMPT, name="steps", content=f"Answer {number}.") for number in COLLIDING)
    assert first.arm_id == second.arm_id
    spec = replace(SPEC, arms=(*SPEC.arms[:2], first))
    assert what_needs_consent(spec, replace(spec, arms=(*SPEC.arms[:2], second))) == ("new content of arm steps",)
    policy, _ = create(PolicyName("support"), spec, change())
    with pytest.raises(InvalidPolicy, match="same first 12 digits"):
        upsert_arm(policy, second, change())


def test_a_candidate_is_of_its_kind() -> None:
    with pytest.raises(InvalidValue):
        Candidate(ProposalKind.BASELINE, floor=0.5)
    with pytest.raises(InvalidValue):
        Candidate(ProposalKind.PROMPT, arm=Arm(dimension=ROUTE, name="large", content="large-model"))


def test_a_floor_that_states_no_slice_says_the_one_that_stays() -> None:
    explored = replace(SPEC.exploration, floor=0.8, uniform_slice=0.07)
    said = Candidate(ProposalKind.FLOOR_STAGE, floor=0.2).text(replace(SPEC, exploration=explored))
    assert json.loads(said) == {"floor": 0.2, "uniform_slice": 0.07}


def test_going_back_leaves_what_was_made_safer_since() -> None:
    stage_down = Candidate(ProposalKind.FLOOR_STAGE, floor=0.4)
    policy, _ = create(PolicyName("support"), SPEC, change())
    promoted, _ = promote(policy, stage_down, change())
    stricter = replace(promoted.spec.exploration, floor=0.95, uniform_slice=0.01)
    raised = replace(promoted, spec=replace(promoted.spec, exploration=stricter))
    assert demote(raised, stage_down, SPEC, change()) is None
    lower = replace(SPEC, exploration=replace(SPEC.exploration, floor=0.3))
    moved = demote(promoted, stage_down, lower, change())
    assert moved is None or moved[0].spec.exploration.floor == 0.4


def test_what_an_arm_joined_with_is_not_one_persons_to_take() -> None:
    asking = Arm(
        dimension=PROMPT, name="steps", content="Answer {question} in steps.", template_variables=("question",)
    )
    spec = replace(SPEC, arms=(*SPEC.arms[:2], asking))
    with pytest.raises(IllegalTransition, match="arm steps without its template variables question: that is fixed"):
        check_terms(spec, replace(asking, template_variables=()))
    with pytest.raises(IllegalTransition, match="another predecessor of arm steps: that is fixed"):
        check_terms(spec, replace(asking, succeeds=SPEC.arms[1].arm_id))
    check_terms(spec, asking)


def test_learning_without_safety_verdicts_takes_consent() -> None:
    unsafe = replace(SPEC, reward=replace(SPEC.reward, safety_source=SafetySource.NONE))
    assert what_needs_consent(SPEC, unsafe) == ("learning without safety verdicts",)
    assert what_needs_consent(unsafe, SPEC) == what_needs_consent(unsafe, unsafe) == ()
    policy, _ = create(PolicyName("support"), SPEC, change())
    promoted, _ = promote(policy, Candidate(ProposalKind.CONFIG, configuration=unsafe), change())
    assert promoted.spec.reward.safety_source is SafetySource.NONE
