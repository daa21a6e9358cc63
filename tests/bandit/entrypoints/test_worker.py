"""The worker process: it hears of rows, outlives failures of one tenant and of the database, and ends cleanly."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg
import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from tests.bandit.application.scene import Scene, open_scene
from tests.fixtures.ledgers import NewTenant

PATIENCE = 60.0


@pytest.fixture
async def scene(fresh_database: str, ledgers: PostgresLedgers, new_tenant: NewTenant) -> Scene:
    return await open_scene(fresh_database, ledgers, await new_tenant())


@contextmanager
def running(url: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker; it is stopped at the end, if the test did not stop it."""
    environment = {**os.environ, "KEDGE_DATABASE_URL": url, "KEDGE_WORKER_METRICS_PORT": "0", **settings}
    with subprocess.Popen([sys.executable, "-m", "kedge_bandit.entrypoints.worker"], env=environment) as process:
        yield process
        if process.poll() is None:
            process.terminate()


def wait_for(url: str, true: Callable[[], Any]) -> None:
    """Wait until something is true, looking again whenever a worker tells the replicas, and at least every second."""
    deadline = monotonic() + PATIENCE
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN kedge_serving")
        while not true():
            assert monotonic() < deadline, "the worker did not come round in time"
            for _ in connection.notifies(timeout=1.0, stop_after=1):
                pass


def settled(scene: Scene) -> int:
    return sum(count for (count,) in scene.sql("SELECT count FROM episode_count WHERE name = 'SETTLED'"))


def test_a_worker_folds_the_rows_it_hears_of_and_ends_cleanly(fresh_database: str, scene: Scene) -> None:
    with running(fresh_database) as worker:
        scene.write(*scene.turn("e1"))
        wait_for(fresh_database, lambda: settled(scene) == 1)

        worker.send_signal(signal.SIGTERM)

        assert worker.wait(PATIENCE) == 0


async def test_a_tenant_that_fails_stops_no_other_and_is_tried_again(
    fresh_database: str, scene: Scene, ledgers: PostgresLedgers, new_tenant: NewTenant
) -> None:
    broken = await open_scene(fresh_database, ledgers, await new_tenant())
    broken.sql("ALTER TABLE episode_count RENAME TO gone")
    with running(fresh_database):
        broken.write(*broken.turn("e1"))
        scene.write(*scene.turn("e1"))
        wait_for(fresh_database, lambda: settled(scene) == 1)

        broken.sql("ALTER TABLE gone RENAME TO episode_count")

        wait_for(fresh_database, lambda: settled(broken) == 1)


def test_a_worker_outlives_the_loss_of_every_connection(fresh_database: str, scene: Scene) -> None:
    with running(fresh_database) as worker:
        scene.write(*scene.turn("e1"))
        wait_for(fresh_database, lambda: settled(scene) == 1)

        scene.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        scene.write(*scene.turn("e2"))

        wait_for(fresh_database, lambda: settled(scene) == 2)
        assert worker.poll() is None


def test_a_worker_counts_what_it_does(fresh_database: str, scene: Scene) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(fresh_database, KEDGE_WORKER_METRICS_PORT=str(port)):
        scene.write(*scene.turn("e1"))
        wait_for(fresh_database, lambda: settled(scene) == 1)
        wait_for(
            fresh_database,
            lambda: f'kedge_episodes{{name="SETTLED",policy="support",tenant="{scene.tenant}"}} 1.0' in read(port),
        )

        said = read(port)

    for series in ("kedge_belief_lag_seconds", "kedge_pass_seconds", "kedge_allocations_published", "kedge_audit_head"):
        assert series in said
    assert f'kedge_learning_held{{policy="support",tenant="{scene.tenant}"}} 0.0' in said


def read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read(), "utf-8")
