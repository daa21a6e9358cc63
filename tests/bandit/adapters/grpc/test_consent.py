"""What takes a second person cannot be had without one, by whatever door; a rejection wins."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError

from kedge.bandit.v1 import policy_pb2, proposal_pb2
from kedge.bandit.v1 import policy_service_pb2 as policies_pb
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.adapters.postgres import proposal_tables, tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers, role_of, schema_of
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import approve
from kedge_bandit.domain.proposal_errors import SecondPersonRequired
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.ledgers import START
from tests.fixtures.proposing import ISSUER, Cast, a_pass, cast, id_of, inconclusive, person, prompt

WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
State = proposal_pb2.Proposal.State
WARM = prompt("warm", "Answer warmly.")


@pytest.fixture
async def play(administered: Administered, ledgers: PostgresLedgers) -> Cast:
    return await cast(administered, ledgers)


# Four eyes ----------------------------------------------------------------------------------------------------------


async def test_nobody_approves_their_own_proposal_by_whatever_door(play: Cast) -> None:
    again = await person(play.it, play.tenant, "ROLE_ADMIN", "alice")
    proposal = await play.awaiting(WARM)
    for force in (False, True):
        refused = await refusal(play.approve(proposal, by=again, force=force))
        assert refused == (grpc.StatusCode.PERMISSION_DENIED, "SECOND_PERSON_REQUIRED")
    assert (await play.read(proposal.name)).state == State.STATE_AWAITING_APPROVAL
    assert (await play.approve(proposal)).state == State.STATE_SERVING


async def test_a_program_approves_nothing(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    program = await play.it.key(play.tenant, "ROLE_ADMIN")
    assert (await refusal(play.approve(proposal, by=program)))[1] == "PERMISSION_DENIED"
    assert (await refusal(play.approve(proposal, by=play.it.operator)))[1] == "PERMISSION_DENIED"


async def test_the_database_refuses_an_approver_who_is_the_author(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    change = Change(tenant=play.tenant_id, actor=Actor("mallory"), because="by hand", at=START)
    alice = Person(ISSUER, "alice")

    async def forge() -> None:
        async with play.ledgers.open(play.tenant_id) as ledger:
            found = await ledger.proposals.get(id_of(proposal))
            approved, event = approve(found, Person(ISSUER, "bob"), change)
            await ledger.proposals.put(replace(approved, approver_person=alice), event)

    with pytest.raises(SecondPersonRequired):
        await forge()
    assert (await play.read(proposal.name)).state == State.STATE_AWAITING_APPROVAL


@pytest.mark.parametrize(
    "forged",
    [
        {"state": "SERVING", "version": 4},
        {"state": "APPROVED", "version": 4},
        {"state": "APPROVED", "version": 4, "approver_issuer": ISSUER, "approver_subject": "alice"},
        {"author_subject": "somebody else"},
        {"candidate": {}},
        {"base": {}},
        {"content_hash": ""},
    ],
    ids=str,
)
async def test_the_tenants_own_role_can_forge_neither_consent_nor_what_was_proposed(
    play: Cast, forged: dict[str, object]
) -> None:
    proposal = await play.awaiting(WARM)
    tenant = play.tenant_id

    async def write() -> None:
        async with play.it.engine.connect() as connection, connection.begin():
            await connection.execution_options(schema_translate_map={tables.TENANT: schema_of(tenant)})
            await connection.exec_driver_sql(f"SET LOCAL ROLE {role_of(tenant)}")
            place = proposal_tables.proposal.c.proposal_id == id_of(proposal)
            await connection.execute(update(proposal_tables.proposal).where(place).values(forged))

    with pytest.raises(DBAPIError) as refused:
        await write()
    assert getattr(refused.value.orig, "sqlstate", "") in ("23514", "42501")  # check_violation, insufficient_privilege


# Force --------------------------------------------------------------------------------------------------------------


async def test_no_force_overrides_vetoes_and_every_other_force_is_loud(play: Cast) -> None:
    vetoed = await play.gate(await play.submit(WARM), a_pass(vetoes=1))
    assert (await refusal(play.approve(vetoed, by=play.root, force=True)))[1] == "ILLEGAL_TRANSITION"
    small = await play.gate(await play.submit(prompt("cool", "Answer coolly.")), inconclusive())
    assert (await play.approve(small, by=play.root, force=True)).forced
    steps = [step.actor for step in (await play.read(small.name)).steps]
    assert steps[-1] == f"person:{ISSUER}#root by key:root"
    async with play.ledgers.open(play.tenant_id) as ledger:
        verbs = [event.verb for event in await ledger.audit.list(before=None, limit=10)]
    assert "proposal.forced" in verbs


async def test_what_the_gate_still_runs_cannot_be_forced(play: Cast) -> None:
    running = await play.submit(WARM)
    assert (await refusal(play.approve(running, by=play.root, force=True)))[1] == "ILLEGAL_TRANSITION"


# A race -------------------------------------------------------------------------------------------------------------


async def test_a_rejection_wins_a_race_with_an_approval_that_began_before_it(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    reject = pb.RejectProposalRequest(name=proposal.name, because="it is rude")
    async with play.it.engine.connect() as other:
        await other.execution_options(schema_translate_map={tables.TENANT: schema_of(play.tenant_id)})
        async with other.begin():
            await other.execute(select(tables.audit_head).with_for_update())
            # Both wait for the head of the audit chain now: first the approval, which has read and checked everything.
            approving = asyncio.create_task(refusal(play.approve(proposal)))
            await waiting(play, 1)
            rejecting = asyncio.create_task(as_answer(play.it.proposals.RejectProposal(reject, metadata=play.carol)))
            await waiting(play, 2)
        assert (await approving)[1] == "ILLEGAL_TRANSITION"
        assert (await rejecting).proposal.state == State.STATE_REJECTED
    assert "warm" not in await play.live_prompts()
    async with play.ledgers.open(play.tenant_id) as ledger:
        verbs = [event.verb for event in await ledger.audit.list(before=None, limit=50)]
    assert "proposal.rejected" in verbs
    assert not {"proposal.approved", "proposal.served", "arm.added"} & set(verbs)


async def test_of_many_races_none_serves_what_was_rejected(play: Cast) -> None:
    for turn in range(12):
        proposal = await play.awaiting(prompt(f"p{turn}", f"Answer in {turn} words."))
        reject = pb.RejectProposalRequest(name=proposal.name, because="no")
        both = [
            as_answer(play.it.proposals.RejectProposal(reject, metadata=play.carol)),
            as_answer(play.approve(proposal)),
        ]
        answers = await asyncio.gather(*(both if turn % 2 else both[::-1]), return_exceptions=True)
        failed = [one for one in answers if isinstance(one, BaseException)]
        assert len(failed) == 1
        state = (await play.read(proposal.name)).state
        assert state in (State.STATE_REJECTED, State.STATE_SERVING)
        assert (f"p{turn}" in await play.live_prompts()) is (state == State.STATE_SERVING)
        if state == State.STATE_SERVING:
            revert = pb.RevertProposalRequest(name=proposal.name, because="the next turn")
            await play.it.proposals.RevertProposal(revert, metadata=play.bob)


async def as_answer(call: Awaitable[Any]) -> Any:
    return await call


async def waiting(play: Cast, backends: int) -> None:
    """Wait until so many of the database's backends wait for a lock."""
    async with play.it.engine.connect() as watch:
        for _ in range(600):
            if (await watch.execute(WAITING)).scalar_one() >= backends:
                return
            await watch.rollback()
            await asyncio.sleep(0.05)
    raise AssertionError(f"{backends} backends never waited")


