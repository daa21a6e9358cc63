"""Make a database ready to be served: embedded or given, migrated, with a service login and an operator's key."""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from sqlalchemy import Engine, create_engine, insert, select
from sqlalchemy.exc import DBAPIError

from kedge_bandit.adapters.embedded.supervisor import EmbeddedPostgres
from kedge_bandit.adapters.postgres import tables
from kedge_bandit.domain.api_key import format_key, hash_of, split_key
from kedge_bandit.entrypoints.policy_file import first_line
from kedge_bandit.entrypoints.settings import Settings
from kedge_migrations import enable_login, upgrade

OPERATOR_KEY_FILE = "operator.key"
_KEY_RANDOMNESS = 36


@dataclass(slots=True)
class ReadyDatabase:
    """A database at head.

    Attributes:
        service_url: what the processes log in with.
        embedded: the supervisor that has to be stopped at the end; None for a given database.
        operator_key: may do everything; kept in `data_dir/operator.key`, readable by its owner only.
    """

    service_url: str
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
        progress("bringing the schema to head")
        upgrade(core_url(owner_url), progress=progress)
        service_url = owner_url if embedded is None else _service_login(settings.data_dir, owner_url)
        key = _operator_key(settings.data_dir, owner_url)
    except BaseException as error:
        if embedded is not None:
            embedded.stop()
        if isinstance(error, DBAPIError):
            raise SystemExit(f"the database cannot be used: {first_line(error.orig or error)}") from error
        raise
    return ReadyDatabase(service_url, owner_url, embedded, key)


def core_url(url: str) -> str:
    """Name the driver for SQLAlchemy.

    >>> core_url("postgresql://kedge@/kedge?host=/run/kedge")
    'postgresql+psycopg://kedge@/kedge?host=/run/kedge'
    """
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+psycopg://" + url.removeprefix(prefix)
    return url


def _service_login(data_dir: Path, owner_url: str) -> str:
    password = _secret(data_dir / "service.password", lambda: secrets.token_urlsafe(32))
    enable_login(core_url(owner_url), password)
    parts = urlsplit(owner_url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"kedge_service:{quote(password, safe='')}@{place}"))


def _operator_key(data_dir: Path, owner_url: str) -> str:
    """Keep the key in a file; make another one when the database does not know it."""
    path = data_dir / OPERATOR_KEY_FILE
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
                    key_id=key_id, key_hash=hash_of(secret), principal="operator", role="OPERATOR", tenant=None
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
