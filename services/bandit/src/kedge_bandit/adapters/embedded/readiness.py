"""Ask a server whether it is ready, by a query that reads what it serves."""

from enum import StrEnum, auto
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from kedge_bandit.adapters.embedded.errors import DataFolderInUse, ServerNotStarted

ROLE = "kedge"
DATABASE = "kedge"
MAINTENANCE_DATABASE = "postgres"

# What the server says (in English: lc_messages is C) while it starts, recovers or ends: SQLSTATE 57P01 to 57P03,
# which libpq does not hand on for a connection that failed.
BUSY_PHRASES = (
    "starting up",
    "not yet accepting connections",
    "not accepting connections",
    "in recovery mode",
    "shutting down",
    "terminating connection",
)


class Answer(StrEnum):
    """Say what became of the question."""

    READY = auto()
    BUSY = auto()
    SILENT = auto()


def database_url(password: str, socket_folder: Path, port: int, database: str = DATABASE) -> str:
    """Write the address that libpq, psycopg and, with the prefix postgresql+psycopg://, SQLAlchemy understand.

    >>> database_url("secret", Path("/data/socket"), 5432)
    'postgresql://kedge:secret@/kedge?host=/data/socket&port=5432'
    """
    return f"postgresql://{ROLE}:{quote(password, safe='')}@/{database}?host={quote(str(socket_folder))}&port={port}"


def ask(url: str, cluster: Path) -> Answer:
    """Connect and query once.

    Args:
        url: address of the maintenance database.
        cluster: the data directory that the answering server must have.

    Returns:
        READY after an answer; BUSY when the server says it starts, recovers or ends; SILENT when nothing answers.

    Raises:
        DataFolderInUse: a server of another cluster answers there.
        ServerNotStarted: the server refuses for another reason, such as a wrong password.
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
    except psycopg.OperationalError as error:
        text = str(error)
        if any(phrase in text for phrase in BUSY_PHRASES):
            return Answer.BUSY
        if "FATAL" not in text:
            return Answer.SILENT
        raise ServerNotStarted(cluster, text) from error
    if row is None or Path(str(row[0])).resolve() != cluster.resolve():
        raise DataFolderInUse(cluster, None)
    return Answer.READY


def ensure_database(url: str, cluster: Path) -> None:
    """Create the service's database when it is missing; the caller makes sure that nobody else does so meanwhile.

    Args:
        url: address of the maintenance database.
        cluster: the server's data directory, named when this fails.

    Raises:
        ServerNotStarted: the server cannot create it.
    """
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if found is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except psycopg.Error as error:
        raise ServerNotStarted(cluster, str(error)) from error
