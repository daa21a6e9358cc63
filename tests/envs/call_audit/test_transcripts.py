"""Our transcripts: held to the rubric whole, varied, partly and as clean twins; and nothing tells which is which."""

from collections import Counter
from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from call_audit_env.book import default
from call_audit_env.calls import Call, Shift, Speaker
from call_audit_env.lint import problems
from call_audit_env.scenarios import TASKS, base, call_of
from call_audit_env.shapes import Shape, make, shapes
from tests.trust.size import of

SHAPES = list(shapes().values())
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
DEV = 1_000_000


def subsets(shape: Shape) -> list[frozenset[str]]:
    keys = sorted(shape.faults)
    return [frozenset(one) for one in chain.from_iterable(combinations(keys, size) for size in range(len(keys) + 1))]


def variant(shape: Shape, active: frozenset[str], seed: int) -> Call:
    return make(shape, active, default(), call_id="x", draw=Random(seed))


@every_shape
def test_every_shape_with_any_of_its_faults_keeps_to_the_rubric(shape: Shape) -> None:
    for active in subsets(shape):
        assert problems(make(shape, active, default(), call_id="x")) == [], active
        for seed in range(of(8, 200)):
            call = variant(shape, active, seed)
            assert problems(call) == [], (active, seed)
            assert len(call.breaches) == len(active)


@every_shape
def test_a_clean_twin_has_no_breach_and_the_same_beginning_of_a_story(shape: Shape) -> None:
    whole = make(shape, frozenset(shape.faults), default(), call_id="x")
    twin = make(shape, frozenset(), default(), call_id="x")
    assert twin.compliant
    assert (twin.department, twin.reason, twin.summary) == (whole.department, whole.reason, whole.summary)
    assert [turn.speaker for turn in twin.turns] == [turn.speaker for turn in whole.turns]


@every_shape
def test_a_shape_has_at_least_eight_variants_at_several_offsets(shape: Shape) -> None:
    made = [variant(shape, frozenset(shape.faults), seed) for seed in range(60)]
    assert len({tuple(turn.text for turn in call.turns) for call in made}) == 60
    lengths = {len(call.turns) - len(shape.lines) for call in made}
    assert {0, 1} < lengths
    assert min(lengths) >= -2
    if any(breach.at for breach in made[0].breaches):
        places = [tuple(breach.at for breach in call.breaches) for call in made]
        assert len(set(places)) >= 3


def test_four_calls_in_ten_are_clean_and_no_type_is_in_most_of_them() -> None:
    calls = [call_of("audit", DEV + seed) for seed in range(2000)]
    clean = sum(call.compliant for call in calls) / len(calls)
    assert clean == pytest.approx(0.4, abs=4 * (0.24 / 2000) ** 0.5)
    types = Counter(one.policy for call in calls for one in call.breaches)
    assert max(types.values()) / len(calls) < 0.4
    assert len(types) == 6


@pytest.mark.parametrize("task", TASKS)
def test_nothing_that_a_call_is_named_by_comes_back(task: str) -> None:
    names = [call_of(task, DEV + seed).call_id for seed in range(200)]
    assert len(set(names)) == 200
    shown = " ".join(names)
    assert not any(shape.name in shown for shape in SHAPES)


def test_a_summary_and_the_length_of_a_call_do_not_tell_a_failing_one_from_its_twin() -> None:
    for shape in SHAPES:
        for seed in range(20):
            whole, twin = variant(shape, frozenset(shape.faults), seed), variant(shape, frozenset(), seed)
            assert {whole.summary, twin.summary} <= set(shape.summaries)


def test_moods_are_those_of_customers_inside_the_call_and_sometimes_mislead() -> None:
    extra = 0
    for seed in range(300):
        call = call_of("audit", DEV + seed)
        assert all(call.turns[one.turn].speaker is Speaker.CUSTOMER for one in call.shifts)
        assert all(one.before != one.after for one in call.shifts)
        written = {line.mood for line in shapes()[call.shape].lines if line.mood}
        extra += any(one.after not in written for one in call.shifts)
    assert extra > 20


@settings(max_examples=of(60, 2000))
@given(seed=st.integers(0, 1_000_000), task=st.sampled_from(["audit", "easy", "medium", "hard", "hero"]))
def test_any_variant_keeps_time_and_its_breaches_lie_inside(seed: int, task: str) -> None:
    call = call_of(task, seed)
    assert problems(call) == []
    assert all(one.start < one.end for one in call.turns)
    assert call.seconds == round(call.turns[-1].end)
    assert all(one.at in one.span and one.detail for one in call.breaches)


def without(call: Call, policy: str) -> Call:
    return replace(call, breaches=tuple(one for one in call.breaches if one.policy != policy))


@pytest.mark.parametrize(
    ("number", "policy"),
    [
        (1, "regulatory_disclosure_failure"),
        (3, "pii_exposure_risk"),
        (7, "pii_exposure_risk"),
        (11, "pii_exposure_risk"),
        (5, "failed_escalation"),
        (9, "failed_escalation"),
        (10, "failed_escalation"),
        (12, "failed_escalation"),
        (6, "incorrect_hold_procedure"),
        (8, "incorrect_hold_procedure"),
        (10, "incorrect_hold_procedure"),
        (12, "regulatory_disclosure_failure"),
    ],
)
def test_the_linter_misses_a_label_that_was_taken_away(number: int, policy: str) -> None:
    assert problems(base(number)) == []
    assert problems(without(base(number), policy))


def test_the_linter_finds_wrong_times_moods_and_summaries() -> None:
    call = base(2)
    late = replace(call.turns[3], start=call.turns[3].start - 60, end=call.turns[3].end - 60)
    twice = replace(call.turns[3], speaker=Speaker.AGENT)
    broken = [
        replace(call, turns=(*call.turns[:3], late, *call.turns[4:])),
        replace(call, turns=(*call.turns[:3], twice, *call.turns[4:])),
        replace(call, turns=(*call.turns[:3], replace(call.turns[3], end=0.0), *call.turns[4:])),
        replace(call, shifts=(Shift(2, "neutral", "angry"),)),
        replace(call, shifts=(Shift(99, "neutral", "angry"),)),
        replace(call, summary="The agent made an unauthorized promise."),
        replace(base(1), department="collections", breaches=()),
    ]
    assert [bool(problems(one)) for one in broken] == [True] * len(broken)


def test_a_label_without_its_cause_is_found_too() -> None:
    [missing] = base(1).breaches
    assert problems(replace(base(2), breaches=(missing,)))
    hold = next(one for one in base(8).breaches if one.policy == "incorrect_hold_procedure")
    assert problems(replace(base(5), breaches=(*base(5).breaches, hold)))
