"""One word makes one well-formed outcome."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

import pytest

from kedge.bandit.v1 import outcome_pb2 as pb
from kedge_client import EpisodeHandle, OutcomeMaker
from tests.client.stepped_clock import START

POLICY = "tenants/acme/policies/support"


def maker(handle: EpisodeHandle | None = None) -> OutcomeMaker:
    numbers = count(1)
    known = EpisodeHandle(policy=POLICY, episode_id="turn-1", token=b"token") if handle is None else handle
    return OutcomeMaker(handle=known, now=lambda: START, new_id=lambda: f"id-{next(numbers)}")


@pytest.mark.parametrize(
    ("make", "signal", "value", "provenance"),
    [
        (lambda about: about.thumb(+1), pb.SIGNAL_HUMAN, 1.0, pb.HUMAN_PROVENANCE_THUMB),
        (lambda about: about.thumb(0), pb.SIGNAL_HUMAN, 0.0, pb.HUMAN_PROVENANCE_THUMB),
        (lambda about: about.thumb(-1), pb.SIGNAL_HUMAN, -1.0, pb.HUMAN_PROVENANCE_THUMB),
        (lambda about: about.edited(0.3), pb.SIGNAL_HUMAN, 0.3, pb.HUMAN_PROVENANCE_EDITED),
        (lambda about: about.accepted(), pb.SIGNAL_HUMAN, 1.0, pb.HUMAN_PROVENANCE_ACCEPTED),
        (lambda about: about.resolved(True), pb.SIGNAL_HUMAN, 1.0, pb.HUMAN_PROVENANCE_RESOLVED),
        (lambda about: about.resolved(False), pb.SIGNAL_HUMAN, 0.0, pb.HUMAN_PROVENANCE_RESOLVED),
        (lambda about: about.judge(0.8), pb.SIGNAL_JUDGE, 0.8, pb.HUMAN_PROVENANCE_UNSPECIFIED),
        (lambda about: about.task_success(1), pb.SIGNAL_TASK_SUCCESS, 1.0, pb.HUMAN_PROVENANCE_UNSPECIFIED),
        (lambda about: about.safety_clean(), pb.SIGNAL_SAFETY, 1.0, pb.HUMAN_PROVENANCE_UNSPECIFIED),
        (lambda about: about.cost(0.002), pb.SIGNAL_COST, 0.002, pb.HUMAN_PROVENANCE_UNSPECIFIED),
        (lambda about: about.latency(850), pb.SIGNAL_LATENCY, 850.0, pb.HUMAN_PROVENANCE_UNSPECIFIED),
    ],
)
def test_each_word_says_one_signal(
    make: Callable[[OutcomeMaker], pb.Outcome],
    signal: pb.Signal.ValueType,
    value: float,
    provenance: pb.HumanProvenance.ValueType,
) -> None:
    outcome = make(maker())

    assert (outcome.signal, outcome.value, outcome.provenance) == (signal, value, provenance)
    assert outcome.WhichOneof("observation") == "value"
    assert (outcome.decision_token, outcome.idempotency_key) == (b"token", "id-1")
    assert outcome.observed_time.ToDatetime(UTC) == START


def test_every_veto_reason_of_the_wire_can_be_said() -> None:
    reasons = [value.name.removeprefix("VETO_REASON_") for value in pb.VetoReason.DESCRIPTOR.values if value.number]

    outcomes = [maker().safety_tripped(reason) for reason in reasons]

    assert {outcome.value for outcome in outcomes} == {0.0}
    assert [pb.VetoReason.Name(outcome.veto_reason) for outcome in outcomes] == [f"VETO_REASON_{r}" for r in reasons]


def test_an_absent_judge_has_a_reason_and_no_number() -> None:
    outcome = maker().judge_absent("TIMEOUT")

    assert (outcome.signal, outcome.WhichOneof("observation")) == (pb.SIGNAL_JUDGE, "absent")
    assert outcome.absent == pb.ABSENT_REASON_TIMEOUT


@pytest.mark.parametrize(
    ("handle", "target"),
    [
        (
            EpisodeHandle(policy=POLICY, episode_id="t", token=b"token", decision="tenants/acme/decisions/d"),
            "decision_token",
        ),
        (EpisodeHandle(policy=POLICY, episode_id="t", decision="tenants/acme/decisions/d"), "decision"),
        (EpisodeHandle(policy=POLICY, episode_id="t", served_action_key="a@0"), "episode"),
    ],
)
def test_the_best_known_target_is_named(handle: EpisodeHandle, target: str) -> None:
    outcome = maker(handle).accepted(rater_id="rater-9", key="mine")

    assert outcome.WhichOneof("target") == target
    assert (outcome.idempotency_key, outcome.rater_id) == ("mine", "rater-9")
    assert outcome.served_action_key == handle.served_action_key


def test_a_fact_from_earlier_keeps_its_time() -> None:
    earlier = datetime(2026, 2, 28, 8, 30, tzinfo=UTC)

    assert maker().at(earlier).resolved(True).observed_time.ToDatetime(UTC) == earlier
    with pytest.raises(ValueError, match="aware"):
        maker().at(earlier.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda about: about.thumb(2), "thumb"),
        (lambda about: about.edited(1.01), "edit distance"),
        (lambda about: about.judge(float("nan")), "judge score"),
        (lambda about: about.task_success(-0.1), "task success"),
        (lambda about: about.cost(-1.0), "cost_usd"),
        (lambda about: about.latency(float("inf")), "latency_ms"),
        (lambda about: about.safety_tripped("BAD_MOOD"), "GUARDRAIL_PII"),
        (lambda about: about.judge_absent("UNSPECIFIED"), "UNPARSABLE"),
        (lambda about: about.absent("MOOD", "TIMEOUT"), "HUMAN"),
        (lambda about: about.accepted(key=""), "key"),
    ],
)
def test_a_value_that_cannot_be_is_a_value_error(make: Callable[[OutcomeMaker], pb.Outcome], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        make(maker())
