"""Fixtures of the trust tests: a database at head with its ledgers, tenants of their own, servicers in-process."""

from tests.fixtures.administered import administered
from tests.fixtures.ledgers import engine, ledgers, migrated_url, new_tenant, registry

__all__ = ["administered", "engine", "ledgers", "migrated_url", "new_tenant", "registry"]
