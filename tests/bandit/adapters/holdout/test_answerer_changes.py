"""Who answers is part of what is approved: it can be changed at any time, and nothing that was measured outlives it."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge.bandit.v1 import proposal_pb2
from kedge.bandit.v1 import proposal_service_pb2 as service_pb
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.identifiers import TenantId
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.gating import ANSWERS, Gating, enough_cases, gating
from tests.fixtures.proposing import Credential, cast, prompt

S = proposal_pb2.Proposal
SILENT = "#!{python}\nimport sys\nfor line in sys.stdin:\n    pass\n"


@pytest.fixture
async def it(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> AsyncIterator[Gating]:
    people = await cast(administered, ledgers)
    async with gating(people, migrated_url, tmp_path) as gate:
        await gate.put_cases(enough_cases())
        yield gate


def program(it: Gating, name: str, text: str = ANSWERS) -> pb.Answerer:
    """Put a program in the gate's folder; gives settings that name it."""
    folder = it.folder / "gate" / "scripts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text.format(python=sys.executable), encoding="utf-8")
    (folder / name).chmod(0o755)
    return pb.Answerer(kind=pb.ANSWERER_KIND_SCRIPT, address=name, parallel=32, timeout_seconds=60)


async def put(it: Gating, answerer: pb.Answerer, by: Credential) -> None:
    request = pb.PutAnswererRequest(policy=it.policy, answerer=answerer, because="a test needs it")
    await it.holdout.PutAnswerer(request, metadata=by)


async def measured(it: Gating, name: str = "new", content: str = "just as good") -> S:
    proposal = await it.cast.submit(prompt(name, content))
    await it.look(proposal.name)
    return await it.cast.read(proposal.name)


async def withdraw(it: Gating, proposal: S) -> S:
    request = service_pb.WithdrawProposalRequest(name=proposal.name, because="it takes too long")
    answer = await it.cast.it.proposals.WithdrawProposal(request, metadata=it.cast.alice)
    found: S = answer.proposal
    return found


async def begun(it: Gating) -> "tuple[S, asyncio.Task[None]]":
    """Propose, and begin a run whose program answers nothing."""
    proposal = await it.cast.submit(prompt("slow", "just as slow"))
    running = asyncio.create_task(it.look(proposal.name))
    for _ in range(6_000):
        if (await it.read()).ledger:
            break
        await asyncio.sleep(0.01)
    return proposal, running


async def test_a_verdict_says_who_answered_and_who_set_that(it: Gating) -> None:
    await put(it, program(it, "answers"), it.cast.root)
    found = await measured(it)
    (asked,) = found.gate_result.answerers
    assert (asked.part, asked.kind, asked.address) == ("ANSWERER", "SCRIPT", "answers")
    assert asked.set_by.startswith("person:")
    assert asked.HasField("set_time")
    assert len(asked.settings_hash) == 64
    assert list((await it.cast.read(found.name, by=it.cast.alice)).gate_result.answerers) == []
    assert (await it.cast.approve(found)).state == S.STATE_SERVING


async def test_who_set_the_answerer_does_not_approve_what_it_answered(it: Gating) -> None:
    await put(it, program(it, "answers"), it.cast.root)
    found = await measured(it)
    assert found.state == S.STATE_AWAITING_APPROVAL
    assert (await refusal(it.cast.approve(found, by=it.cast.root)))[1] == "SECOND_PERSON_REQUIRED"
    assert (await it.cast.read(found.name)).state == S.STATE_AWAITING_APPROVAL


async def test_another_answerer_voids_what_waits_and_the_same_one_does_not(it: Gating) -> None:
    answerer = program(it, "answers")
    await put(it, answerer, it.cast.root)
    found = await measured(it)
    await put(it, answerer, it.cast.root)
    assert (await it.cast.read(found.name)).state == S.STATE_AWAITING_APPROVAL
    await put(it, program(it, "others"), it.cast.root)
    voided = await it.cast.read(found.name)
    assert voided.state == S.STATE_VOIDED
    assert "who answers" in voided.state_because


async def test_who_answers_can_be_changed_while_a_query_runs_which_is_used(it: Gating) -> None:
    await put(it, program(it, "silent", SILENT), it.cast.root)
    proposal, running = await begun(it)
    await put(it, program(it, "answers"), it.cast.root)
    await running
    ended = await it.cast.read(proposal.name)
    assert (ended.state, ended.gate_result.inconclusive_reason) == (S.STATE_INCONCLUSIVE, "CASE_ERROR")
    assert [entry.verdict for entry in (await it.read()).ledger] == ["INCONCLUSIVE"]
    assert (await measured(it)).gate_result.query == 2


async def test_a_proposal_is_withdrawn_while_its_query_runs_which_is_used(it: Gating) -> None:
    await put(it, program(it, "silent", SILENT), it.cast.root)
    proposal, running = await begun(it)
    assert (await withdraw(it, proposal)).state == S.STATE_WITHDRAWN
    await running
    assert (await it.cast.read(proposal.name)).state == S.STATE_WITHDRAWN
    assert [(entry.verdict, entry.query) for entry in (await it.read()).ledger] == [("INCONCLUSIVE", 1)]


async def test_a_run_ends_after_its_longest_time(it: Gating) -> None:
    await put(it, program(it, "silent", SILENT), it.cast.root)
    object.__setattr__(it.gate.run_gate, "longest", it.gate.run_gate.lease / 100)
    found = await measured(it)
    assert (found.state, found.gate_result.inconclusive_reason) == (S.STATE_INCONCLUSIVE, "CASE_ERROR")
    assert any("answered at once" in reason for reason in found.gate_result.reasons)


async def test_one_tenant_has_one_query_at_once_and_tenants_take_turns(it: Gating) -> None:
    class Waiting:
        """Eight proposals of one tenant before one of each other."""

        async def waiting(self) -> list[tuple[TenantId, str]]:
            return [(TenantId("acme"), f"p{n}") for n in range(8)] + [(TenantId(f"t{n}"), "p") for n in range(5)]

    asked, release = [], asyncio.Event()

    async def run(tenant: TenantId, proposal: str) -> None:
        asked.append((tenant, proposal))
        await release.wait()

    gate = it.gate
    gate.holdouts, gate.run_gate = Waiting(), run  # type: ignore[assignment]  # a queue and a run in the test's hand
    await gate.look()
    await asyncio.sleep(0)
    assert asked == [("acme", "p0"), ("t0", "p"), ("t1", "p"), ("t2", "p")]
    release.set()
    await asyncio.gather(*gate._running.values())
    await gate.look()
    await asyncio.sleep(0)
    assert [tenant for tenant, _ in asked[4:]] == ["t3", "t4", "acme", "t0"]
    await asyncio.gather(*gate._running.values())
