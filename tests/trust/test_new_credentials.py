"""A credential works on every process from the moment it is answered, without waiting for any poll."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import aio
from sqlalchemy.ext.asyncio import create_async_engine

from kedge.bandit.v1 import (
    episode_service_pb2,
    episode_service_pb2_grpc,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.adapters.postgres import callers
from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.serving_reads import ServingReads
from kedge_bandit.domain.api_key import StoredKey, format_key
from kedge_bandit.domain.identity import Binding
from tests.fixtures.ledgers import migrated_url
from tests.trust.authorities import Authority
from tests.trust.doors import Doors, open_doors, tls_settings

__all__ = ["migrated_url"]

OURS = Authority("ours")
NAME = "spiffe://kedge.example/new"


@pytest.fixture
async def maker(migrated_url: str) -> AsyncIterator[Doors]:
    """The server that makes credentials."""
    async with open_doors(migrated_url) as opened:
        yield opened


@pytest.fixture
async def other(migrated_url: str) -> AsyncIterator[Doors]:
    """Another one, that hears and reads nothing unless somebody unknown calls."""
    async with open_doors(migrated_url, polls=False) as opened:
        yield opened


def policies_of(tenant: str) -> policy_service_pb2.ListPoliciesRequest:
    return policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{tenant}")


async def test_a_new_key_works_at_once_on_another_server_and_over_http(maker: Doors, other: Doors) -> None:
    tenant = await maker.tenant()
    key, second = await maker.key(tenant, "ADMIN"), await maker.key(tenant, "VIEWER")
    async with other.stubs(key) as stubs:
        assert await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant)) == ("OK", "")
    third = await maker.key(tenant, "VIEWER")
    async with other.http() as client:
        for each in (second, third):
            answer = await client.get(f"/v1/tenants/{tenant}/policies", headers={"authorization": f"Bearer {each}"})
            assert answer.status_code == 200
        fourth = await maker.key(tenant, "VIEWER")
        flags = await client.post("/ofrep/v1/evaluate/flags", headers={"x-api-key": fourth}, json={})
        assert flags.status_code == 200


async def test_a_new_key_opens_a_stream_of_requests_at_once(maker: Doors, other: Doors) -> None:
    tenant = await maker.tenant()
    key = await maker.key(tenant, "CORE_APP")

    async def one() -> AsyncIterator[episode_service_pb2.StreamEpisodesRequest]:
        episode = episode_service_pb2.LogEpisodeRequest(policy=f"tenants/{tenant}/policies/none", request_id="r1")
        yield episode_service_pb2.StreamEpisodesRequest(episode=episode)

    async with other.stubs(key) as stubs:
        episodes = episode_service_pb2_grpc.EpisodeServiceStub(stubs.channel)
        answers = [answer async for answer in episodes.StreamEpisodes(one(), metadata=stubs.metadata, timeout=20)]
    assert len(answers) == 1


async def test_a_new_binding_works_at_once_in_a_first_and_in_a_second_tenant(migrated_url: str, tmp_path: Path) -> None:
    settings = tls_settings(tmp_path, OURS.server(), OURS)
    own = OURS.client(NAME)
    async with (
        open_doors(migrated_url) as maker,
        open_doors(migrated_url, authority=OURS, polls=False, **settings) as other,
        maker.stubs(maker.operator) as operator,
        other.stubs(own=own) as stubs,
    ):
        for tenant in (await maker.tenant(), await maker.tenant()):
            refused = await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant))
            assert refused[0] in ("UNAUTHENTICATED", "PERMISSION_DENIED")
            bind = tenant_service_pb2.BindIdentityRequest(
                parent=f"tenants/{tenant}",
                identity=tenant_service_pb2.Identity(name=NAME, role=tenant_service_pb2.ROLE_VIEWER),
                because="a test needs it",
            )
            await operator.call(operator.tenants.BindIdentity, bind)
            assert await stubs.refusal(stubs.policies.ListPolicies, policies_of(tenant)) == ("OK", "")


class CountedReads(ServingReads):
    """Count looks, and what they led to."""

    looks = 0
    reads = 0

    async def keys_version(self) -> int:
        self.looks += 1
        return await super().keys_version()

    async def credentials(self) -> tuple[list[StoredKey], list[Binding]]:
        self.reads += 1
        return await super().credentials()


async def test_strangers_make_the_database_work_no_more_than_one_of_them_does(other: Doors) -> None:
    reads = CountedReads(other.replica.engine)
    other.replica.keyring.look = CallersView(reads, other.replica.keyring.replace).look
    strangers = [format_key(secrets.token_bytes(36)) for _ in range(300)]
    async with other.stubs() as stubs:

        async def knock(key: str) -> str:
            bearer = (("authorization", f"Bearer {key}"),)
            try:
                await stubs.policies.ListPolicies(policies_of("nobody"), metadata=bearer, timeout=60)
            except aio.AioRpcError as error:
                return error.code().name
            return "OK"

        began = asyncio.get_running_loop().time()
        seen = await asyncio.gather(*map(knock, strangers))
        lasted = asyncio.get_running_loop().time() - began
    assert set(seen) == {"UNAUTHENTICATED"}
    assert reads.looks <= lasted / callers.PAUSE_SECONDS + 2
    assert reads.reads == 1


async def test_where_the_database_is_gone_a_stranger_is_refused_as_before() -> None:
    engine = create_async_engine("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    view = CallersView(ServingReads(engine), lambda *_: None)
    assert not await view.look()
    await engine.dispose()
