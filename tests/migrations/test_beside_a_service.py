"""A migration waits briefly for a table that is in use, gives way, and tries again."""

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError

from kedge_migrations.upgrade import patiently

SHORT = 0.05


def test_a_change_that_gets_no_lock_gives_way_and_is_tried_again(fresh_database: str) -> None:
    engine = create_engine(fresh_database.replace("postgresql://", "postgresql+psycopg://", 1))
    tries = []
    with psycopg.connect(fresh_database) as reader:
        reader.execute("CREATE TABLE busy (n int)")
        reader.commit()
        reader.execute("SELECT count(*) FROM busy")

        def change(connection: Connection) -> None:
            tries.append(connection)
            if len(tries) == 3:
                reader.rollback()
            connection.execute(text("ALTER TABLE busy ADD COLUMN m int"))

        patiently(engine, change, lock_seconds=SHORT)
        assert len(tries) == 3
        assert reader.execute("SELECT m FROM busy").fetchall() == []
    engine.dispose()


def test_another_failure_is_not_repeated(fresh_database: str) -> None:
    engine = create_engine(fresh_database.replace("postgresql://", "postgresql+psycopg://", 1))
    tries = []

    def change(connection: Connection) -> None:
        tries.append(connection)
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(OperationalError):
        patiently(engine, change)
    assert len(tries) == 1
    engine.dispose()
