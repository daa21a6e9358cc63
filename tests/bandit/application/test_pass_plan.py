"""What a pass reads is found by index, however many rows there are and whether or not anybody has analysed them."""

from collections.abc import Iterator
from typing import Any

import psycopg

from kedge_bandit.adapters.postgres.learning_pass import READ
from kedge_bandit.adapters.postgres.ledger import schema_of
from tests.bandit.application.scene import Scene

EPISODES = 1_000
GROWING = ("decision", "decision_key", "episode", "episode_event", "evidence", "outcome")


def scanned(plan: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Name the tables that a plan reads from end to end, with the rows it found there."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"], plan["Actual Rows"]
    for part in plan.get("Plans", ()):
        yield from scanned(part)


async def explained(scene: Scene) -> dict[str, Any]:
    """Run what a pass reads, and give the plan it was read by."""
    async with await psycopg.AsyncConnection.connect(scene.url) as connection:
        sql = READ.written(schema_of(scene.tenant), {"limit": 2_001}, connection)
        cursor = await connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql)
        row = await cursor.fetchone()
        assert row is not None
        return dict(row[0][0]["Plan"])


async def test_a_pass_scans_no_table_that_grows(scene: Scene) -> None:
    scene.sql("ALTER TABLE decision_key SET (autovacuum_enabled = off)")
    await scene.play(*(row for number in range(EPISODES) for row in scene.turn(f"e{number}")))
    scene.write(*scene.turn("new"), scene.outcome("e7", 0.0))

    plan = await explained(scene)

    assert [found for found in scanned(plan) if found[0].startswith(GROWING) and found[1]] == []
    await scene.learn()
    assert (await scene.rebuilt()).agrees
