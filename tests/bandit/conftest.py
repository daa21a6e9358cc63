"""Fixtures of the bandit's own tests."""

from tests.fixtures.administered import administered
from tests.fixtures.ledgers import engine, ledgers, migrated_url, new_tenant, registry

__all__ = ["administered", "engine", "ledgers", "migrated_url", "new_tenant", "registry"]
