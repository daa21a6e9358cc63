"""What the pages say of a policy and of the log: nothing is surer than the data, and each thing is said once."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from kedge.bandit.v1 import audit_event_pb2, decision_pb2, policy_pb2, policy_service_pb2, ramp_service_pb2
from kedge_bandit.adapters.console import audit, happened
from kedge_bandit.adapters.console.policies import beliefs_of
from kedge_bandit.adapters.console.ramps import range_of
from kedge_bandit.adapters.console.reading import totals
from kedge_bandit.adapters.console.standing import stand


def status(**fields: object) -> policy_service_pb2.GetPolicyStatusResponse:
    found = policy_service_pb2.GetPolicyStatusResponse(
        effective_mode=policy_pb2.MODE_APPLY,
        allocation_version=3,
        **fields,  # type: ignore[arg-type]  # fields by name
    )
    found.policy.exploration.exploitation_floor = 0.5
    return found


@pytest.mark.parametrize(
    ("state", "headline"),
    [
        (ramp_service_pb2.RAMP_STATE_RUNNING, None),
        (ramp_service_pb2.RAMP_STATE_PAUSED, "Ramp paused"),
        (ramp_service_pb2.RAMP_STATE_ROLLED_BACK, "Ramp rolled back"),
        (ramp_service_pb2.RAMP_STATE_ABORTED, "Ramp aborted"),
        (ramp_service_pb2.RAMP_STATE_COMPLETE, None),
    ],
)
def test_a_ramp_that_stands_holds_its_policy_back(
    state: ramp_service_pb2.RampState.ValueType, headline: str | None
) -> None:
    ramp = ramp_service_pb2.Ramp(state=state, why="signal cost_usd", stages=[ramp_service_pb2.RampStage(value=0.8)])
    worst = stand(status(), "", None, [ramp]).worst
    assert (worst.headline if worst is not None else None) == headline


@pytest.mark.parametrize(
    ("fields", "alone"),
    [
        ({}, False),
        ({"closed_reason": decision_pb2.DECISION_REASON_BUDGET}, True),
        ({"closed_reason": decision_pb2.DECISION_REASON_CAP}, True),
    ],
)
def test_what_is_allowed_is_not_what_is_served_while_exploring_is_closed(fields: dict[str, Any], alone: bool) -> None:
    assert stand(status(**fields), "", None).serves_baseline_alone is alone
    frozen = status(**fields)
    frozen.effective_mode = policy_pb2.MODE_FROZEN
    assert stand(frozen, "policy", None).serves_baseline_alone


@pytest.mark.parametrize(("episodes", "is_told"), [(0, False), (1, False), (29, False), (30, True)])
def test_a_few_episodes_that_agree_are_no_certainty(episodes: int, is_told: bool) -> None:
    found = status()
    found.policy.action_keys.extend(["a@1", "b@2"])
    for key in found.policy.action_keys:
        found.actions.add(action_key=key, episodes=episodes, mean_reward=0.0, eligible=True)
    cell = policy_pb2.Cell(action_key="a@1", weight=episodes, reward_sum=0.0, reward_square_sum=0.0)
    assert (stand(found, "", None).lift is not None) is is_told
    assert all(belief.is_known is is_told for belief in beliefs_of([cell]).values())


def test_a_warning_that_a_hold_says_is_not_said_again_and_none_carries_a_hash() -> None:
    warnings = [
        "large@0123456789ab|cot@0123456789ab is not eligible: P(veto rate > cap) = 0.995",
        "the exploration budget allows no exploring now: the baseline alone is published",
        "12 outcomes name decisions that have not arrived",
        "look at large@0123456789ab",
    ]
    advice = stand(status(warnings=warnings), "", None).advice
    assert advice == ["12 outcomes name decisions that have not arrived", "look at large"]


def test_each_policy_is_counted_once() -> None:
    frozen, held = status(), status(closed_reason=decision_pb2.DECISION_REASON_CAP)
    frozen.effective_mode = policy_pb2.MODE_FROZEN
    counted = totals([stand(one, "policy", None) for one in (frozen, held, status())])
    assert counted["stopped"] + counted["held"] + counted["free"] == counted["policies"] == 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"episodes": 14}, "too little data (14 of 100)"),
        (
            {"episodes": 14, "over_cap": 0.56, "finding": ramp_service_pb2.RAMP_METRIC_FINDING_TOO_FEW},
            "too little data (14 of 100)",
        ),
        ({"episodes": 300, "over_cap": 0.56}, "56% sure that it is over its cap"),
        ({"episodes": 300, "lower": -0.1, "upper": 0.2}, "−0.1 to 0.2"),
    ],
)
def test_an_interval_without_enough_data_is_no_interval(fields: dict[str, Any], said: str) -> None:
    assert range_of(ramp_service_pb2.RampMetric(needed_episodes=100, **fields)) == said


def test_one_approval_is_one_row_that_says_what_changed() -> None:
    moment = Timestamp(seconds=1_800_000_000)
    facts = {
        "policy.staged": '{"floor_before": 0.8, "floor": 0.2}',
        "proposal.served": '{"kind": "FLOOR_STAGE"}',
        "proposal.approved": '{"kind": "FLOOR_STAGE"}',
    }
    events = [
        audit_event_pb2.AuditEvent(
            verb=verb, actor="person:kedge#alice", because="fine", event_time=moment, payload_json=payload
        )
        for verb, payload in facts.items()
    ]
    frozen = audit_event_pb2.AuditEvent(verb="policy.frozen", actor="person:kedge#alice", because="no")
    acts = list(happened.acts([*events, frozen]))
    assert [act[0].verb for act in acts] == ["proposal.approved", "policy.frozen"]
    assert "baseline's share 80 % → 20 %" in happened.changes(acts[0])


@given(st.sampled_from([*audit.KINDS]), st.sampled_from([*audit.SPANS]))
def test_the_command_line_under_the_log_lists_what_the_page_lists(kind: str, span: str) -> None:
    line = audit.command("acme", kind, span, "tenants/acme/policies/support")
    assert "--subject tenants/acme/policies/support" in line
    assert ("--days" in line) is bool(span)
    assert all(f"--verb {mark}" in line for mark in audit.KINDS[kind][1])
