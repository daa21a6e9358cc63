"""ExperimentService over a real channel and a real database."""

from datetime import timedelta

import grpc
import pytest

from kedge.bandit.v1 import experiment_pb2, proposal_service_pb2
from kedge.bandit.v1 import experiment_service_pb2 as pb
from tests.fixtures.administered import Administered, refusal, with_policy
from tests.fixtures.ledgers import START


def wanted(tenant: str, policy: str, **facts: object) -> pb.CreateExperimentRequest:
    usual: dict[str, object] = {
        "name": f"{tenant}/experiments/spring",
        "policy": policy,
        "unit": experiment_pb2.EXPERIMENT_UNIT_SESSION,
        "control_share": 0.5,
        "guardrail_metrics": ["veto_rate"],
    }
    return pb.CreateExperimentRequest(
        parent=tenant,
        experiment=experiment_pb2.Experiment(**{**usual, **facts}),  # type: ignore[arg-type]  # a test's own fields
        because="a test needs it",
        request_id="once",
    )


async def test_one_is_fixed_once_looked_at_and_ended_by_who_may(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    viewer, app = await it.key(tenant, "ROLE_VIEWER"), await it.key(tenant, "ROLE_CORE_APP")
    create = wanted(tenant, policy)
    made = (await it.experiments.CreateExperiment(create, metadata=it.operator)).experiment
    assert (await it.experiments.CreateExperiment(create, metadata=it.operator)).experiment == made
    assert made.primary_metrics == ["reward"]
    assert made.end_time.ToDatetime() - made.start_time.ToDatetime() == timedelta(days=14)
    create.request_id = "twice"
    exists = await refusal(it.experiments.CreateExperiment(create, metadata=it.operator))
    assert exists == (grpc.StatusCode.ALREADY_EXISTS, "EXPERIMENT_EXISTS")
    assert (await refusal(it.experiments.CreateExperiment(create, metadata=viewer)))[1] == "PERMISSION_DENIED"

    asked = pb.GetExperimentRequest(name=made.name)
    shown = (await it.experiments.GetExperiment(asked, metadata=viewer)).experiment
    assert shown.report.decision == experiment_pb2.EXPERIMENT_DECISION_TOO_FEW
    assert not shown.report.metrics[0].learned_lift.HasField("lower")
    side = pb.GetAssignmentRequest(name=made.name, unit_id="s-1")
    assert (await it.experiments.GetAssignment(side, metadata=app)).side != experiment_pb2.EXPERIMENT_SIDE_UNSPECIFIED

    end = pb.EndExperimentRequest(name=made.name, because="it was a test", request_id="end")
    ended = (await it.experiments.EndExperiment(end, metadata=it.operator)).experiment
    assert (await it.experiments.EndExperiment(end, metadata=it.operator)).experiment == ended
    listed = (
        await it.experiments.ListExperiments(pb.ListExperimentsRequest(parent=tenant), metadata=viewer)
    ).experiments
    assert list(listed) == [ended]
    assert ended.report == shown.report
    assert ended.end_because == "it was a test"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"name": "tenants/other/experiments/spring"}, "INVALID_NAME"),
        ({"unit": experiment_pb2.EXPERIMENT_UNIT_UNSPECIFIED}, "INVALID_VALUE"),
        ({"unit": experiment_pb2.EXPERIMENT_UNIT_EPISODE}, "INVALID_VALUE"),
        ({"control_share": 0.99}, "INVALID_VALUE"),
        ({"primary_metrics": ["fame"]}, "INVALID_VALUE"),
        ({"primary_metrics": ["veto_rate"]}, "INVALID_VALUE"),
    ],
)
async def test_what_could_not_be_judged_is_refused(
    administered: Administered, facts: dict[str, object], reason: str
) -> None:
    tenant, policy = await with_policy(administered)
    call = administered.experiments.CreateExperiment(wanted(tenant, policy, **facts), metadata=administered.operator)
    assert (await refusal(call))[1] == reason


async def test_one_that_began_in_the_past_or_of_no_policy_is_refused(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    late = wanted(tenant, policy)
    late.experiment.start_time.FromDatetime(START - timedelta(days=1))
    assert (await refusal(it.experiments.CreateExperiment(late, metadata=it.operator)))[1] == "INVALID_VALUE"
    missing = wanted(tenant, f"{tenant}/policies/none")
    assert (await refusal(it.experiments.CreateExperiment(missing, metadata=it.operator)))[1] == "POLICY_NOT_FOUND"
    get = pb.GetExperimentRequest(name=f"{tenant}/experiments/none")
    assert await refusal(it.experiments.GetExperiment(get, metadata=it.operator)) == (
        grpc.StatusCode.NOT_FOUND,
        "EXPERIMENT_NOT_FOUND",
    )
    of_another = pb.ListExperimentsRequest(parent=tenant, policy="tenants/other/policies/x")
    assert (await refusal(it.experiments.ListExperiments(of_another, metadata=it.operator)))[1] == "INVALID_NAME"


async def test_episodes_are_assigned_by_their_own_draw(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    create = wanted(tenant, policy, unit=experiment_pb2.EXPERIMENT_UNIT_EPISODE, control_share=None)
    made = (await it.experiments.CreateExperiment(create, metadata=it.operator)).experiment
    side = pb.GetAssignmentRequest(name=made.name, unit_id="e-1")
    assert (await refusal(it.experiments.GetAssignment(side, metadata=it.operator)))[1] == "INVALID_VALUE"


async def test_key_figures_of_a_policy_without_traffic_say_what_is_missing(administered: Administered) -> None:
    it = administered
    tenant, policy = await with_policy(it)
    prefer = proposal_service_pb2.RecordPreferenceRequest(
        parent=tenant,
        policy=policy,
        first_episode_id="e1",
        second_episode_id="e2",
        preference=proposal_service_pb2.PREFERENCE_FIRST,
        idempotency_key="k1",
    )
    await it.proposals.RecordPreference(prefer, metadata=it.operator)
    found = await it.experiments.GetPolicyKpis(pb.GetPolicyKpisRequest(name=policy), metadata=it.operator)
    assert (found.episodes, found.HasField("win_rate"), found.HasField("regret")) == (0, False, False)
    assert "100 are needed" in found.advice[0]
    assert {one.signal for one in found.coverage} == {"human", "judge", "task_success", "cost_usd", "latency_ms"}
    late = pb.GetPolicyKpisRequest(name=policy, days=91)
    assert (await refusal(it.experiments.GetPolicyKpis(late, metadata=it.operator)))[1] == "INVALID_VALUE"
