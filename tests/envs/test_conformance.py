"""What every registered environment must be. A new one is a folder and a registry line; all of this applies itself."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import isfinite
from random import Random
from statistics import fmean
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.application.evaluate import play_out
from kedge_trainer.application.ports import Ground, Json
from tests.envs.replay import Trajectory, encoded, recorded, replayed
from tests.trust.size import of

EPISODES = of(30, 500)
SEED = 1_000_000
"""The first of the dev split: what is checked here is chosen by, never reported."""

WITHOUT_BATCH = {"brief_routing_env", "call_audit_env", "relocation_env"}
TELLING = ("reward", "grade", "score", "return", "veto")
BOTH = [(name, task) for name in GROUNDS for task in load(name).TASKS]
every_ground = pytest.mark.parametrize("name", GROUNDS)
every_task = pytest.mark.parametrize(("name", "task"), BOTH)


def seeds_for(ground: Ground, task: str, count: int) -> range:
    """Take dev seeds, but for a task that only testing may play."""
    first = ground.SPLITS["test"][0] if task in ground.TEST_ONLY else SEED
    return range(first, first + count)


def mean_grade(ground: Ground, task: str, policy: str, episodes: int) -> float:
    seeds = seeds_for(ground, task, episodes)
    return fmean(play_out(ground.start(task, seed), ground.policy(policy, task, seed))["grade"] for seed in seeds)


def own_policies(ground: Ground) -> list[str]:
    return [name for name in ground.POLICIES if name not in ground.PRIVILEGED]


@every_task
def test_the_same_seed_and_actions_give_the_same_episode_byte_for_byte(name: str, task: str) -> None:
    ground = load(name)
    for seed in seeds_for(ground, task, 5):
        first = recorded(ground, task, seed, "random")
        assert encoded(recorded(ground, task, seed, "random")) == encoded(first)
        assert encoded(replayed(ground, first)) == encoded(first)


@every_ground
def test_another_seed_gives_another_episode(name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    openings = {json.dumps(ground.start(task, seed).observe()) for seed in seeds_for(ground, task, 40)}
    assert len(openings) >= 20


@every_ground
def test_a_trajectory_replays_from_what_was_recorded_in_another_process(name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    trajectories = [recorded(ground, task, seed, "random") for seed in seeds_for(ground, task, 20)]
    wanted = [hashlib.sha256(encoded(one)).hexdigest() for one in trajectories]
    asked = json.dumps({"name": name, "trajectories": [one._asdict() for one in trajectories]})
    done = subprocess.run(
        [sys.executable, "-m", "tests.envs.replay"], input=asked, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == wanted


@every_task
def test_the_oracle_reaches_the_documented_maximum(name: str, task: str) -> None:
    ground = load(name)
    assert round(mean_grade(ground, task, ground.ORACLE, EPISODES), 6) >= ground.MAXIMUM[task]


@every_ground
def test_random_play_stays_well_below_the_oracle(name: str) -> None:
    ground = load(name)
    floor = mean_grade(ground, ground.FLOOR_TASK, "random", 2 * EPISODES)
    assert ground.MAXIMUM[ground.FLOOR_TASK] - floor >= ground.FLOOR_GAP


@pytest.mark.parametrize(("name", "canary"), [(name, canary) for name in GROUNDS for canary in load(name).CANARIES])
def test_a_degenerate_policy_stays_under_its_ceiling(name: str, canary: str) -> None:
    ground = load(name)
    assert mean_grade(ground, ground.FLOOR_TASK, canary, EPISODES) <= ground.CANARIES[canary]


@every_ground
def test_there_are_canaries_that_do_nothing_and_that_repeat(name: str) -> None:
    assert {"empty", "repeat"} <= set(load(name).CANARIES) <= set(load(name).POLICIES)


@every_task
def test_hidden_state_changes_nothing_that_is_shown(name: str, task: str) -> None:
    ground = load(name)
    changed = set()
    for seed in seeds_for(ground, task, of(5, 50)):
        actions = recorded(ground, task, seed, "random").actions
        for twin in ground.twins(task, seed):
            changed.add(twin.changed)
            plain = ground.start(task, seed)
            for number, action in enumerate([None, *actions][: twin.steps + 1]):
                if action is not None:
                    ends = [one.step(action) for one in (plain, twin.episode)]
                    assert [end.terminated for end in ends] == [ends[0].terminated] * 2
                seen, other = plain.observe(), twin.episode.observe()
                assert json.dumps(seen) == json.dumps(other), f"{twin.changed} shows after {number} steps"
                assert ground.render(seen) == ground.render(other)
                assert np.array_equal(ground.features(seen), ground.features(other))
    assert changed


@every_ground
def test_interleaved_episodes_do_not_know_each_other(name: str) -> None:
    """64 episodes at once, on 8 threads, step by step in turn: each is what it is alone."""
    ground = load(name)
    task = next(iter(ground.TASKS))
    alone = [recorded(ground, task, seed, "random") for seed in seeds_for(ground, task, 64)]
    episodes = [ground.start(task, one.seed) for one in alone]
    shown: list[list[Json]] = [[dict(episode.observe())] for episode in episodes]

    def advance(position: int) -> None:
        taken = len(shown[position]) - 1
        if taken < len(alone[position].actions):
            episodes[position].step(alone[position].actions[taken])
            shown[position].append(dict(episodes[position].observe()))

    with ThreadPoolExecutor(8) as pool:
        for _ in range(max(len(one.actions) for one in alone)):
            list(pool.map(advance, range(64)))
    assert [json.dumps(one) for one in shown] == [json.dumps(one.observations) for one in alone]


@every_task
def test_the_grade_comes_with_the_end_and_lies_strictly_inside(name: str, task: str) -> None:
    ground = load(name)
    for seed in seeds_for(ground, task, of(2, 50)):
        for policy in own_policies(ground):
            episode, player = ground.start(task, seed), ground.policy(policy, task, seed)
            turns = [episode.step(player(episode.observe()))]
            while not (turns[-1].terminated or turns[-1].truncated):
                turns.append(episode.step(player(episode.observe())))
            assert [turn.grade for turn in turns[:-1]] == [None] * (len(turns) - 1)
            assert not (turns[-1].terminated and turns[-1].truncated)
            final = turns[-1].grade
            assert final is not None
            assert 0 < final < 1
            assert final == episode.metrics()["grade"]
            assert sum(turn.reward for turn in turns) == pytest.approx(episode.metrics()["return"])
            assert episode.metrics()["steps"] == len(turns)
            after = episode.step({})
            assert (after.grade, after.reward, after.terminated) == (final, 0.0, turns[-1].terminated)


@every_task
def test_the_reward_is_neither_in_an_observation_nor_in_its_text(name: str, task: str) -> None:
    ground = load(name)
    for seed in seeds_for(ground, task, 3):
        episode, player = ground.start(task, seed), ground.policy("random", task, seed)
        over = False
        while not over:
            turn = episode.step(player(episode.observe()))
            over = turn.terminated or turn.truncated
            seen = episode.observe()
            text = ground.render(seen)
            assert [key for key in keys_of(seen) if key.casefold() in TELLING] == []
            assert not re.search(rf"(?<!\w)({'|'.join(TELLING)})\W{{0,3}}\d", text, re.IGNORECASE)
            if turn.reward not in {0.0, 1.0, -1.0}:
                assert f"{turn.reward:.4f}" not in text


def keys_of(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [str(key) for key in value] + [found for inner in value.values() for found in keys_of(inner)]
    if isinstance(value, list):
        return [found for inner in value for found in keys_of(inner)]
    return []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@every_ground
@settings(max_examples=of(60, 1_000))
@given(data=st.data())
def test_no_json_object_whatever_breaks_an_episode(name: str, data: st.DataObject) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    known = sorted(cast("Mapping[str, object]", ground.ACTION_SCHEMA["properties"]))
    actions = st.dictionaries(st.sampled_from(known) | st.text(max_size=8), json_values, max_size=4)
    episode = ground.start(task, SEED)
    for action in data.draw(st.lists(actions, min_size=1, max_size=6)):
        before = json.dumps(episode.observe())
        turn = episode.step(action)
        assert turn.terminated or turn.truncated or json.dumps(episode.observe()) != before
        json.dumps(episode.observe()).encode()
        ground.render(episode.observe()).encode()


@every_ground
def test_an_observation_says_why_the_last_action_did_nothing(name: str) -> None:
    ground = load(name)
    task = next(iter(ground.TASKS))
    episode = ground.start(task, SEED)
    policy = ground.policy(ground.ORACLE, task, SEED)
    assert not episode.observe()[ground.REFUSAL]
    episode.step({"action_type": "no such action"})
    assert episode.observe()[ground.REFUSAL]
    episode.step(policy(episode.observe()))
    assert not episode.observe()[ground.REFUSAL]


@every_ground
@settings(max_examples=of(60, 1_000))
@given(text=st.text() | st.sampled_from(["", "{", "[" * 5000, '{"a":' * 3000, "null", "{}", '{"action_type": 3}']))
def test_any_answer_of_a_model_is_an_action_or_becomes_a_refused_one(name: str, text: str) -> None:
    ground = load(name)
    action = ground.parse(text)
    assert json.loads(json.dumps(action)) == action
    episode = ground.start(next(iter(ground.TASKS)), SEED)
    assert isfinite(episode.step(action).reward)
    assert action["action_type"] in action_types(ground) or episode.observe()[ground.REFUSAL]


def action_types(ground: Ground) -> list[str]:
    properties = cast("Mapping[str, Mapping[str, list[str]]]", ground.ACTION_SCHEMA["properties"])
    return properties["action_type"]["enum"]


@every_task
def test_what_a_model_is_shown_can_be_answered_and_read_back(name: str, task: str) -> None:
    ground = load(name)
    assert "{" in ground.instructions(task)
    for action in recorded(ground, task, seeds_for(ground, task, 1)[0], own_policies(ground)[0]).actions:
        read = ground.parse(f"Thinking.\n{json.dumps(action)}\nDone.")
        assert read == ground.parse(json.dumps(read))


@every_task
def test_features_and_masks_keep_their_shape_and_a_marked_action_can_be_spelled(name: str, task: str) -> None:
    ground = load(name)
    drawn = Random(7)
    shapes = set()
    for observation in recorded(ground, task, seeds_for(ground, task, 1)[0], "random").observations:
        found, mask = ground.features(observation), ground.mask(observation)
        assert (found.dtype.name, mask.dtype.name) == ("float32", "bool")
        assert np.isfinite(found).all()
        shapes.add((found.shape, mask.shape))
        if mask.any():
            action = ground.numbered(int(drawn.choice(np.flatnonzero(mask).tolist())), observation)
            assert set(action) <= set(cast("Mapping[str, object]", ground.ACTION_SCHEMA["properties"]))
    assert len(shapes) == 1


@every_ground
def test_every_policy_plays_every_task_to_its_end(name: str) -> None:
    ground = load(name)
    for task in ground.TASKS:
        for policy in ground.POLICIES:
            [seed] = seeds_for(ground, task, 1)
            metrics = play_out(ground.start(task, seed), ground.policy(policy, task, seed))
            assert set(ground.METRICS) <= set(metrics)


@every_ground
def test_scalar_and_batch_are_one_where_a_batch_exists(name: str) -> None:
    ground = load(name)
    replay_batch = getattr(ground, "replay_batch", None)
    if replay_batch is None:
        assert name in WITHOUT_BATCH, "declare here that it has no batch"
        return
    for task in ground.TASKS:
        alone = [recorded(ground, task, seed, "random") for seed in seeds_for(ground, task, 12)]
        together = replay_batch(task, [one.seed for one in alone], [one.actions for one in alone])
        for one, (observations, rewards) in zip(alone, together, strict=True):
            assert json.dumps(observations) == json.dumps(one.observations)
            assert rewards == pytest.approx(one.rewards, abs=1e-12)


@every_ground
def test_seeds_of_splits_do_not_overlap(name: str) -> None:
    ranges = sorted(load(name).SPLITS.values(), key=lambda one: one.start)
    assert all(one.stop <= other.start for one, other in pairwise(ranges))


def test_a_recorded_trajectory_survives_json() -> None:
    name = next(iter(GROUNDS))
    found = recorded(load(name), next(iter(load(name).TASKS)), SEED, "random")
    assert encoded(Trajectory(**json.loads(json.dumps(found._asdict())))) == encoded(found)
