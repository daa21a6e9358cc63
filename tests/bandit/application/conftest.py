"""Scenes of the learn flow."""

from collections.abc import Iterator

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.policy import PolicySpec
from tests.bandit.application.scene import SPEC, Scene, Scenes, open_scene
from tests.fixtures.ledgers import NewTenant


@pytest.fixture
def scenes(fresh_database: str, ledgers: PostgresLedgers, new_tenant: NewTenant) -> Iterator[Scenes]:
    """Give a function that opens a scene on a tenant of its own."""

    opened: list[Scene] = []

    async def make(spec: PolicySpec = SPEC) -> Scene:
        opened.append(await open_scene(fresh_database, ledgers, await new_tenant(), spec))
        return opened[-1]

    yield make
    for scene in opened:
        scene.close()


@pytest.fixture
async def scene(scenes: Scenes) -> Scene:
    return await scenes()
