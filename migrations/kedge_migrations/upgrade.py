"""Run both trees. Safe at every start and for several processes at once: one lock, one query when nothing is behind."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError

_HERE = Path(__file__).parent
_LOCK = 0x6B656467  # "kedg"
LOCK_SECONDS = 5.0
TRIES = 20
_PAUSE_SECONDS = 0.5
_IN_THE_WAY = frozenset({"40P01", "55P03"})  # deadlock_detected, lock_not_available


def _config(tree: str, connection: Connection | None = None, schema: str | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE / tree))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["schema"] = schema
    return config


def _tenant_head() -> str:
    head = ScriptDirectory.from_config(_config("tenant")).get_current_head()
    if head is None:
        raise RuntimeError("the tenant tree has no revision")
    return head


TENANT_HEAD = _tenant_head()


def upgrade(url: str, *, progress: Callable[[str], None] = lambda _line: None) -> int:
    """Bring the control schema and every tenant schema that is behind to head.

    Args:
        url: SQLAlchemy URL of the owner, e.g. postgresql+psycopg://owner:…@host/kedge.
        progress: called with one line per step that changes something.

    Returns:
        Number of tenant schemas that were upgraded; each in a transaction of its own, so a broken run resumes.
    """
    engine = create_engine(url)
    try:
        with engine.connect() as guard:
            guard.execute(text("SELECT pg_advisory_lock(:k)"), {"k": _LOCK})
            guard.commit()
            try:
                patiently(engine, lambda one: command.upgrade(_config("control", one, "control"), "head"))
                with engine.connect() as connection:
                    behind = connection.execute(
                        text(
                            "SELECT name, schema_name, role_name FROM control.tenant"
                            " WHERE revision <> :head ORDER BY name"
                        ),
                        {"head": TENANT_HEAD},
                    ).all()
                for name, schema, role in behind:
                    progress(f"upgrading tenant {name}")
                    patiently(engine, partial(_upgrade_tenant, name, schema, role))
                return len(behind)
            finally:
                guard.execute(text("SELECT pg_advisory_unlock(:k)"), {"k": _LOCK})
                guard.commit()
    finally:
        engine.dispose()


def _upgrade_tenant(name: str, schema: str, role: str, connection: Connection) -> None:
    config = _config("tenant", connection, schema)
    config.attributes["role"] = role
    command.upgrade(config, "head")
    connection.execute(
        text("UPDATE control.tenant SET revision = :head WHERE name = :name"), {"head": TENANT_HEAD, "name": name}
    )


def patiently(engine: Engine, change: Callable[[Connection], None], *, lock_seconds: float = LOCK_SECONDS) -> None:
    """Change tables beside a service that uses them, in one transaction, again and again where it is in the way.

    Args:
        engine: of the owner.
        change: what to do; called anew after a roll-back.
        lock_seconds: how long it may wait for a lock, since whoever comes later waits behind it.

    Raises:
        OperationalError: the last of 20 tries met a deadlock or got no lock, or another failure.
    """
    for left in reversed(range(TRIES)):
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = {round(lock_seconds * 1000)}"))
                change(connection)
        except OperationalError as error:
            if not left or getattr(error.orig, "sqlstate", None) not in _IN_THE_WAY:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def enable_login(url: str, password: str, *, role: str = "kedge_service") -> None:
    """Let a process log in as a role that owns nothing and sees a tenant only after taking its role.

    Args:
        url: SQLAlchemy URL of the owner.
        password: at least 32 random characters.
        role: `kedge_service`, or `kedge_gate` for the one process that may read the holdout.
    """
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            name = connection.dialect.identifier_preparer.quote(role)
            connection.execute(text(f"ALTER ROLE {name} LOGIN PASSWORD {sql.quote(password)}"))
    finally:
        engine.dispose()
