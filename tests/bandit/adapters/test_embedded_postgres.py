"""Start, stop, kill and adopt a real embedded PostgreSQL."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import create_engine

from kedge_bandit.adapters.embedded import EmbeddedPostgres
from kedge_bandit.adapters.embedded.errors import DataFolderInUse, PasswordMissing, ServerNotStarted
from kedge_bandit.adapters.embedded.postmaster import look_up
from tests.bandit.adapters.embedded_place import Place, ask, do, leave_pid_file, needs_proc, wait_for_end
from tests.fixtures.database import open_folder


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_folder() as folder:
        yield Place(folder)


def test_a_fresh_folder_becomes_a_database_that_answers(place: Place) -> None:
    database = place.supervisor()
    with database as url:
        assert ask(url, "SELECT current_database()") == "kedge"
        assert database.pid is not None
    assert database.pid is None


def test_the_address_serves_sqlalchemy_after_a_change_of_prefix(place: Place) -> None:
    with place.supervisor() as url:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
        engine.dispose()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_locks_per_transaction", "1024"),
        ("synchronous_commit", "on"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("shared_buffers", "256MB"),
        ("max_wal_size", "2GB"),
        ("max_connections", "200"),
        ("data_checksums", "on"),
        ("password_encryption", "scram-sha-256"),
        ("listen_addresses", ""),
        ("TimeZone", "UTC"),
    ],
)
def test_the_server_runs_with_the_vetted_setting(settings: dict[str, str], name: str, value: str) -> None:
    assert settings[name] == value


@pytest.fixture(scope="module")
def settings(place: Place) -> dict[str, str]:
    with place.supervisor() as url, psycopg.connect(url) as connection:
        return {str(name): str(value) for name, value, _ in connection.execute("SHOW ALL")}


def test_a_restart_keeps_data_and_address(place: Place) -> None:
    with place.supervisor() as first:
        do(first, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
    with place.supervisor() as second:
        assert ask(second, "SELECT n FROM kept") == "7"
    assert second == first


def test_a_clean_stop_needs_no_recovery(place: Place) -> None:
    with place.supervisor():
        pass
    log_before = (place.data / "postgres.log").stat().st_size
    with place.supervisor():
        pass
    log = (place.data / "postgres.log").read_text(encoding="utf-8")[log_before:]
    assert "database system was shut down" in log
    assert "recovery" not in log


def test_two_supervisors_that_start_at_once_on_a_fresh_folder_make_one_database(place: Place) -> None:
    databases = [place.supervisor(place.folder / "fresh") for _ in range(2)]
    with ThreadPoolExecutor(max_workers=2) as threads:
        urls = set(threads.map(EmbeddedPostgres.start, databases))
    assert len(urls) == 1
    assert len({database.pid for database in databases}) == 1
    for database in databases:
        database.stop()


def test_no_second_server_starts_while_a_process_of_a_killed_one_works_on(place: Place) -> None:
    database = place.supervisor()
    with closing(psycopg.connect(database.start())) as connection:
        worker, killed = connection.info.backend_pid, database.pid
        assert killed is not None
        connection.pgconn.send_query(b"SELECT sum(n) FROM generate_series(1, 8000000) AS n")
        os.kill(killed, signal.SIGKILL)
        wait_for_end(killed)
        assert look_up(worker) is not None

        database.start()

        left = look_up(worker)
        assert left is None or left.state == "Z"
    database.stop()


def test_what_was_committed_before_kill_9_of_the_server_is_there_after_the_next_start(place: Place) -> None:
    database = place.supervisor()
    url = database.start()
    do(url, "CREATE TABLE survived (n int)", "INSERT INTO survived VALUES (1)")
    killed = database.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)

    assert database.start() == url

    assert database.pid not in (None, killed)
    assert ask(url, "SELECT n FROM survived") == "1"
    database.stop()


@needs_proc
def test_a_server_that_died_below_a_service_that_does_not_reap_it_is_replaced(place: Place) -> None:
    with place.service() as (process, pid, _):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        os.kill(pid, signal.SIGKILL)
        wait_for_end(pid)
        zombie = look_up(pid)
        assert zombie is not None
        assert zombie.state == "Z"

        database = place.supervisor()
        with database as url:
            assert ask(url, "SELECT 1") == "1"
            assert database.pid != pid
            process.kill()  # as long as it lives, it counts as a user for whom the server stays up
            process.wait()


@needs_proc
def test_a_pid_file_of_a_zombie_is_removed(place: Place) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        leave_pid_file(place.data, process.pid)
        with place.supervisor() as url:
            assert ask(url, "SELECT 1") == "1"


def test_a_pid_file_that_names_another_program_is_removed(place: Place) -> None:
    leave_pid_file(place.data, os.getpid())
    with place.supervisor() as url:
        assert ask(url, "SELECT 1") == "1"


def test_an_empty_pid_file_is_removed(place: Place) -> None:
    (place.data / "pgdata" / "postmaster.pid").touch()
    with place.supervisor() as url:
        assert ask(url, "SELECT 1") == "1"


def test_a_server_that_outlived_its_killed_service_is_adopted_and_stopped(place: Place) -> None:
    with place.service() as (process, pid, url):
        process.kill()
        process.wait()
        database = place.supervisor()
        assert database.start() == url
        assert database.pid == pid
        assert ask(url, "SELECT 1") == "1"
        database.stop()
        wait_for_end(pid)
        assert not (place.data / "pgdata" / "postmaster.pid").exists()


def test_two_supervisors_share_one_server_and_the_last_one_stops_it(place: Place) -> None:
    first, second = place.supervisor(), place.supervisor()
    url = first.start()
    assert second.start() == url
    assert second.pid == first.pid
    first.stop()
    assert ask(url, "SELECT 1") == "1"
    second.stop()
    with pytest.raises(psycopg.OperationalError):
        ask(url, "SELECT 1")


def test_a_folder_that_a_server_out_of_sight_holds_is_refused(place: Place) -> None:
    with (place.data / "server.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DataFolderInUse) as refusal:
            place.supervisor(silence_patience=timedelta(0)).start()
    assert refusal.value.folder == place.data
    assert refusal.value.pid is None


def test_a_server_that_cannot_start_says_why(place: Place) -> None:
    override = place.data / "pgdata" / "postgresql.auto.conf"
    good = override.read_bytes()
    override.write_bytes(good + b"no_such_setting = 1\n")
    try:
        with pytest.raises(ServerNotStarted, match="no_such_setting"):
            place.supervisor().start()
    finally:
        override.write_bytes(good)


def test_a_lost_password_is_named_as_the_reason(place: Place) -> None:
    password = place.data / "password"
    aside = password.rename(password.with_name("aside"))
    try:
        with pytest.raises(PasswordMissing):
            place.supervisor().start()
    finally:
        aside.rename(password)
    with place.supervisor() as url:
        assert ask(url, "SELECT 1") == "1"
