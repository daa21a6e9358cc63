"""Nobody approves their own proposal, whatever they come through: four eyes compare persons, and nothing else."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kedge.bandit.v1 import policy_service_pb2, proposal_pb2, tenant_service_pb2
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.domain.principal import Person
from tests.fixtures.ledgers import migrated_url
from tests.fixtures.proposing import prompt, prompted
from tests.trust.authorities import Issuer
from tests.trust.doors import Doors, open_doors

__all__ = ["migrated_url"]


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    made = Issuer()
    made.write(tmp_path / "jwks.json")
    return made


@pytest.fixture
async def doors(migrated_url: str, issuer: Issuer, tmp_path: Path) -> AsyncIterator[Doors]:
    keys = str(tmp_path / "jwks.json")
    async with open_doors(migrated_url, jwt_issuer=issuer.name, jwt_audience=issuer.audience, jwt_keys=keys) as opened:
        yield opened


async def proposed(doors: Doors, tenant: str, token: str) -> proposal_pb2.Proposal:
    """Put a policy, and propose a prompt with a token."""
    async with doors.stubs(doors.operator) as stubs:
        put = policy_service_pb2.PutPolicyRequest(policy=prompted(f"tenants/{tenant}"), because="to start")
        await stubs.call(stubs.policies.PutPolicy, put)
    async with doors.stubs(token) as stubs:
        wish = proposal_pb2.Proposal(
            policy=f"tenants/{tenant}/policies/support",
            kind=proposal_pb2.PROPOSAL_KIND_PROMPT,
            arm=prompt("warm", "Answer warmly."),
            because="it reads better",
        )
        submit = pb.SubmitProposalRequest(parent=f"tenants/{tenant}", proposal=wish, hold=True)
        found: proposal_pb2.Proposal = (await stubs.call(stubs.proposals.SubmitProposal, submit)).proposal
    return found


@pytest.mark.parametrize("came_by", ["herself", "the console"])
async def test_the_author_is_refused_through_every_door_and_another_person_through_none(
    doors: Doors, issuer: Issuer, came_by: str
) -> None:
    tenant = await doors.tenant()
    act = {} if came_by == "herself" else {"act": {"sub": "console"}}
    proposal = await proposed(doors, tenant, issuer.token("alice", "admin", tenant, **act))
    consent = pb.ApproveProposalRequest(
        name=proposal.name, binding_hash=proposal.binding_hash, because="it is mine", force=True
    )
    refused = {}
    for who, token in {
        "alice": issuer.token("alice", "admin", tenant),
        "alice behind the console": issuer.token("alice", "admin", tenant, act={"sub": "console"}),
        "alice behind another service": issuer.token("alice", "admin", tenant, act={"sub": "portal"}),
        "the console itself": issuer.token("console", "admin", tenant, auth_time=None),
    }.items():
        async with doors.stubs(token) as stubs:
            refused[who] = (await stubs.refusal(stubs.proposals.ApproveProposal, consent))[1]
    assert refused == {
        "alice": "SECOND_PERSON_REQUIRED",
        "alice behind the console": "SECOND_PERSON_REQUIRED",
        "alice behind another service": "SECOND_PERSON_REQUIRED",
        "the console itself": "PERMISSION_DENIED",
    }
    async with doors.stubs(issuer.token("bob", "admin", tenant, act={"sub": "console"})) as stubs:
        approved = (await stubs.call(stubs.proposals.ApproveProposal, consent)).proposal
    assert approved.state == proposal_pb2.Proposal.STATE_SERVING
    assert approved.approver == "person:https://login.example#bob by service:console"


@pytest.mark.parametrize("stands_for", ["", "alice"])
async def test_who_made_the_key_that_proposed_is_the_author_where_people_sign_on(
    doors: Doors, issuer: Issuer, stands_for: str
) -> None:
    tenant, alice = await doors.tenant(), Person(issuer.name, "alice")
    request = tenant_service_pb2.CreateKeyRequest(
        parent=f"tenants/{tenant}", principal="bot", role=tenant_service_pb2.ROLE_PROPOSER, because="a test needs it"
    )
    if stands_for:
        request.person.issuer, request.person.subject = alice.issuer, alice.subject
    token = issuer.token("alice", "admin", tenant)
    async with doors.stubs(token) as stubs:
        key = (await stubs.call(stubs.tenants.CreateKey, request)).key
    await doors.replica.snapshot.refresh()
    proposal = await proposed(doors, tenant, key)
    assert proposal.author == f"key:bot made by {alice}"
    consent = pb.ApproveProposalRequest(
        name=proposal.name, binding_hash=proposal.binding_hash, because="it is mine", force=True
    )
    async with doors.stubs(token) as stubs:
        assert (await stubs.refusal(stubs.proposals.ApproveProposal, consent))[1] == "SECOND_PERSON_REQUIRED"
    async with doors.stubs(issuer.token("bob", "admin", tenant)) as stubs:
        approved = (await stubs.call(stubs.proposals.ApproveProposal, consent)).proposal
    assert approved.state == proposal_pb2.Proposal.STATE_SERVING
