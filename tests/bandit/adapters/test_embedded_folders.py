"""Put an embedded PostgreSQL's files and binaries where its user can reach them, and nobody else."""

import multiprocessing
import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kedge_bandit.adapters.embedded import EmbeddedPostgres, find_binaries
from kedge_bandit.adapters.embedded.binaries import SYSTEM_FOLDER
from kedge_bandit.adapters.embedded.errors import (
    BinariesNotFound,
    DataFolderGone,
    DataFolderUnreachable,
    DataVersionMismatch,
)
from tests.bandit.adapters.embedded_place import Place, ask, do, mode, needs_proc, needs_root, wait_for_end
from tests.fixtures.database import open_folder


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_folder() as folder:
        yield Place(folder)


def test_the_secret_parts_are_closed_to_others(place: Place) -> None:
    with place.supervisor() as url:
        assert mode(place.data / "password") == 0o600
        assert mode(place.data / "postgres.log") == 0o600
        assert mode(place.data / "pgdata") == 0o700
        assert mode(place.data / "socket") == 0o700
        password = (place.data / "password").read_text(encoding="ascii")
        assert len(password) >= 43
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            ask(url.replace(password, "guess"), "SELECT 1")


@needs_proc
def test_the_server_listens_on_no_tcp_port(place: Place) -> None:
    database = place.supervisor()
    with database:
        descriptors = [entry.readlink() for entry in Path(f"/proc/{database.pid}/fd").iterdir()]
        sockets = {str(target)[8:-1] for target in descriptors if str(target).startswith("socket:[")}
        tables = [Path("/proc/net", name) for name in ("tcp", "tcp6") if Path("/proc/net", name).exists()]
        listening = {line.split()[9] for table in tables for line in table.read_text().splitlines()[1:]}
    assert sockets
    assert not sockets & listening


def test_folders_that_were_there_keep_mode_and_owner(place: Place) -> None:
    outer, inner = place.folder / "outer", place.folder / "outer" / "inner"
    inner.mkdir(parents=True)
    outer.chmod(0o711)
    inner.chmod(0o751)
    watched = [inner, *inner.parents]
    before = [(entry.stat().st_mode, entry.stat().st_uid, entry.stat().st_gid) for entry in watched]
    with place.supervisor(inner) as url:
        assert ask(url, "SELECT 1") == "1"
    assert [(entry.stat().st_mode, entry.stat().st_uid, entry.stat().st_gid) for entry in watched] == before


def test_a_path_too_long_or_too_odd_for_a_socket_gets_a_short_one_that_goes_with_the_server(place: Place) -> None:
    odd = place.folder / f"a, b:{'c' * 60}" / ("d" * 60)
    with place.supervisor(odd) as url:
        assert ask(url, "SELECT 1") == "1"
        with psycopg.connect(url) as connection:
            folder = Path(connection.info.host)
        assert not folder.is_relative_to(odd)
        assert mode(folder) == 0o700
    assert not folder.exists()


def test_a_server_that_died_comes_back_at_the_same_short_path(place: Place) -> None:
    database = place.supervisor(place.folder / ("d" * 120))
    url, killed = database.start(), database.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_for_end(killed)
    assert database.start() == url
    assert ask(url, "SELECT 1") == "1"
    database.stop()


@needs_root
def test_data_in_a_closed_home_go_elsewhere_and_a_pointer_finds_them_again(place: Place) -> None:
    home = place.folder / "home"
    home.mkdir(mode=0o700)
    with place.supervisor(home / "data") as url:
        do(url, "CREATE TABLE found_again (n int)")
    assert mode(home) == 0o700
    target = Path((home / "data" / "location").read_text(encoding="utf-8").strip())
    assert target.is_relative_to(place.folder / "state")
    with place.supervisor(home / "data") as url:
        assert ask(url, "SELECT count(*) FROM found_again") == "0"

    target.rename(target.with_name("lost"))
    with pytest.raises(DataFolderGone):
        place.supervisor(home / "data").start()


@needs_root
def test_data_whose_folder_was_closed_later_are_not_replaced_by_an_empty_database(place: Place) -> None:
    closed = place.folder / "closed"
    (closed / "data" / "pgdata").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(DataFolderUnreachable):
        place.supervisor(closed / "data").start()


def serve_as_nobody(data: Path, state: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    database = EmbeddedPostgres(data, bin_dir=find_reachable_binaries(state), state_dir=state)
    with database as url:
        assert ask(url, "SELECT 1") == "1"
        assert data.joinpath("pgdata").stat().st_uid == nobody.pw_uid
        assert mode(data) == 0o700


def find_reachable_binaries(state: Path) -> Path:
    return next(state.glob("postgresql/*/*/*/bin"))


@needs_root
def test_a_plain_user_runs_the_server_as_themselves(place: Place) -> None:
    with place.supervisor():
        pass
    folder = place.folder / "plain"
    folder.mkdir()
    os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    child = multiprocessing.get_context("fork").Process(
        target=serve_as_nobody, args=(folder / "data", place.folder / "state")
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    with place.supervisor(folder / "data") as url:
        assert ask(url, "SELECT 1") == "1"
    assert (folder / "data" / "postgres.log").stat().st_uid == pwd.getpwnam("nobody").pw_uid


def test_the_named_folder_is_the_only_one_looked_at(tmp_path: Path) -> None:
    with pytest.raises(BinariesNotFound) as refusal:
        find_binaries(tmp_path)
    assert refusal.value.looked_in == (tmp_path,)


def test_binaries_of_another_version_than_the_data_are_refused() -> None:
    found = find_binaries()
    with pytest.raises(DataVersionMismatch) as refusal:
        find_binaries(found.bin_dir, major=found.major - 1)
    assert refusal.value.found_majors == (found.major,)


@pytest.mark.skipif(not list(SYSTEM_FOLDER.glob("*/bin/initdb")), reason="no PostgreSQL of the system's own")
def test_binaries_of_the_system_serve_as_well(place: Place) -> None:
    bin_dir = max(SYSTEM_FOLDER.glob("*/bin"))
    with place.supervisor(place.folder / "system", bin_dir=bin_dir) as url:
        assert int(ask(url, "SHOW server_version_num")) // 10_000 == find_binaries(bin_dir).major
        assert ask(url, "SHOW data_checksums") == "on"
