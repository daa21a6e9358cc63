"""What every registered environment must be. A new one is a folder and a registry line; all of this applies itself."""

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.application.evaluate import play_out
from kedge_trainer.application.ports import Ground, Json
from tests.envs.grounds import SEED, every_ground, every_task, own_policies, seeds_for
from tests.envs.replay import Trajectory, encoded, recorded, replayed
from tests.trust.size import of

EPISODES = of(30, 500)
WITHOUT_BATCH = {"brief_routing_env", "call_audit_env", "relocation_env"}


def mean_grade(ground: Ground, task: str, policy: str, episodes: int) -> float:
    seeds = seeds_for(ground, task, episodes)
    return fmean(play_out(ground.start(task, seed), ground.policy(policy, task, seed))["grade"] for seed in seeds)


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
