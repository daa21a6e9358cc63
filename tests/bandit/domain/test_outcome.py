"""Test that only a fact which can be believed becomes an outcome."""

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kedge_bandit.domain.errors import OutcomeInvalid, OutcomeTimeOutOfRange
from kedge_bandit.domain.outcome import (
    MAX_AHEAD,
    MAX_SKEW,
    AbsentReason,
    Outcome,
    Provenance,
    SignalKind,
    VetoReason,
    check_observed_time,
)
from tests.bandit.domain.outcome_strategies import NOON, absent, measured, outcomes, reacted


@pytest.mark.parametrize("signal", list(SignalKind))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1.5])
def test_a_number_that_cannot_be_is_refused_with_a_reason(signal: SignalKind, value: float) -> None:
    with pytest.raises(OutcomeInvalid, match="must be a finite number") as caught:
        measured(signal, value)

    assert (caught.value.reason, caught.value.field, caught.value.signal) == ("INVALID_OUTCOME", "value", signal)


@pytest.mark.parametrize(
    ("signal", "value"),
    [
        (SignalKind.HUMAN, 0.5),
        (SignalKind.JUDGE, 1.0000001),
        (SignalKind.TASK_SUCCESS, -0.0000001),
        (SignalKind.COST, 1.1e6),
        (SignalKind.LATENCY, 2.6e9),
    ],
)
def test_a_value_outside_its_range_is_refused(signal: SignalKind, value: float) -> None:
    with pytest.raises(OutcomeInvalid):
        measured(signal, value)


@pytest.mark.parametrize(
    "signal", [SignalKind.HUMAN, SignalKind.JUDGE, SignalKind.TASK_SUCCESS, SignalKind.COST, SignalKind.LATENCY]
)
def test_negative_zero_becomes_zero(signal: SignalKind) -> None:
    value = measured(signal, -0.0).value

    assert value is not None
    assert math.copysign(1.0, value) == 1.0


@pytest.mark.parametrize("distance", [math.nan, math.inf, -0.01, 1.01])
def test_an_edit_distance_outside_the_unit_interval_is_refused(distance: float) -> None:
    with pytest.raises(OutcomeInvalid) as caught:
        reacted(Provenance.EDITED, edit_distance=distance)

    assert caught.value.field == "edit_distance"


@pytest.mark.parametrize(
    ("provenance", "value"),
    [(Provenance.THUMB, 0.5), (Provenance.ACCEPTED, 0.0), (Provenance.ACCEPTED, -1.0), (Provenance.RESOLVED, -1.0)],
)
def test_a_reaction_takes_only_the_values_of_its_provenance(provenance: Provenance, value: float) -> None:
    with pytest.raises(OutcomeInvalid, match="must be one of"):
        reacted(provenance, value)


def test_an_edit_gives_its_distance_and_no_value() -> None:
    with pytest.raises(OutcomeInvalid, match="EDITED"):
        reacted(Provenance.EDITED, 1.0)
    with pytest.raises(OutcomeInvalid, match="EDITED"):
        reacted(Provenance.THUMB, edit_distance=0.2)


def test_an_outcome_is_either_measured_or_absent() -> None:
    with pytest.raises(OutcomeInvalid, match="exactly one"):
        Outcome(signal=SignalKind.JUDGE, key="k", source="judge", observed_time=NOON)
    with pytest.raises(OutcomeInvalid, match="exactly one"):
        Outcome(
            signal=SignalKind.JUDGE,
            key="k",
            source="judge",
            observed_time=NOON,
            value=0.5,
            absent=AbsentReason.TIMEOUT,
        )
    assert absent(SignalKind.JUDGE, AbsentReason.TIMEOUT).value is None


def test_a_measured_reaction_names_its_provenance() -> None:
    with pytest.raises(OutcomeInvalid) as caught:
        Outcome(key="k", signal=SignalKind.HUMAN, source="app", observed_time=NOON, value=1.0)

    assert caught.value.field == "provenance"


@pytest.mark.parametrize("signal", [kind for kind in SignalKind if kind is not SignalKind.HUMAN])
@pytest.mark.parametrize(("provenance", "rater"), [(Provenance.THUMB, None), (None, "r")])
def test_only_people_have_a_provenance_and_a_rater(
    signal: SignalKind, provenance: Provenance | None, rater: str | None
) -> None:
    with pytest.raises(OutcomeInvalid, match="belongs to HUMAN only"):
        Outcome(
            key="k",
            signal=signal,
            source="app",
            observed_time=NOON,
            absent=AbsentReason.ERROR,
            provenance=provenance,
            rater_hash=rater,
        )


def test_only_a_judge_is_requested() -> None:
    with pytest.raises(OutcomeInvalid) as caught:
        Outcome(key="k", signal=SignalKind.COST, source="app", observed_time=NOON, value=0.1, requested=True)

    assert caught.value.field == "requested"


