"""Tables begin undivided and are divided by month when they have grown; nobody sees more of it than a wait."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.retention import PostgresRetention
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.application.retain import Retain
from kedge_bandit.entrypoints.retention import LocalClock
from tests.bandit.application.scene import SUPPORT, Scene
from tests.fixtures.stack import wait_for

TABLES = {"allocation", "audit_event", "decision", "episode", "episode_event", "evidence", "outcome"}
TIMES = {
    "decision": "decision_time",
    "decision_key": "decision_time",
    "episode_event": "receive_time",
    "outcome": "receive_time",
    "episode": "open_time",
    "evidence": "settle_time",
}
KIND = "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = %s"


def divide(scene: Scene, least_bytes: int = 0) -> Iterator[str]:
    while True:
        with psycopg.connect(scene.url, autocommit=True) as connection:
            ((divided,),) = connection.execute("SELECT control.divide_next(%s)", (least_bytes,)).fetchall()
        if divided is None:
            return
        yield divided.partition(".")[2]


async def test_a_new_tenants_tables_are_undivided_until_they_have_grown(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))

    assert scene.sql(KIND, "p") == []
    assert list(divide(scene, 2**20)) == []
    assert set(divide(scene)) == TABLES
    assert {name for (name,) in scene.sql(KIND, "p")} == TABLES


async def test_what_is_written_and_learned_while_tables_are_divided_is_all_there(scene: Scene) -> None:
    for number in range(20):
        await scene.play(*scene.turn(f"before-{number}"))
    counted = {name: scene.sql(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}

    async def work() -> None:
        for number in range(20):
            await asyncio.to_thread(scene.write, *scene.turn(f"meanwhile-{number}"))
            await scene.learn()

    divided, _ = await asyncio.gather(asyncio.to_thread(lambda: list(divide(scene))), work())
    await scene.play(*scene.turn("after"))

    assert set(divided) == TABLES
    assert scene.sql("SELECT count(*) FROM decision") == [(41,)]
    assert all(scene.sql(f"SELECT count(*) >= {was} FROM {name}") == [(True,)] for name, was in counted.items())
    rebuilt = await scene.rebuilt()
    assert (rebuilt.agrees, rebuilt.evidence_rows) == (True, 41)


@pytest.mark.parametrize("is_divided", [False, True])
async def test_an_old_month_goes_whether_or_not_the_tables_are_divided(
    scene: Scene, engine: AsyncEngine, is_divided: bool
) -> None:
    await scene.play(*(row for number in range(6) for row in scene.turn(f"old-{number}")))
    for table, column in TIMES.items():
        scene.sql(f"UPDATE {table} SET {column} = {column} - interval '200 days'")
    await scene.play(*scene.turn("young"))
    if is_divided:
        assert set(divide(scene)) == TABLES
    with psycopg.connect(scene.url, autocommit=True) as connection:
        connection.execute("UPDATE control.tenant SET retention_days = 90 WHERE name = %s", (scene.tenant,))
    before = scene.cells()

    seals = HmacSeals({1: b"s" * 32})
    gone = await Retain(PostgresRetention(engine), seals, LocalClock())(scene.tenant)

    assert [rows > 0 for _, rows in gone] == [True]
    assert gone[0][0] < datetime.now(UTC).date()
    assert [scene.sql(f"SELECT count(*) FROM {name}")[0][0] for name in TIMES] == [1] * len(TIMES)
    assert scene.cells() == before
    assert (await Rebuild(scene.ledgers, seals)(scene.tenant, SUPPORT, verify_only=True)).agrees


def test_onboarding_reads_no_catalog_from_end_to_end_that_grows_with_tenants(migrated_url: str) -> None:
    url = migrated_url.replace("postgresql+psycopg://", "postgresql://", 1)
    scans = (
        "SELECT seq_scan FROM pg_stat_sys_tables WHERE relname IN ('pg_constraint', 'pg_attribute') ORDER BY relname"
    )
    with psycopg.connect(url, autocommit=True) as watching:

        def onboard(name: str) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("SELECT control.create_tenant(%s)", (name,))
                (pid,) = (connection.info.backend_pid,)
            gone = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
            wait_for(lambda: watching.execute(gone, (pid,)).fetchone() == (0,), "the connection's end")

        onboard("counted-first")
        before = watching.execute(scans).fetchall()
        onboard("counted-second")
        assert [now - was for (now,), (was,) in zip(watching.execute(scans).fetchall(), before, strict=True)] == [0, 0]
