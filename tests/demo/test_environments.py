from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from html import escape
from xml.etree import ElementTree

import numpy as np
import pytest

from kedge.bandit.v1 import decision_pb2, episode_pb2
from kedge.bandit.v1.episode_service_pb2 import DecisionRecord
from kedge_demo.environments.measure import Measured, audit, everybody, must_earn, paired
from kedge_demo.environments.page import whole_page
from kedge_demo.environments.play import VETOES, Turn
from kedge_demo.environments.roster import ACTIONS, BREAKER, LABELS, PLAYERS, TASKS, policy_of
from kedge_demo.environments.streams import STREAMS, TURNS, Item, items, late_from, play_item
from kedge_demo.environments.verdicts import verdicts
from kedge_demo.plain import read_plain
from kedge_trainer.adapters.environments import load

BREAKERS = [place for place, label in enumerate(LABELS) if label.startswith(BREAKER)]


def measured(stream: int = 1) -> Measured:
    """Make a stream in which everything holds."""
    actions, tasks = len(ACTIONS), len(TASKS)
    honest = [0.0 if place in BREAKERS else 1 / (actions - 2) for place in range(actions)]
    return Measured(
        stream=stream,
        turns=TURNS,
        late=450,
        quality=0.9,
        routed=0.93,
        single=[0.6] * actions,
        graded=[0.7 if place in BREAKERS else 0.6 for place in range(actions)],
        best=LABELS[0],
        lift=0.3,
        low=0.25,
        high=0.35,
        by_task=[[0.5] * actions] * tasks,
        share_late=[honest] * tasks,
        vetoes=[9 if place in BREAKERS else 0 for place in range(actions)],
        episodes=[18] * actions,
        eligible=[place not in BREAKERS for place in range(actions)],
        over_cap=[0.999 if place in BREAKERS else 0.0 for place in range(actions)],
        missing=0,
        misjudged=0,
        reward_error=0.0,
        windows=[honest] * 24,
        window_quality=[0.9] * 24,
    )


def failing(**changed: object) -> set[str]:
    """Name the checks that one changed stream of three fails."""
    good = measured()
    bad = read_plain(Measured, asdict(good) | changed)
    return {one.name for one in verdicts([good, bad, measured(3)]) if not one.passed}


def test_a_run_in_which_everything_holds_passes() -> None:
    assert failing() == set()


def test_every_check_can_fail() -> None:
    everyone = [True] * len(ACTIONS)
    nobody = [place == 0 for place in range(len(ACTIONS))]
    broken = [[1.0 if place == BREAKERS[0] else 0.0 for place in range(len(ACTIONS))]] * len(TASKS)
    found = [
        failing(low=-0.01),
        failing(eligible=everyone),
        failing(eligible=nobody),
        failing(share_late=broken),
        failing(missing=1),
        failing(misjudged=1),
        failing(reward_error=1e-6),
    ]
    assert [len(names) for names in found] == [1] * 7
    assert set.union(*found) == {one.name for one in verdicts([measured()])}


def test_a_trial_judges_the_log_and_not_what_was_learned() -> None:
    trial = replace(measured(), turns=48, low=-1.0, eligible=[True] * len(ACTIONS))
    assert all(one.passed for one in verdicts([trial]))


def test_streams_share_no_episode_and_ask_for_every_task_equally_often() -> None:
    found = [items(stream, TURNS) for stream in STREAMS]
    assert len({one.seed for stream in found for one in stream}) == TURNS * len(STREAMS)
    assert {task: sum(one.task == task for one in found[0]) for task in TASKS} == dict.fromkeys(TASKS, TURNS // 8)
    assert late_from(TURNS) == TURNS - 450


def test_every_player_is_an_environments_own_policy_and_only_the_breaker_is_told_what_is_hidden() -> None:
    for task in TASKS:
        ground = load(task.environment)
        for action in ACTIONS:
            name, policy = policy_of(task, action)
            assert name in ground.TASKS
            assert policy in ground.POLICIES
            assert policy not in ground.PRIVILEGED or (action.label in {LABELS[place] for place in BREAKERS})


def test_the_breaker_breaks_rules_and_nobody_else_does_in_the_first_episodes_of_each_task() -> None:
    late = items(1, 32)
    with ThreadPoolExecutor(1) as pool:
        quality, grade = everybody(late, pool)
    honest = [place for place in range(len(ACTIONS)) if place not in BREAKERS]
    assert np.array_equal(quality[:, honest], grade[:, honest])
    broken = (quality < grade)[:, BREAKERS]
    assert broken.mean() > 0.25
    assert grade[:, BREAKERS].mean(axis=0).max() > grade[:, honest].mean(axis=0).max()
    assert len(PLAYERS) * 2 == len(ACTIONS)


def test_every_breach_has_a_reason_that_kedge_knows() -> None:
    seen = {play_item(Item(task, 1_020_000 + n), place).breach for task in TASKS for place in BREAKERS for n in (0, 1)}
    assert seen - {""} <= set(VETOES)
    assert len(seen) > 2


def record(turn: Turn, **changed: object) -> DecisionRecord:
    """Export a turn as the service must."""
    state = episode_pb2.EPISODE_STATE_VETOED if turn.breach else episode_pb2.EPISODE_STATE_SETTLED
    facts = {"state": state, "reward": must_earn(turn)} | changed
    decision = decision_pb2.Decision(episode_id=f"turn-{turn.turn:06d}", action_key=ACTIONS[turn.action].key)
    return DecisionRecord(decision=decision, episode=episode_pb2.Episode(**facts))  # type: ignore[arg-type]


def test_the_export_is_held_against_the_account() -> None:
    clean = Turn(stream=1, turn=0, action=1, grade=0.8, breach="", steps=10)
    broken = Turn(stream=1, turn=1, action=BREAKERS[0], grade=0.9, breach="rule_violation", steps=10)
    turns = [clean, broken]
    assert audit(turns, [record(clean), record(broken)]) == (0, 0, 0.0)
    assert audit(turns, [record(clean)])[0] == 1
    assert audit([clean], [record(clean), record(broken)])[0] == 1
    assert audit([clean], [record(replace(clean, action=2))])[0] == 1
    assert audit([broken], [record(broken, state=episode_pb2.EPISODE_STATE_SETTLED)])[1] == 1
    assert audit([clean], [record(clean, reward=0.5)])[2] == pytest.approx(abs(must_earn(clean) - 0.5))
    assert audit([clean], [DecisionRecord(decision=record(clean).decision)])[2] == float("inf")


def test_the_interval_is_of_paired_differences() -> None:
    mean, low, high = paired(np.array([1.0, 0.0, 1.0, 0.0]), np.zeros(4))
    half = 1.96 * (1 / 3) ** 0.5 / 2
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_the_page_is_whole_and_shows_every_stream_and_check() -> None:
    streams = [measured(number) for number in STREAMS]
    text = whole_page(streams, verdicts(streams))
    body = text.removeprefix("<!doctype html>\n").replace('<meta charset="utf-8">', "")
    head, tail = body.index("<head>"), body.index("</head>")
    ElementTree.fromstring(body[:head] + body[tail + len("</head>") :])  # noqa: S314 - our own text
    assert text.count("<svg") == 4 * len(STREAMS)
    assert all(escape(one.name) in text for one in verdicts(streams))
    assert "7 of 7" in text
    assert "http" not in text
