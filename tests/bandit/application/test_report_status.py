"""A status says when the worker does not keep up."""

from datetime import timedelta
from typing import Any

import pytest

from kedge_bandit.application.administration_ports import LearnedState
from kedge_bandit.application.report_status import BEHIND_AFTER, look_at
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
