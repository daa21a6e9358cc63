"""Make a database ready to be served: embedded or given, migrated, with a service login and an operator's key."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from sqlalchemy import Engine, create_engine, insert, select
from sqlalchemy.exc import DBAPIError

from kedge_bandit.adapters.embedded.supervisor import EmbeddedPostgres
from kedge_bandit.adapters.postgres import control_tables as tables
from kedge_bandit.domain.api_key import format_key, hash_of, split_key
from kedge_bandit.domain.principal import Role
from kedge_bandit.entrypoints.policy_file import first_line
from kedge_bandit.entrypoints.profile import can_read_holdout
from kedge_bandit.entrypoints.settings import Profile, Settings
from kedge_migrations import TENANT_HEAD, enable_login, upgrade

OPERATOR_KEY_FILE = "operator.key"
ALARM_KEY_FILE = "alarm.key"
"""Can freeze any policy and nothing else: what Alertmanager shows."""
_KEY_RANDOMNESS = 36


@dataclass(slots=True)
class ReadyDatabase:
    """A database at head.

    Attributes:
        service_url: what the processes log in with.
        embedded: the supervisor that has to be stopped at the end; None for a given database.
        gate_url: what the gate logs in with; empty: there is no such login.
        operator_key: may do everything; kept in `data_dir/operator.key`, readable by its owner only.
    """

    service_url: str
    gate_url: str
    owner_url: str
    embedded: EmbeddedPostgres | None
    operator_key: str

    def stop(self) -> None:
        """Stop the embedded database, if it is ours."""
        if self.embedded is not None:
            self.embedded.stop()


def make_ready(settings: Settings, *, progress: Callable[[str], None] = lambda _line: None) -> ReadyDatabase:
    """Start (if embedded), migrate, and hand out a login and a key.

    Args:
        progress: called with one line per step.

    Raises:
        SystemExit: the database is away, or refuses.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    embedded = None
    owner_url = settings.database_url
    if not owner_url:
        progress("starting the embedded PostgreSQL")
        embedded = EmbeddedPostgres(settings.data_dir / "postgres")
        owner_url = embedded.start()
    try:
        _bring_to_head(owner_url, progress)
        if embedded is None:
            service_url, gate_url = owner_url, settings.gate_database_url or _if_it_can(settings, owner_url)
        else:
            service_url = _login(settings.data_dir, owner_url, "service")
            gate_url = _login(settings.data_dir, owner_url, "gate")
        key = _kept_key(settings.data_dir / OPERATOR_KEY_FILE, owner_url, Role.OPERATOR)
        _kept_key(settings.data_dir / ALARM_KEY_FILE, owner_url, Role.ALARM)
    except BaseException as error:
        if embedded is not None:
            embedded.stop()
        if isinstance(error, psycopg.Error):
            raise SystemExit(f"the database cannot be used: {first_line(error)}") from error
        if isinstance(error, DBAPIError):
            raise SystemExit(f"the database cannot be used: {first_line(error.orig or error)}") from error
        raise
    return ReadyDatabase(service_url, gate_url, owner_url, embedded, key)


def _bring_to_head(url: str, progress: Callable[[str], None]) -> None:
    """Migrate as the owner; a login that owns nothing finds the schema at head, or is told whose turn it is.

    Raises:
        SystemExit: the schema is behind, and this login cannot change that.
    """
    progress("bringing the schema to head")
    with psycopg.connect(url, connect_timeout=10) as connection:
        owned = connection.execute(
            "SELECT pg_has_role(current_user, nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'control'"
        ).fetchone()
        if owned is not None and not owned[0]:
            behind = connection.execute("SELECT count(*) FROM control.tenant WHERE revision <> %s", (TENANT_HEAD,))
            if (behind.fetchone() or (0,))[0]:
                raise SystemExit("the schema is behind, and this login may not change it: migrate as its owner first")
            return
    upgrade(core_url(url), progress=progress)


def core_url(url: str) -> str:
    """Name the driver for SQLAlchemy.

    >>> core_url("postgresql://kedge@/kedge?host=/run/kedge")
    'postgresql+psycopg://kedge@/kedge?host=/run/kedge'
    """
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def _login(data_dir: Path, owner_url: str, name: str) -> str:
    """Let a process log in as `kedge_NAME`, with a password of its own in `NAME.password`; gives its address."""
    password = _secret(data_dir / f"{name}.password", lambda: secrets.token_urlsafe(32))
    enable_login(core_url(owner_url), password, role=f"kedge_{name}")
    parts = urlsplit(owner_url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"kedge_{name}:{quote(password, safe='')}@{place}"))


def _if_it_can(settings: Settings, url: str) -> str:
    """Give the gate the given login where it reaches the holdout and nothing keeps processes apart: in the demo."""
    if settings.profile is Profile.PRODUCTION:
        return ""
    with psycopg.connect(url, connect_timeout=10) as connection:
        return url if can_read_holdout(connection) else ""


def _kept_key(path: Path, owner_url: str, role: Role) -> str:
    """Keep a key of every tenant in a file; make another one when the database does not know it."""
    engine = create_engine(core_url(owner_url))
    try:
        if path.exists():
            key = path.read_text(encoding="ascii").strip()
            parts = split_key(key)
            if parts is not None and _is_known(engine, *parts):
                return key
            path.unlink()
        key = _secret(path, lambda: format_key(secrets.token_bytes(_KEY_RANDOMNESS)))
        key_id, secret = split_key(key) or ("", "")
        with engine.begin() as connection:
            connection.execute(
                insert(tables.api_key).values(
                    key_id=key_id, key_hash=hash_of(secret), principal=role.lower(), role=role, tenant=None
                )
            )
        return key
    finally:
        engine.dispose()


def _is_known(engine: Engine, key_id: str, secret: str) -> bool:
    row = tables.api_key.c
    with engine.connect() as connection:
        found = connection.execute(
            select(row.key_hash).where(row.key_id == key_id, row.revoke_time.is_(None))
        ).scalar_one_or_none()
    return found is not None and secrets.compare_digest(bytes(found), hash_of(secret))


def _secret(path: Path, make: Callable[[], str]) -> str:
    """Read a secret from its file, or make it; the file is its owner's only from the first byte on."""
    if path.exists():
        return path.read_text(encoding="ascii").strip()
    secret = make()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret)
    return secret