# Who sees what ------------------------------------------------------------------------------------------------------


async def test_the_author_and_a_viewer_learn_only_the_verdict_and_a_rounded_lift(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    assert proposal.gate_result.lower_bound != 0
    author = await person(play.it, play.tenant, "ROLE_ADMIN", "alice")
    for limited in (play.alice, author, play.viewer):
        seen = (await play.read(proposal.name, by=limited)).gate_result
        fields = {field.name for field, _ in seen.ListFields()}
        assert fields == {"verdict", "cases", "query", "alpha", "rounded_lift", "gate_time"}


async def test_what_is_approved_is_fetched_by_its_hash(play: Cast) -> None:
    served = await play.approve(await play.awaiting(WARM))
    assert served.arm.content_hash in {arm.content_hash for arm in (await play.served()).arms}
    listed = pb.ListProposalsRequest(parent=play.tenant, policy=play.policy, states=[State.STATE_SERVING])
    found = (await play.it.proposals.ListProposals(listed, metadata=play.viewer)).proposals
    assert [one.name for one in found] == [served.name]


# Around the gate ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["arm", "revived", "renamed", "baseline", "cap", "uncapped"])
async def test_a_policy_that_is_there_cannot_be_put_with_anything_new_to_serve(play: Cast, way: str) -> None:
    before = await play.served()
    policy = policy_pb2.Policy()
    policy.CopyFrom(before)
    if way == "arm":
        policy.arms.append(WARM)
    elif way == "revived":
        retire = policies_pb.RetireArmRequest(
            policy=play.policy,
            dimension=policy_pb2.DIMENSION_PROMPT_VARIANT,
            arm=policy_pb2.ArmRef(name="steps"),
            expected_version=1,
            because="it is slow",
        )
        await play.it.policies.RetireArm(retire, metadata=play.root)
        before = await play.served()
    elif way == "renamed":
        policy.arms.append(prompt("alias", "Go step by step."))
    elif way == "baseline":
        policy.baseline.prompt_variant.name = "steps"
        policy.baseline.prompt_variant.content_hash = ""
    else:
        served = await play.approve(await play.awaiting(WARM))
        before = await play.served()
        policy.CopyFrom(before)
        arm_id = f"warm@{served.arm.content_hash[:12]}"
        policy.exploration.arm_caps[arm_id] = 0.06 if way == "cap" else 1.0
    request = policies_pb.PutPolicyRequest(
        policy=policy, expected_version=before.policy_version, because="around the gate"
    )
    refused = await refusal(play.it.policies.PutPolicy(request, metadata=play.root))
    assert refused == (grpc.StatusCode.FAILED_PRECONDITION, "PROPOSAL_REQUIRED")
    assert await play.served() == before
