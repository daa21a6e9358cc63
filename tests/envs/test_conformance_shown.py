"""What every registered environment shows to a player, and takes from one."""

import json
import re
from collections.abc import Mapping
from math import isfinite
from random import Random
from typing import cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_trainer.adapters.environments import load
from kedge_trainer.application.ports import Ground
from tests.envs.grounds import SEED, every_ground, every_task, own_policies, seeds_for
from tests.envs.replay import recorded
from tests.trust.size import of

TELLING = ("reward", "grade", "score", "return", "veto")


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
