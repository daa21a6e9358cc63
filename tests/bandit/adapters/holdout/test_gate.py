"""The gate takes a proposal to its verdict: the ledger first, both sides in one run, and every way to find nothing."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from kedge.bandit.v1 import governance_service_pb2, proposal_pb2
from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge.bandit.v1 import proposal_service_pb2 as service_pb
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.claim_query import Claim, Claimed
from kedge_bandit.application.holdout_ports import AnswererPart, LedgerRow
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.gating import Gating, enough_cases, gating, number_case
from tests.fixtures.proposing import Cast, cast, prompt

S = proposal_pb2.Proposal


@pytest.fixture
async def it(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> AsyncIterator[Gating]:
    people = await cast(administered, ledgers)
    async with gating(people, migrated_url, tmp_path) as gate:
        yield gate


async def ready(it: Gating) -> None:
    await it.put_cases(enough_cases())
    await it.put_program()


async def judged(it: Gating, content: str, name: str = "new") -> S:
    """Propose a prompt and run the gate; gives what its approver reads."""
    proposal = await it.cast.submit(prompt(name, content))
    await it.look(proposal.name)
    return await it.cast.read(proposal.name)


async def audited(cast: Cast) -> list[str]:
    request = governance_service_pb2.ListAuditEventsRequest(parent=cast.tenant)
    found = await cast.it.governance.ListAuditEvents(request, metadata=cast.bob)
    return [event.verb for event in found.events]


async def test_an_equal_candidate_passes_and_waits_for_a_person(it: Gating) -> None:
    await ready(it)
    found = await judged(it, "just as good")
    result, holdout = found.gate_result, await it.read()
    assert (found.state, result.verdict) == (S.STATE_AWAITING_APPROVAL, proposal_pb2.GATE_VERDICT_PASS)
    assert (result.cases, result.adversarial_cases, result.vetoes) == (holdout.gate_cases, 100, 0)
    assert (result.candidate_score, result.incumbent_score, result.query) == (1.0, 1.0, 1)
    assert result.holdout_version == holdout.version
    assert (result.cost_usd.mean, result.answerer_kind) == (0.0, "SCRIPT")
    assert {one.name for one in result.slices} == {"even", "odd"}
    (entry,) = holdout.ledger
    assert (entry.verdict, entry.done, entry.total) == ("PASS", result.cases + 100, result.cases + 100)
    assert "proposal.gate_concluded" in await audited(it.cast)


async def test_a_worse_candidate_fails_with_its_reasons_and_a_proposer_learns_little(it: Gating) -> None:
    await ready(it)
    found = await judged(it, "fails 3")
    assert found.state == S.STATE_GATE_FAILED
    assert found.gate_result.quality.upper < -0.2
    assert found.gate_result.vetoes > 0
    assert "would have passed" in found.gate_result.reasons[0]
    read = await it.cast.read(found.name, by=it.cast.alice)
    told = read.gate_result
    assert (told.verdict, told.quality.mean, list(told.reasons)) == (proposal_pb2.GATE_VERDICT_FAIL, 0.0, [])
    assert read.state_because == "FAIL: NO_WORSE, SAFE did not hold"
    asked = service_pb.GetProposalRequest(name=found.name)
    page = str(await it.cast.it.proposals.GetProposal(asked, metadata=it.cast.alice))
    request = governance_service_pb2.ListAuditEventsRequest(parent=it.cast.tenant)
    page += str(await it.cast.it.governance.ListAuditEvents(request, metadata=it.cast.alice))
    for number in (found.gate_result.quality.mean, found.gate_result.lower_bound, found.gate_result.lift_needed):
        assert f"{abs(number):.3f}" not in page


async def test_a_small_holdout_uses_no_query(it: Gating) -> None:
    await it.put_cases(enough_cases(200))
    await it.put_program()
    found = await judged(it, "just as good")
    assert (found.state, found.gate_result.inconclusive_reason) == (S.STATE_INCONCLUSIVE, "TOO_FEW_CASES")
    assert list((await it.read()).ledger) == []


async def test_one_case_that_cannot_be_answered_is_inconclusive_and_used(it: Gating) -> None:
    await ready(it)
    found = await judged(it, "broken")
    assert (found.state, found.gate_result.inconclusive_reason) == (S.STATE_INCONCLUSIVE, "CASE_ERROR")
    assert [entry.verdict for entry in (await it.read()).ledger] == ["INCONCLUSIVE"]


async def test_an_eleventh_query_is_refused_until_the_holdout_rotates(it: Gating) -> None:
    await ready(it)
    first = await judged(it, "just as good")
    assert first.gate_result.query == 1
    tenant, now = TenantId(it.cast.tenant.removeprefix("tenants/")), it.gate.clock.now()
    async with it.gate.holdouts.open(tenant) as record:
        used = LedgerRow(
            version_number=1, query=2, proposal="p", alpha=0.01, open_time=now, lease_until=now, done=1, total=1
        )
        for query in range(2, 11):
            await record.ledger.open(PolicyName("support"), replace(used, query=query, close_time=now, verdict="FAIL"))
    eleventh = await judged(it, "just as good as before", "newer")
    assert eleventh.gate_result.inconclusive_reason == "LEDGER_EXHAUSTED"
    assert (await it.read()).power.next_alpha == 0
    request = pb.RotateHoldoutRequest(policy=it.policy, because="ten queries")
    rotated = await it.holdout.RotateHoldout(request, metadata=it.cast.bob)
    assert list(rotated.holdout.ledger) == []
    await it.put_cases([number_case(number, adversarial=number < 1030) for number in range(1000, 1100)])
    await it.cast.it.proposals.RunGate(service_pb.RunGateRequest(name=eleventh.name), metadata=it.cast.bob)
    await it.look(eleventh.name)
    again = (await it.cast.read(eleventh.name)).gate_result
    assert (again.query, again.alpha) == (1, first.gate_result.alpha)


async def test_a_process_that_falls_silent_has_used_its_query(it: Gating) -> None:
    await ready(it)
    proposal = await it.cast.submit(prompt("new", "just as good"))
    tenant, identifier = TenantId(it.cast.tenant.removeprefix("tenants/")), proposal.name.rpartition("/")[2]
    run = it.gate.run_gate
    claim = Claim(run.holdouts, run.clock, timedelta(0))  # who claims and never beats is silent at once
    assert isinstance(await claim(tenant, identifier), Claimed)
    await it.look(proposal.name)
    found = await it.cast.read(proposal.name)
    assert (found.state, found.gate_result.inconclusive_reason) == (S.STATE_INCONCLUSIVE, "CRASHED")
    assert [entry.verdict for entry in (await it.read()).ledger] == ["INCONCLUSIVE"]


async def test_two_gates_never_run_one_policys_queries_at_once(it: Gating) -> None:
    await ready(it)
    first = await it.cast.submit(prompt("one", "just as good"))
    second = await it.cast.submit(prompt("two", "just as good as one"))
    tenant = TenantId(it.cast.tenant.removeprefix("tenants/"))
    run = it.gate.run_gate
    claim = Claim(run.holdouts, run.clock, timedelta(seconds=60))
    assert isinstance(await claim(tenant, first.name.rpartition("/")[2]), Claimed)
    assert await claim(tenant, first.name.rpartition("/")[2]) is None
    assert await claim(tenant, second.name.rpartition("/")[2]) is None
    await it.look(second.name)
    assert (await it.cast.read(second.name)).state == S.STATE_GATE_RUNNING


async def test_a_run_that_was_taken_for_crashed_concludes_nothing(it: Gating) -> None:
    await ready(it)
    proposal = await it.cast.submit(prompt("new", "just as good"))
    tenant, identifier = TenantId(it.cast.tenant.removeprefix("tenants/")), proposal.name.rpartition("/")[2]
    silent = replace(it.gate.run_gate, lease=timedelta(0))
    claimed = await Claim(silent.holdouts, silent.clock, silent.lease)(tenant, identifier)
    assert isinstance(claimed, Claimed)
    await it.look(proposal.name)
    async with silent.holdouts.open(tenant) as record:
        assert not await record.ledger.beat(claimed.policy, claimed.row)


async def test_another_model_behind_the_same_name_makes_the_version_stale(it: Gating) -> None:
    await ready(it)
    await judged(it, "just as good", "one")
    assert not (await it.read()).stale
    async with it.gate.holdouts.open(TenantId(it.cast.tenant.removeprefix("tenants/"))) as record:
        before = '{"small-model": "yesterdays-model"}'
        await record.answerers.seen(PolicyName("support"), AnswererPart.ANSWERER, before)
    await judged(it, "just as good as one", "two")
    found = await it.read()
    assert found.stale
    assert "yesterdays-model" in found.stale_because


async def test_a_prompt_that_lost_its_variable_fails_whatever_it_scores(it: Gating) -> None:
    await ready(it)
    arm = prompt("new", "just as good for {name}")
    arm.template_variables.append("name")
    first = await it.cast.submit(arm)
    await it.look(first.name)
    await it.cast.approve(await it.cast.read(first.name), by=it.cast.carol)
    found = await judged(it, "just as good for nobody", "new")
    assert found.state == S.STATE_GATE_FAILED
    assert any("'name'" in reason for reason in found.gate_result.reasons)


async def test_a_platforms_own_scores_are_concluded_from(it: Gating) -> None:
    proposal = await it.cast.submit(prompt("new", "just as good"), hold=True)
    robot = await it.cast.it.key(it.cast.tenant, "ROLE_EVALUATOR")
    scores = [
        service_pb.CaseScore(case_id=f"c{n}", candidate_score=1, incumbent_score=1, adversarial=n >= 200)
        for n in range(300)
    ]
    report = service_pb.ReportEvaluationRequest(name=proposal.name, scores=scores)
    await it.cast.it.proposals.ReportEvaluation(report, metadata=robot)
    await it.cast.it.proposals.RunGate(service_pb.RunGateRequest(name=proposal.name), metadata=it.cast.bob)
    await it.look(proposal.name)
    found = (await it.cast.read(proposal.name)).gate_result
    assert (found.verdict, found.answerer_kind, found.cases) == (proposal_pb2.GATE_VERDICT_PASS, "REPORTED", 200)
    assert [entry.query for entry in (await it.read()).ledger] == [1]


async def test_a_report_without_the_incumbents_score_is_inconclusive(it: Gating) -> None:
    proposal = await it.cast.submit(prompt("new", "just as good"), hold=True)
    robot = await it.cast.it.key(it.cast.tenant, "ROLE_EVALUATOR")
    scores = [service_pb.CaseScore(case_id=f"c{n}", candidate_score=1, incumbent_score=1) for n in range(300)]
    scores[7].ClearField("incumbent_score")
    report = service_pb.ReportEvaluationRequest(name=proposal.name, scores=scores)
    await it.cast.it.proposals.ReportEvaluation(report, metadata=robot)
    await it.cast.it.proposals.RunGate(service_pb.RunGateRequest(name=proposal.name), metadata=it.cast.bob)
    await it.look(proposal.name)
    found = (await it.cast.read(proposal.name)).gate_result
    assert found.inconclusive_reason == "INCUMBENT_MISSING"


def filler(number: int) -> pb.HoldoutCase:
    case = number_case(number)
    case.case_id = f"filler-{number}"
    return case


async def test_cases_that_come_after_the_first_query_count_from_the_next_rotation_and_say_from_whom(it: Gating) -> None:
    await ready(it)
    first = await judged(it, "fails 3")
    await it.put_cases([filler(3 * number + 1) for number in range(400, 800)])
    again = await judged(it, "fails 3 ", "again")
    assert (again.gate_result.cases, again.state) == (first.gate_result.cases, S.STATE_GATE_FAILED)
    assert any("from the next rotation" in sentence for sentence in (await it.read()).advice)
    rotate = pb.RotateHoldoutRequest(policy=it.policy, because="new cases")
    await it.holdout.RotateHoldout(rotate, metadata=it.cast.root)
    await it.put_cases([number_case(number, adversarial=True) for number in range(1000, 1100)])
    third = await judged(it, "just as good", "third")
    assert third.gate_result.cases > first.gate_result.cases
    assert any("came after the first query" in reason for reason in third.gate_result.reasons)
    assert third.state == S.STATE_AWAITING_APPROVAL
    code, reason = await refusal(it.cast.approve(third, by=it.cast.bob))
    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "SECOND_PERSON_REQUIRED")
    assert (await it.cast.approve(third, by=it.cast.carol)).state == S.STATE_SERVING


async def test_opened_cases_are_not_asked_again_and_who_saw_them_is_not_measured_on_the_rest(it: Gating) -> None:
    await ready(it)
    first = await judged(it, "fails 3")
    request = pb.OpenCasesRequest(proposal=first.name, because="what went wrong?")
    opened = await it.holdout.OpenCases(request, metadata=it.cast.root)
    gone = sum(not one.case.adversarial for one in opened.harmed)
    again = await it.cast.submit(prompt("own", "just as good"), by=it.cast.root)
    await it.look(again.name)
    told = await it.cast.read(again.name, by=it.cast.carol)
    assert (told.state, told.gate_result.query) == (S.STATE_INCONCLUSIVE, 0)
    assert "seen cases" in told.state_because
    assert (await it.read()).gate_cases == first.gate_result.cases - gone


async def test_an_author_reports_no_scores_and_who_reported_approves_nothing(it: Gating) -> None:
    proposal = await it.cast.submit(prompt("new", "just as good"), by=it.cast.root, hold=True)
    report = service_pb.ReportEvaluationRequest(name=proposal.name)
    report.scores.add(case_id="c", candidate_score=1, incumbent_score=1)
    code, reason = await refusal(it.cast.it.proposals.ReportEvaluation(report, metadata=it.cast.root))
    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    await it.put_cases([number_case(1)])
    robot = await it.cast.it.key(it.cast.tenant, "ROLE_EVALUATOR")
    code, reason = await refusal(it.cast.it.proposals.ReportEvaluation(report, metadata=robot))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ILLEGAL_TRANSITION")