@pytest.mark.parametrize("veto", list(VetoReason))
def test_a_tripped_safety_outcome_names_what_tripped(veto: VetoReason) -> None:
    tripped = Outcome(
        key="k", signal=SignalKind.SAFETY, source="guard", observed_time=NOON, value=0.0, veto_reason=veto
    )

    assert tripped.veto_reason is veto


@pytest.mark.parametrize(
    ("signal", "value", "veto"),
    [
        (SignalKind.SAFETY, 0.0, None),
        (SignalKind.SAFETY, 1.0, VetoReason.TOOL_BLOCKED),
        (SignalKind.JUDGE, 0.0, VetoReason.TOOL_BLOCKED),
        (SignalKind.SAFETY, 0.5, None),
    ],
)
def test_a_veto_comes_with_a_tripped_safety_verdict_and_with_nothing_else(
    signal: SignalKind, value: float, veto: VetoReason | None
) -> None:
    with pytest.raises(OutcomeInvalid):
        Outcome(key="k", signal=signal, source="x", observed_time=NOON, value=value, veto_reason=veto)


def test_a_time_without_zone_is_refused_and_another_zone_becomes_utc() -> None:
    with pytest.raises(OutcomeInvalid, match="time zone"):
        Outcome(
            key="k",
            signal=SignalKind.COST,
            source="app",
            observed_time=NOON.replace(tzinfo=None),
            value=0.1,
        )
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    kept = Outcome(key="k", signal=SignalKind.COST, source="app", observed_time=elsewhere, value=0.1)
    assert kept.observed_time.tzinfo is UTC


@pytest.mark.parametrize(("key", "source"), [("", "app"), ("k" * 129, "app"), ("k", "")])
def test_a_key_and_a_source_are_named_and_short(key: str, source: str) -> None:
    with pytest.raises(OutcomeInvalid):
        Outcome(key=key, signal=SignalKind.COST, source=source, observed_time=NOON, value=0.1)


def test_one_bad_value_in_a_batch_leaves_the_other_rows_standing() -> None:
    values = [0.2, math.nan, 0.9]
    kept, refused = [], 0
    for value in values:
        try:
            kept.append(measured(SignalKind.JUDGE, value))
        except OutcomeInvalid:
            refused += 1

    assert ([outcome.value for outcome in kept], refused) == ([0.2, 0.9], 1)


def test_an_outcome_ahead_of_the_clock_is_refused_beyond_five_minutes() -> None:
    seen = measured(SignalKind.COST, 0.1, minute=5.0)
    check_observed_time(seen, decision_time=NOON, now=NOON)

    with pytest.raises(OutcomeTimeOutOfRange) as caught:
        check_observed_time(seen, decision_time=NOON, now=NOON - timedelta(microseconds=1))

    assert caught.value.latest == NOON + MAX_AHEAD - timedelta(microseconds=1)
    assert caught.value.reason == "TIME_OUT_OF_RANGE"


def test_an_outcome_before_its_decision_is_refused_beyond_what_two_clocks_may_differ() -> None:
    seen = measured(SignalKind.COST, 0.1)
    check_observed_time(seen, decision_time=NOON + MAX_SKEW, now=NOON)

    with pytest.raises(OutcomeTimeOutOfRange):
        check_observed_time(seen, decision_time=NOON + MAX_SKEW + timedelta(microseconds=1), now=NOON)


def test_a_time_at_the_edge_of_the_calendar_is_refused_and_does_not_overflow() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    seen = Outcome(key="k", signal=SignalKind.COST, source="app", observed_time=first, value=0.1)
    check_observed_time(seen, decision_time=first, now=NOON)
    with pytest.raises(OutcomeTimeOutOfRange):
        check_observed_time(seen, decision_time=NOON, now=NOON)


@given(outcomes())
def test_an_outcome_survives_json(outcome: Outcome) -> None:
    adapter = TypeAdapter(Outcome)

    assert adapter.validate_json(adapter.dump_json(outcome)) == outcome


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_number_at_all_makes_an_outcome_out_of_range(value: float) -> None:
    try:
        seen = measured(SignalKind.TASK_SUCCESS, value)
    except OutcomeInvalid:
        assert not 0.0 <= value <= 1.0
    else:
        assert seen.value is not None
        assert 0.0 <= seen.value <= 1.0


def test_a_bad_value_in_json_raises_the_domain_error() -> None:
    with pytest.raises(OutcomeInvalid):
        TypeAdapter(Outcome).validate_python(
            {
                "key": "k",
                "signal": "JUDGE",
                "source": "judge",
                "observed_time": datetime(2026, 1, 1, tzinfo=UTC),
                "value": 7.0,
            }
        )
