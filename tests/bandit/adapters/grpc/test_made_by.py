"""Who acts through a program that they made is one person; where nobody answers for a program, it may less."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from kedge.bandit.v1 import governance_service_pb2, proposal_pb2, ramp_service_pb2, tenant_service_pb2
from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.incident import Incident
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.ledgers import START
from tests.fixtures.proposing import ISSUER, Cast, Credential, a_pass, cast, person, prompt

State = proposal_pb2.Proposal.State
WARM = prompt("warm", "Answer warmly.")
_MADE_BEFORE = text(
    "UPDATE control.api_key SET made_by_operator = false, made_by_issuer = NULL, made_by_subject = NULL"
)


@pytest.fixture
async def play(administered: Administered, ledgers: PostgresLedgers) -> Cast:
    return await cast(administered, ledgers)


async def made(play: Cast, role: str, *, by: Credential, stands_for: str = "") -> Credential:
    """Make a key as somebody."""
    request = tenant_service_pb2.CreateKeyRequest(
        parent=play.tenant, principal="bot", role=tenant_service_pb2.Role.Value(role), because="a test needs it"
    )
    if stands_for:
        request.person.issuer, request.person.subject = ISSUER, stands_for
    key = (await play.it.tenants.CreateKey(request, metadata=by)).key
    await play.it.reload_keys()
    return (("authorization", f"Bearer {key}"),)


async def made_before(play: Cast) -> None:
    """Forget who made the keys of the tenant, as if that had never been kept."""
    async with play.it.engine.begin() as owner:
        await owner.execute(_MADE_BEFORE, {"tenant": play.tenant_id})
    await play.it.reload_keys()


async def move(play: Cast, verb: str, by: Credential) -> None:
    """Freeze or unfreeze the policy as somebody."""
    kind = getattr(governance_service_pb2, f"{verb}Request")
    await getattr(play.it.governance, verb)(kind(name=play.policy, because="a test"), metadata=by)


async def incident(play: Cast) -> governance_service_pb2.CloseIncidentRequest:
    """Have an alarm trip; gives what would close it."""
    change = Change(tenant=play.tenant_id, actor=KEDGE, because="it tripped", at=START)
    tripped = Incident(policy=PolicyName("support"), detector="veto", statistic=1.0, evidence="a test", open_time=START)
    async with play.ledgers.open(play.tenant_id) as ledger:
        number = (await ledger.incidents.open(tripped, change)).number
    return governance_service_pb2.CloseIncidentRequest(name=f"{play.tenant}/incidents/{number}", cause="a bad route")


# One admin with programs --------------------------------------------------------------------------------------------


async def test_an_admin_approves_nothing_that_a_program_of_theirs_proposed(play: Cast) -> None:
    bot = await made(play, "ROLE_PROPOSER", by=play.root)
    proposal = await play.submit(WARM, by=bot, hold=True)
    assert proposal.author == f"key:bot made by person:{ISSUER}#root"
    assert (proposal.author_person.issuer, proposal.author_person.subject) == (ISSUER, "root")

    assert (await refusal(play.approve(proposal, by=play.root, force=True)))[1] == "SECOND_PERSON_REQUIRED"
    other = await person(play.it, play.tenant, "ROLE_ADMIN", "dora")
    assert (await play.approve(proposal, by=other, force=True)).state == State.STATE_SERVING


async def test_a_program_that_a_program_made_is_the_same_persons(play: Cast) -> None:
    first = await made(play, "ROLE_ADMIN", by=play.root)
    second = await made(play, "ROLE_ADMIN", by=first)
    proposal = await play.submit(WARM, by=await made(play, "ROLE_PROPOSER", by=second), hold=True)
    assert (await refusal(play.approve(proposal, by=play.root, force=True)))[1] == "SECOND_PERSON_REQUIRED"


async def test_who_made_the_proposing_program_sees_of_the_gate_what_an_author_sees(play: Cast) -> None:
    bot = await made(play, "ROLE_PROPOSER", by=play.root)
    judged = await play.gate(await play.submit(WARM, by=bot), a_pass())
    assert judged.gate_result.HasField("quality")
    assert not (await play.read(judged.name, by=play.root)).gate_result.HasField("quality")


async def test_nobody_but_the_operator_makes_a_key_that_stands_for_another_person(play: Cast) -> None:
    program = await made(play, "ROLE_ADMIN", by=play.root)
    for maker in (play.root, program):
        refused = await refusal(made(play, "ROLE_APPROVER", by=maker, stands_for="bob"))
        assert refused[1] == "PERMISSION_DENIED"
    again = await made(play, "ROLE_ADMIN", by=play.root, stands_for="root")
    proposal = await play.submit(WARM, by=again, hold=True)
    assert (await refusal(play.approve(proposal, by=play.root, force=True)))[1] == "SECOND_PERSON_REQUIRED"


async def test_a_program_that_nobody_answers_for_needs_an_approver_and_is_never_forced(play: Cast) -> None:
    await made_before(play)
    held = await play.submit(WARM, by=play.robot, hold=True)
    assert (await refusal(play.approve(held, by=play.root, force=True)))[1] == "SECOND_PERSON_REQUIRED"
    judged = await play.gate(await play.submit(prompt("cold", "Answer coldly."), by=play.robot), a_pass())
    assert (await play.approve(judged)).state == State.STATE_SERVING


async def test_the_database_itself_refuses_to_force_what_nobody_answers_for(play: Cast) -> None:
    await made_before(play)
    held = await play.submit(WARM, by=play.robot, hold=True)
    with pytest.raises(DBAPIError, match="known_author"):
        await play.tamper(held, forced=True)


async def test_a_certificate_counts_as_the_person_who_bound_it_first(play: Cast) -> None:
    request = tenant_service_pb2.BindIdentityRequest(parent=play.tenant, because="a test needs it")
    request.identity.name = f"spiffe://example.com/{play.tenant_id}/bot"
    for by in (play.root, play.it.operator):
        for role in ("ROLE_PROPOSER", "ROLE_VIEWER"):
            request.identity.role = tenant_service_pb2.Role.Value(role)
            await play.it.tenants.BindIdentity(request, metadata=by)
    async with play.it.engine.connect() as connection:
        bound = tables.identity_binding
        row = (await connection.execute(bound.select().where(bound.c.tenant == play.tenant_id))).one()
    assert (row.role, row.made_by_subject, row.made_by_operator) == ("VIEWER", "root", False)


# What a person stopped ----------------------------------------------------------------------------------------------


async def test_what_a_person_stopped_no_program_of_theirs_lets_go_on(play: Cast) -> None:
    program = await made(play, "ROLE_ADMIN", by=play.root)
    for stopper, same in ((play.root, program), (program, play.root), (program, program)):
        await move(play, "Freeze", stopper)
        assert (await refusal(move(play, "Unfreeze", same)))[1] == "SECOND_PERSON_REQUIRED"
        await move(play, "Unfreeze", play.it.operator)


async def test_what_a_person_stopped_no_program_lets_go_on_that_nobody_answers_for(play: Cast) -> None:
    program = await play.it.key(play.tenant, "ROLE_ADMIN")
    await made_before(play)
    await move(play, "Freeze", play.root)
    assert (await refusal(move(play, "Unfreeze", program)))[1] == "SECOND_PERSON_REQUIRED"
    await move(play, "Unfreeze", await person(play.it, play.tenant, "ROLE_ADMIN", "dora"))


# Incidents and ramps ------------------------------------------------------------------------------------------------


async def test_an_incident_is_closed_by_a_person_without_a_part_in_what_is_served(play: Cast) -> None:
    boss = await person(play.it, play.tenant, "ROLE_ADMIN", "boss")
    served = await play.submit(WARM, by=await made(play, "ROLE_PROPOSER", by=play.root), hold=True)
    await play.approve(served, by=boss, force=True)
    close = await incident(play)

    for involved in (play.root, boss, await made(play, "ROLE_ADMIN", by=boss)):
        refused = await refusal(play.it.governance.CloseIncident(close, metadata=involved))
        assert refused[1] == "SECOND_PERSON_REQUIRED"
    dora = await person(play.it, play.tenant, "ROLE_ADMIN", "dora")
    closed = (await play.it.governance.CloseIncident(close, metadata=dora)).incident
    assert closed.cause == "a bad route"


async def test_a_program_that_nobody_answers_for_closes_no_incident(play: Cast) -> None:
    program = await play.it.key(play.tenant, "ROLE_ADMIN")
    await made_before(play)
    close = await incident(play)
    assert (await refusal(play.it.governance.CloseIncident(close, metadata=program)))[1] == "SECOND_PERSON_REQUIRED"


async def test_who_proposed_what_is_served_lets_no_ramp_of_it_go_on(play: Cast) -> None:
    served = await play.submit(WARM, by=await made(play, "ROLE_PROPOSER", by=play.root), hold=True)
    boss = await person(play.it, play.tenant, "ROLE_ADMIN", "boss")
    await play.approve(served, by=boss, force=True)
    pause = ramp_service_pb2.PauseRampRequest(name=play.policy, because="a holiday")
    await play.it.ramps.PauseRamp(pause, metadata=play.root)

    advance = ramp_service_pb2.AdvanceRampRequest(name=play.policy, because="back again")
    assert (await refusal(play.it.ramps.AdvanceRamp(advance, metadata=play.root)))[1] == "SECOND_PERSON_REQUIRED"
    resumed = (await play.it.ramps.AdvanceRamp(advance, metadata=boss)).ramp
    assert resumed.state == ramp_service_pb2.RAMP_STATE_RUNNING
