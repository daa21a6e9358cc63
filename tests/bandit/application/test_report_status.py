"""A status says when the worker does not keep up."""

from datetime import timedelta
from typing import Any

import pytest

from kedge_bandit.application.administration_ports import LearnedState
from kedge_bandit.application.report_status import BEHIND_AFTER, effective_per_cell, look_at
from tests.bandit.application.scene import SUPPORT, Scene
from tests.bandit.application.test_watch import POLICY

NOTHING: dict[str, Any] = {
    "allocation_version": 1,
    "publish_time": None,
    "actions": (),
    "cells": (),
    "self_check": None,
    "closed": None,
    "usage": None,
    "capped_until": None,
    "learning_held": "",
    "episode_counts": {},
    "decisions_per_second": 0.0,
    "buckets": 0,
}


@pytest.mark.parametrize(
    ("rows", "age", "said"),
    [
        (0, timedelta(), []),
        (7, BEHIND_AFTER, []),
        (7, timedelta(seconds=90), ["7 rows wait for the worker, the oldest for 90 s: see whether it runs"]),
    ],
)
def test_rows_that_nobody_takes_are_said_to_wait(rows: int, age: timedelta, said: list[str]) -> None:
    learned = LearnedState(**NOTHING, backlog=rows, backlog_age=age)
    assert list(look_at(POLICY, learned)) == said


async def test_effective_episodes_are_not_told_from_the_traffic_of_less_than_an_hour(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"), *scene.turn("e2"))

    async def effective() -> float | None:
        async with scene.ledgers.open(scene.tenant) as ledger:
            return effective_per_cell(POLICY, await ledger.policies.learned(SUPPORT, with_cells=False))

    assert await effective() is None
    scene.sql("UPDATE decision SET decision_time = decision_time - interval '2 hours' WHERE episode_id = 'e1'")
    found = await effective()
    assert found is not None
    assert found < 2 / 7200 * POLICY.spec.half_life.total_seconds() / 0.69
