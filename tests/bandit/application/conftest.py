"""Scenes of the learn flow."""

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers
from kedge_bandit.domain.policy import PolicySpec
from tests.bandit.application.scene import SPEC, Scene, Scenes, open_scene
from tests.fixtures.ledgers import NewTenant


@pytest.fixture
async def passes(engine: AsyncEngine) -> AsyncIterator[WorkerLedgers]:
    """Give the ledgers of a worker."""
    made = WorkerLedgers(engine.execution_options(isolation_level="AUTOCOMMIT"))
    yield made
    await made.close()


@pytest.fixture
def scenes(
    fresh_database: str, ledgers: PostgresLedgers, passes: WorkerLedgers, new_tenant: NewTenant
) -> Iterator[Scenes]:
    """Give a function that opens a scene on a tenant of its own."""

    opened: list[Scene] = []

    async def make(spec: PolicySpec = SPEC) -> Scene:
        opened.append(await open_scene(fresh_database, ledgers, await new_tenant(), spec, passes=passes))
        return opened[-1]

    yield make
    for scene in opened:
        scene.close()


@pytest.fixture
async def scene(scenes: Scenes) -> Scene:
    return await scenes()
