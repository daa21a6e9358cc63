"""Run a PostgreSQL of its own for a single machine that was given no DATABASE_URL."""

from kedge_bandit.adapters.embedded.binaries import Binaries, find_binaries
from kedge_bandit.adapters.embedded.errors import EmbeddedDatabaseError
from kedge_bandit.adapters.embedded.supervisor import EmbeddedPostgres

__all__ = ["Binaries", "EmbeddedDatabaseError", "EmbeddedPostgres", "find_binaries"]
