"""Scenes of the learn flow."""

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.policy import PolicySpec
from tests.bandit.application.scene import SPEC, Scene, Scenes, open_scene
from tests.fixtures.ledgers import NewTenant


@pytest.fixture
def scenes(fresh_database: str, ledgers: PostgresLedgers, new_tenant: NewTenant) -> Scenes:
    """Give a function that opens a scene on a tenant of its own."""

    async def make(spec: PolicySpec = SPEC) -> Scene:
        return await open_scene(fresh_database, ledgers, await new_tenant(), spec)

    return make


@pytest.fixture
async def scene(scenes: Scenes) -> Scene:
    return await scenes()
