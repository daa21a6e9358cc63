"""Fixtures of the trust tests: a database at head with its ledgers, tenants of their own, servicers in-process."""

import secrets
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from kedge_bandit.domain.identifiers import TenantId
from kedge_migrations import enable_login
from tests.fixtures.administered import administered
from tests.fixtures.ledgers import engine, ledgers, migrated_url, new_tenant, registry

__all__ = ["administered", "engine", "ledgers", "migrated_url", "new_tenant", "registry"]

PASSWORD = "a password of thirty-two characters"


@pytest.fixture
async def as_service(migrated_url: str) -> AsyncIterator[AsyncEngine]:
    """Log in as the service does in production."""
    enable_login(migrated_url, PASSWORD)
    name, _, place = migrated_url.partition("://")
    login = create_async_engine(
        f"{name}://{place}", connect_args={"user": "kedge_service", "password": PASSWORD}, pool_size=1, max_overflow=0
    )
    yield login
    await login.dispose()


@pytest.fixture(scope="module")
def pair(migrated_url: str, fresh_database: str) -> tuple[TenantId, TenantId]:
    """Make two tenants that every test of this module may share."""
    made = TenantId(f"a{secrets.token_hex(4)}"), TenantId(f"b{secrets.token_hex(4)}")
    with psycopg.connect(fresh_database, autocommit=True) as owner:
        for tenant in made:
            owner.execute("SELECT control.create_tenant(%s)", (tenant,))
    return made
