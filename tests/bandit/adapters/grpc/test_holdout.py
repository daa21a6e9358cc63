"""A holdout grows by cases that resemble nothing one may train on, shows numbers only, and forgets what was opened."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import grpc
import pytest
from sqlalchemy import insert

from kedge.bandit.v1 import episode_pb2, governance_service_pb2, proposal_pb2
from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers, schema_of
from kedge_bandit.domain.holdout import is_reserved
from kedge_bandit.domain.identifiers import TenantId
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.gating import Gating, enough_cases, gating, number_case
from tests.fixtures.proposing import cast, prompt

S = proposal_pb2.Proposal
DENIED, WRONG = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture
async def it(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> AsyncIterator[Gating]:
    people = await cast(administered, ledgers)
    async with gating(people, migrated_url, tmp_path) as gate:
        yield gate


def asking(text: str, expected: str = "yes") -> pb.HoldoutCase:
    case = pb.HoldoutCase(messages=[episode_pb2.ContentMessage(role="user", text=text)])
    case.exact.expected = expected
    return case


async def audited(it: Gating, verb: str) -> list[dict[str, object]]:
    request = governance_service_pb2.ListAuditEventsRequest(parent=it.cast.tenant)
    found = await it.cast.it.governance.ListAuditEvents(request, metadata=it.cast.bob)
    return [json.loads(event.payload_json) for event in found.events if event.verb == verb]


async def learn(it: Gating, *texts: str) -> int:
    request = pb.RecordTrainingTextsRequest(policy=it.policy, texts=texts, because="a run begins")
    recorded: int = (await it.holdout.RecordTrainingTexts(request, metadata=it.cast.robot)).recorded
    return recorded


async def test_cases_make_versions_that_are_known_by_their_content(it: Gating) -> None:
    first = await it.put_cases([asking("Is the sky blue on a clear day?"), asking("Is grass green in spring?")])
    assert (first.version_number, first.sensor_cases + first.gate_cases) == (1, 2)
    second = await it.put_cases([asking("Does ice float on water?")])
    assert (second.version_number, second.version != first.version) == (2, True)
    assert [(one.kind, one.cases) for one in second.checks] == [("EXACT", 3)]
    assert any("too few" in sentence for sentence in second.advice)


async def test_what_resembles_training_data_is_refused_and_audited(it: Gating) -> None:
    text = "Please cancel my order number 1234 because it has not arrived in time"
    assert await learn(it, text, "another text") == 2
    assert await learn(it, text) == 0
    near = asking("please CANCEL my order number 1234 because it has not arrived, and refund me")
    holdout = await it.put_cases([near, asking("What are your opening hours on Sunday?")])
    assert [(one.position, one.reason) for one in it.refused] == [(0, "NEAR_DUPLICATE")]
    assert "1234" not in it.refused[0].message
    assert holdout.sensor_cases + holdout.gate_cases == 1
    assert (await audited(it, "holdout.cases_imported"))[0]["near_duplicates"] == 1


async def test_what_is_trained_on_later_leaves_first_and_nobody_is_told_that_it_was_there(it: Gating) -> None:
    await it.put_cases([asking(f"Where is office {n} of your company in Rome today?") for n in range(100)])
    before = await it.read()
    await learn(it, *(f"where is office {n} of your company in Rome today?" for n in range(100)))
    after = await it.read()
    assert (after.opened_cases, after.gate_cases, list(after.advice)) == (0, before.gate_cases, list(before.advice))
    plan = pb.RotateHoldoutRequest(policy=it.policy, plan_only=True)
    planned = await it.holdout.RotateHoldout(plan, metadata=it.cast.bob)
    assert (planned.leaving_opened, planned.staying) == (0, 100 - planned.leaving)
    assert planned.leaving <= 23


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda case: case.ClearField("exact"), "check"),
        (lambda case: case.regex.MergeFromString(b"\n\x04(a|b"), "compiles"),
        (lambda case: case.json_schema.MergeFromString(b'\n\x15{"$ref":"http://x/y"}'), "compiles"),
        (lambda case: case.rubric.MergeFromString(b"\n\x04nice"), "judge"),
        (lambda case: case.regex.SetInParent(), "any answer"),
        (lambda case: case.regex.MergeFromString(b"\n\x02\\w"), "any answer"),
        (lambda case: case.json_schema.MergeFromString(b"\n\x02{}"), "any answer"),
        (lambda case: case.exact.ClearField("expected"), "any answer"),
        (lambda case: case.ClearField("messages"), "messages"),
        (lambda case: case.MergeFromString(b"\n\x03a b"), "case_id"),
    ],
    ids=[
        "no check",
        "regex",
        "remote schema",
        "no judge",
        "empty regex",
        "any word",
        "any JSON",
        "empty text",
        "no messages",
        "bad id",
    ],
)
async def test_a_case_that_cannot_work_is_refused_by_itself(it: Gating, broken: object, told: str) -> None:
    bad = asking("Is water wet at all times?")
    broken(bad)  # type: ignore[operator]  # a change of the case
    holdout = await it.put_cases([bad, asking("Is fire hot to the touch?")])
    ((position, reason, message),) = [(one.position, one.reason, one.message) for one in it.refused]
    assert (position, reason) == (0, "INVALID")
    assert told in message
    assert holdout.sensor_cases + holdout.gate_cases == 1


async def test_the_same_case_or_id_is_not_taken_twice(it: Gating) -> None:
    await it.put_cases([number_case(1)])
    again, other = number_case(1), asking("Another question that is new")
    other.case_id = "question-1"
    await it.put_cases([again, other, asking("One that is new and different")])
    assert [one.reason for one in it.refused] == ["REPEATED", "REPEATED"]


async def test_a_request_that_is_sent_again_imports_nothing_again(it: Gating) -> None:
    request = pb.ImportCasesRequest(policy=it.policy, cases=[number_case(1)], because="once", request_id="r1")
    first = await it.holdout.ImportCases(request, metadata=it.cast.bob)
    second = await it.holdout.ImportCases(request, metadata=it.cast.bob)
    assert (first.imported, second.imported, second.holdout.version_number) == (1, 0, 1)


async def test_only_who_may_curate_imports_and_nobody_reaches_into_another_tenant(it: Gating) -> None:
    request = pb.ImportCasesRequest(policy=it.policy, cases=[number_case(1)], because="a test")
    for by in (it.cast.alice, it.cast.robot, it.cast.viewer):
        code, _ = await refusal(it.holdout.ImportCases(request, metadata=by))
        assert code is DENIED
    stranger = pb.GetHoldoutRequest(policy="tenants/other/policies/support")
    assert await refusal(it.holdout.GetHoldout(stranger, metadata=it.cast.bob)) == (DENIED, "TENANT_DENIED")


async def test_a_version_that_changes_after_the_verdict_voids_what_waits(it: Gating) -> None:
    await it.put_cases(enough_cases())
    await it.put_program()
    proposal = await it.cast.submit(prompt("new", "just as good"))
    await it.look(proposal.name)
    waiting = await it.cast.read(proposal.name)
    assert waiting.state == S.STATE_AWAITING_APPROVAL
    await it.put_cases([number_case(9000)])
    with suppress(grpc.aio.AioRpcError):
        await it.cast.approve(waiting)
    assert (await it.cast.read(proposal.name)).state == S.STATE_VOIDED


async def test_a_second_person_opens_a_few_cases_and_they_leave(it: Gating) -> None:
    await it.put_cases(enough_cases())
    await it.put_program()
    proposal = await it.cast.submit(prompt("new", "fails 3"))
    await it.look(proposal.name)
    request = pb.OpenCasesRequest(proposal=proposal.name, because="what went wrong?")
    for by in (it.cast.alice, it.cast.robot, it.cast.viewer):
        code, _ = await refusal(it.holdout.OpenCases(request, metadata=by))
        assert code is DENIED
    found = await it.holdout.OpenCases(request, metadata=it.cast.bob)
    assert (len(found.improved), len(found.harmed)) == (0, 5)
    for opened in found.harmed:
        assert (opened.candidate.output, opened.incumbent.output) == ("wrong", "right")
        assert (opened.candidate_score, opened.incumbent_score) == (0.0, 1.0)
        assert int(opened.case.messages[0].text.rpartition(" ")[2]) % 3 == 0
    assert await audited(it, "holdout.cases_opened") == [{"improved": 0, "harmed": 5, "query": 1}]
    assert (await it.read()).opened_cases == 5
    rotate = pb.RotateHoldoutRequest(policy=it.policy, because="they were seen")
    rotated = await it.holdout.RotateHoldout(rotate, metadata=it.cast.bob)
    assert rotated.leaving_opened == 5
    assert 0.15 < rotated.leaving / (rotated.leaving + rotated.staying) < 0.3
    assert (await it.read()).opened_cases == 0


async def test_an_admin_who_proposed_it_opens_nothing(it: Gating) -> None:
    await it.put_cases(enough_cases())
    await it.put_program()
    proposal = await it.cast.submit(prompt("new", "fails 3"), by=it.cast.root)
    await it.look(proposal.name)
    request = pb.OpenCasesRequest(proposal=proposal.name, because="curious")
    code, reason = await refusal(it.holdout.OpenCases(request, metadata=it.cast.root))
    assert (code, reason) == (DENIED, "SECOND_PERSON_REQUIRED")


async def test_a_holdout_rotates_four_times_a_year_and_no_more(it: Gating) -> None:
    await it.put_cases([number_case(number) for number in range(60)])
    request = pb.RotateHoldoutRequest(policy=it.policy, because="again")
    for _ in range(4):
        await it.holdout.RotateHoldout(request, metadata=it.cast.bob)
    assert (await it.read()).rotations_in_year == 4
    assert (await refusal(it.holdout.RotateHoldout(request, metadata=it.cast.bob)))[0] is WRONG


def decided(number: int, episode: str, now: datetime) -> dict[str, object]:
    return {
        "decision_id": f"00000000-0000-7000-8000-{number:012d}",
        "decision_time": now,
        "policy": "support",
        "episode_id": episode,
        "request_id": episode,
        "context": {"categories": {"task": "math"}, "numbers": {}},
        "bucket": "task=math",
        "action": "small",
        "propensity": 1.0,
        "policy_version": 1,
        "allocation_version": 1,
        "seed_epoch": 1,
        "mode": "APPLY",
        "reason": "DRAWN",
        "is_randomised": True,
        "judge_requested": False,
        "judge_rate": 0.0,
        "superseded": False,
    }


async def test_one_session_in_twenty_is_reserved_whole_and_listed_by_page(it: Gating) -> None:
    tenant, now = TenantId(it.cast.tenant.removeprefix("tenants/")), it.gate.clock.now()
    episodes = [f"session-{number}/{turn}" for number in range(400) for turn in (1, 2)]
    rows = [decided(number, episode, now) for number, episode in enumerate(episodes)]
    async with it.cast.it.engine.begin() as owner:
        await owner.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
        await owner.execute(insert(tables.decision), rows)
        named = tables.decision_key.c.keys()
        await owner.execute(insert(tables.decision_key), [{name: row[name] for name in named} for row in rows])
    expected = sorted(episode for episode in episodes if is_reserved(tenant, "support", episode))
    assert 0.01 < len(expected) / len(episodes) < 0.11
    assert (await it.read()).reserved_episodes == len(expected)
    request = pb.ProposeCasesRequest(policy=it.policy, page_size=7)
    assert (await refusal(it.holdout.ProposeCases(request, metadata=it.cast.robot)))[0] is DENIED
    listed: list[str] = []
    while True:
        page = await it.holdout.ProposeCases(request, metadata=it.cast.bob)
        listed += [one.episode_id for one in page.episodes]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert listed == expected
    assert page.episodes[0].context.categories["task"] == "math"


async def test_an_answerer_within_the_operators_network_is_refused(it: Gating) -> None:
    answerer = pb.Answerer(kind=pb.ANSWERER_KIND_OPENAI, address="http://169.254.169.254/v1")
    request = pb.PutAnswererRequest(policy=it.policy, answerer=answerer, because="a test")
    code, _ = await refusal(it.holdout.PutAnswerer(request, metadata=it.cast.root))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert (await refusal(it.holdout.PutAnswerer(request, metadata=it.cast.bob)))[0] is DENIED
    await it.put_program()
    read = pb.GetAnswererRequest(policy=it.policy)
    found = await it.holdout.GetAnswerer(read, metadata=it.cast.viewer)
    assert (found.answerer.address, found.HasField("judge")) == ("answers", False)
