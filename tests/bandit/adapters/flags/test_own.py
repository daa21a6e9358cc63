"""Behind the stock OpenFeature client our provider says true only where learned choices may be served."""

import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from kedge_bandit.adapters.flags.own import OwnProvider, flag_of
from kedge_bandit.adapters.flags.plugged import client_of
from kedge_bandit.domain.mode import Mode
from tests.bandit.adapters.flags.conftest import ACME, SUPPORT, StatedSnapshot

ABOUT_ACME = EvaluationContext(targeting_key=ACME)
FLAG = flag_of(SUPPORT)


@pytest.mark.parametrize("mode", Mode)
def test_the_flag_is_true_in_apply_alone_and_names_the_mode(snapshot: StatedSnapshot, mode: Mode) -> None:
    snapshot.modes[ACME, SUPPORT] = mode
    found = client_of(OwnProvider(snapshot)).get_boolean_details(FLAG, False, ABOUT_ACME)

    assert (found.value, found.variant, found.reason) == (mode is Mode.APPLY, mode, Reason.STATIC)
    assert found.flag_metadata == {"mode": mode, "policy_version": 3}


def test_a_stale_view_says_false_even_to_a_caller_whose_default_is_true(snapshot: StatedSnapshot) -> None:
    snapshot.stale = True
    found = client_of(OwnProvider(snapshot)).get_boolean_details(FLAG, True, ABOUT_ACME)

    assert (found.value, found.variant, found.reason) == (False, "STALE", Reason.STALE)


def test_the_attribute_tenant_goes_before_the_targeting_key(snapshot: StatedSnapshot) -> None:
    context = EvaluationContext(targeting_key="user-7", attributes={"tenant": "acme"})

    assert client_of(OwnProvider(snapshot)).get_boolean_value(FLAG, False, context)


@pytest.mark.parametrize(
    ("flag", "context", "error"),
    [
        ("kedge.policy.other.enabled", ABOUT_ACME, ErrorCode.FLAG_NOT_FOUND),
        ("kedge.policy..enabled", ABOUT_ACME, ErrorCode.FLAG_NOT_FOUND),
        ("new-checkout", ABOUT_ACME, ErrorCode.FLAG_NOT_FOUND),
        (FLAG, EvaluationContext(targeting_key="nobody"), ErrorCode.FLAG_NOT_FOUND),
        (FLAG, EvaluationContext(), ErrorCode.TARGETING_KEY_MISSING),
    ],
)
def test_what_it_does_not_know_is_the_callers_default(
    snapshot: StatedSnapshot, flag: str, context: EvaluationContext, error: ErrorCode
) -> None:
    found = client_of(OwnProvider(snapshot)).get_boolean_details(flag, False, context)

    assert (found.value, found.error_code) == (False, error)


def test_other_types_are_refused(snapshot: StatedSnapshot) -> None:
    client = client_of(OwnProvider(snapshot))

    assert client.get_string_details(FLAG, "x", ABOUT_ACME).error_code is ErrorCode.TYPE_MISMATCH
    assert client.get_integer_details(FLAG, 1, ABOUT_ACME).error_code is ErrorCode.TYPE_MISMATCH
    assert client.get_float_details(FLAG, 1.0, ABOUT_ACME).error_code is ErrorCode.TYPE_MISMATCH
    assert client.get_object_details(FLAG, {}, ABOUT_ACME).error_code is ErrorCode.TYPE_MISMATCH
