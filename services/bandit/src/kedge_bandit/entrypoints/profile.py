"""Refuse weak set-ups at start: the demo profile stays on this machine, the production profile names every weakness."""

import ipaddress
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg

from kedge_bandit.entrypoints.settings import Profile, Settings

GUESSABLE = ("", "kedge", "postgres", "password", "secret", "changeme", "admin")
"""Passwords that are none, beside the user's own name."""
SECRET_FILES = ("operator.key", "alarm.key", "service.password", "gate.password", "anchor.key")
ENCRYPTED = ("require", "verify-ca", "verify-full")
_APART = "give KEDGE_DATABASE_URL the login kedge_service, and the gate its own, kedge_gate, in KEDGE_GATE_DATABASE_URL"
_OTHERS = stat.S_IROTH | stat.S_IWOTH


def check_profile(settings: Settings) -> None:
    """Refuse to start a process with a weak set-up. Raises SystemExit that names every weakness."""
    refuse(weaknesses(settings))
    if settings.database_url:
        check_database(settings, settings.database_url)


def refuse(found: list[str]) -> None:
    """Raise SystemExit where anything was found."""
    if found:
        raise SystemExit("refused to start:\n" + "\n".join(f"- {each}" for each in found))


def weaknesses(settings: Settings) -> list[str]:
    """List what is weak about some settings, each with what to do.

    >>> weaknesses(Settings(host="127.0.0.1"))
    []
    >>> weaknesses(Settings(host="0.0.0.0"))[0][:66]
    'KEDGE_HOST is 0.0.0.0 and nothing is encrypted: set KEDGE_TLS_CERT'
    """
    found = list(_in_the_clear(settings))
    if settings.profile is Profile.PRODUCTION:
        found += [*_open_files(settings), *_weak_database_url(settings.database_url)]
    return found


def is_loopback(host: str) -> bool:
    """Say whether an address is this machine's own.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("kedge.internal")
    (True, True, False, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _in_the_clear(settings: Settings) -> Iterator[str]:
    if settings.tls_certificate or is_loopback(settings.host):
        return
    yield (
        f"KEDGE_HOST is {settings.host} and nothing is encrypted: set KEDGE_TLS_CERTIFICATE and KEDGE_TLS_KEY, "
        "or bind to 127.0.0.1"
    )


def _open_files(settings: Settings) -> Iterator[str]:
    secret = [settings.data_dir / name for name in SECRET_FILES]
    if settings.tls_key:
        secret.append(Path(settings.tls_key))
    for path in secret:
        if path.exists() and path.stat().st_mode & _OTHERS:
            yield f"{path} can be read or written by others: chmod o= {path}"


def _weak_database_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = parts.hostname or asked.get("host", "")
    if not host or host.startswith("/"):
        return
    user, password = unquote(parts.username or ""), unquote(parts.password or asked.get("password", ""))
    if password.lower() in (*GUESSABLE, user.lower()):
        yield f"the database's password for {user or 'its user'} is missing or guessable: give it a random one"
    if not is_loopback(host) and asked.get("sslmode") not in ENCRYPTED:
        yield f"the connection to the database on {host} is not encrypted: add sslmode=verify-full to its URL"


def can_read_holdout(connection: psycopg.Connection[Any]) -> bool:
    """Say whether a login reaches into the holdout, itself or by a role that it may take."""
    found = connection.execute(
        "SELECT to_regnamespace('holdout') IS NOT NULL AND EXISTS (SELECT FROM pg_roles r"
        " WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND has_schema_privilege(r.rolname, 'holdout', 'USAGE'))"
    ).fetchone()
    return bool(found and found[0])


def check_database(settings: Settings, url: str, *, may_read_holdout: bool = False) -> None:
    """Refuse a database that may forget what it has committed, and a serving login that could read a holdout table.

    The demo profile takes any. Raises SystemExit.
    """
    if settings.profile is not Profile.PRODUCTION:
        return
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            found = connection.execute(
                "SELECT name FROM pg_settings WHERE name = ANY (%s) AND setting = 'off' ORDER BY name",
                [["fsync", "full_page_writes", "synchronous_commit"]],
            ).fetchall()
            reaches = not may_read_holdout and can_read_holdout(connection)
            user = connection.info.user
    except psycopg.Error as error:
        raise SystemExit(f"the database cannot be used: {str(error).partition(chr(10))[0]}") from error
    if reaches:
        refuse([f"the serving login {user} can read the holdout: {_APART}"])
    refuse([f"the database runs with {name} off and may lose what is acknowledged: turn it on" for (name,) in found])
