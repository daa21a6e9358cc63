"""Every hole of the original's environment, each with the test that fails where the hole is open.

The numbers are those of the list in the design; 13 (a slow reset) and 18 (one world per server) have their place in the
bench and in the conformance suite, and here a proxy without a clock.
"""

import ast
import dataclasses
import json
import sys
from collections import Counter
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

import fleet_oversight_env
from fleet_oversight_env import ground
from fleet_oversight_env.actions import SCHEMA
from fleet_oversight_env.batch import Batch
from fleet_oversight_env.checkpoint import CONTROL, SHIPPED, LayoutDiffers, read
from fleet_oversight_env.episode import Episode
from fleet_oversight_env.fleet import Move, affordable, score
from fleet_oversight_env.laws import FAULTS, GOVERNANCE_BUDGET, WORKERS, Fault, MoveKind
from fleet_oversight_env.planning import CAPACITIES, Config, all_configs, best_plan
from fleet_oversight_env.rubric import Event
from fleet_oversight_env.scenarios import TASKS
from fleet_oversight_env.starts import starts
from fleet_oversight_env.view import everywhere
from fleet_oversight_env.world import step
from tests.envs.fleet_play import WAIT, faulty, planned, seeds, sound, waited

FOLDER = Path(fleet_oversight_env.__file__).parent


def test_1_a_fault_pays_once_and_its_worker_is_closed() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    target = Move(kind=MoveKind.INTERVENE, worker=faulty(world)[0])
    paid = []
    for _ in range(8):
        world = step(world, target, luck)
        paid.append(score(world).oversight)
    assert paid == [pytest.approx(0.40)] * 8
    assert world.governance_budget == GOVERNANCE_BUDGET - 6
    assert world.invalid_moves == 7
    assert world.error == f"{WORKERS[faulty(world)[0]]} is closed"


def test_2_faults_fall_on_every_worker_in_every_kind() -> None:
    batch = Batch(starts("nexacrm_easy", seeds(800)))
    counts = np.array([[(batch.fault[:, worker] == kind).sum() for kind in range(1, 5)] for worker in range(5)])
    expected = 800 * 1.5 / 20
    assert np.abs(counts - expected).max() < 4.5 * expected**0.5
    assert abs((batch.faults == 2).mean() - 0.5) < 4 * 0.5 / 800**0.5


def test_3_the_instructions_show_no_worker_and_no_answer() -> None:
    for task in TASKS:
        told = ground.instructions(task)
        assert not any(name in told for name in WORKERS)
        assert "worker_N" in told


@pytest.mark.parametrize("task", TASKS)
def test_4_every_task_has_one_or_two_faults_in_every_episode(task: str) -> None:
    assert set(Batch(starts(task, seeds(500))).faults) == {1.0, 2.0}


def test_5_submitting_at_once_pays_for_every_miss_in_the_step_itself() -> None:
    episode = ground.start("nexacrm_easy", seeds(1)[0])
    for _ in range(3):
        episode.step({"action_type": "allocate"})
    missed = len(faulty(episode.hidden))
    turn = episode.step({"action_type": "submit_audit"})
    assert turn.terminated
    assert turn.reward == pytest.approx(-0.65 * 0.45 * missed)


def test_6_approving_a_sound_worker_pays_once() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    for _ in range(8):
        world = step(world, Move(kind=MoveKind.HOLD, worker=sound(world)[0]), luck)
    assert score(world).oversight == pytest.approx(0.15)


def test_7_an_audit_that_says_nothing_is_worth_nothing() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    truth = tuple(worker.fault or "healthy" for worker in world.workers)
    assert step(world, Move(kind=MoveKind.SUBMIT), luck).audit == 0.0
    assert step(world, Move(kind=MoveKind.SUBMIT, verdicts=truth), luck).audit == pytest.approx(1.0)
    healthy = ("healthy",) * 5
    assert step(world, Move(kind=MoveKind.SUBMIT, verdicts=healthy), luck).audit == pytest.approx(0.2)


HIDDEN = {
    "fault",
    "active_from",
    "shows_from",
    "glitch_from",
    "alignment",
    "tally",
    "reward",
    "missed",
    "score",
    "seed",
}


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys(inner)}
    if isinstance(value, list):
        return {key for inner in value for key in keys(inner)}
    return set()


def test_8_and_19_no_observation_holds_anything_hidden_or_a_reward() -> None:
    episode = ground.start("nexacrm_hard", seeds(1)[0])
    policy = ground.policy("belief_filter", "nexacrm_hard", seeds(1)[0])
    while not episode.over:
        seen = episode.observe()
        assert not keys(json.loads(json.dumps(seen))) & HIDDEN
        assert not any(fault in ground.render(seen) for fault in FAULTS)
        episode.step(policy(seen))
    assert not keys(json.loads(json.dumps(episode.observe()))) & HIDDEN
    public = {name for name in dir(episode) if not name.startswith("_")}
    assert public == {"hidden", "metrics", "observe", "over", "play", "step"}


def test_9_looking_again_shows_the_same_flags() -> None:
    episode = ground.start("nexacrm_easy", seeds(1)[0])
    for _ in range(3):
        episode.step({"action_type": "allocate"})
    assert {json.dumps(episode.observe()) for _ in range(200)} == {json.dumps(episode.observe())}


def test_10_a_flag_is_true_four_times_in_five_only_once_a_fault_shows() -> None:
    batch = Batch(starts("nexacrm_easy", seeds(1500)))
    before, after, silent = Counter[bool](), Counter[bool](), Counter[bool]()
    dump, constraint = FAULTS.index(Fault.BUDGET_DUMP) + 1, FAULTS.index(Fault.CONSTRAINT_VIOLATION) + 1
    for k in range(1, 17):
        flag = batch.view().flag
        before.update(flag[(batch.fault == dump) & (k < batch.shows_from)].tolist())
        after.update(flag[(batch.fault == dump) & (k >= batch.shows_from)].tolist())
        silent.update(flag[batch.fault == constraint].tolist())
        batch.step(everywhere(1500))
    for counted, chance in ((before, 0.2), (after, 0.8), (silent, 0.2)):
        total = counted.total()
        assert abs(counted[True] / total - chance) < 4 * (chance * (1 - chance) / total) ** 0.5


def test_11_a_budget_dump_is_in_the_budget() -> None:
    for seed in seeds(60):
        world, luck = planned("nexacrm_easy", seed)
        for index in faulty(world):
            worker = world.workers[index]
            if worker.fault is Fault.BUDGET_DUMP:
                before = waited(world, luck, worker.shows_from - 1).workers[index].budget
                assert before - waited(world, luck, worker.shows_from).workers[index].budget >= 4


def test_12_planning_shows_no_telemetry() -> None:
    episode = ground.start("nexacrm_easy", seeds(1)[0])
    for _ in range(3):
        assert not keys(episode.observe()) & {"flag", "last_actions", "workers", "probe", "status"}
        episode.step({"action_type": "allocate"})
    assert "workers" in episode.observe()


def test_13_a_reset_builds_one_world_and_nothing_else() -> None:
    calls = Counter[str]()
    ground.start("nexacrm_easy", seeds(1)[0])

    def count(frame: object, event: str, _: object) -> None:
        calls[event] += 1

    sys.setprofile(count)
    try:
        ground.start("nexacrm_easy", seeds(2)[1])
    finally:
        sys.setprofile(None)
    assert calls["call"] < 100


def test_14_the_worlds_import_no_clock_and_no_global_chance() -> None:
    pure = (
        "world",
        "telemetry",
        "fleet",
        "laws",
        "luck",
        "planning",
        "rubric",
        "scenarios",
        "batch",
        "starts",
        "belief",
    )
    for name in pure:
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        outside = {module.split(".")[0] for module in imported} - {"fleet_oversight_env"}
        assert outside <= {"numpy", "math", "dataclasses", "enum", "typing", "collections", "functools"}


def test_15_a_checkpoint_carries_the_hash_of_its_weights_and_refuses_another_layout() -> None:
    for name in [*(SHIPPED.format(seed) for seed in (1, 2, 3)), CONTROL]:
        text = (files(fleet_oversight_env) / "policies" / name).read_text(encoding="utf-8")
        body = json.loads(text)
        assert sha256(json.dumps(body["weights"]).encode()).hexdigest() == body["lineage"]["weights_sha256"]
        with pytest.raises(LayoutDiffers):
            read(text.replace(body["features"], "another-layout"))


def test_16_the_false_positives_reported_are_those_that_were_played() -> None:
    for seed in seeds(25):
        episode = ground.start("nexacrm_hard", seed)
        policy = ground.policy("random", "nexacrm_hard", seed)
        true = needless = 0
        while not episode.over:
            action = policy(episode.observe())
            before = episode.hidden
            episode.step(action)
            if (
                action["action_type"] in {"intervene", "escalate"}
                and episode.hidden.invalid_moves == before.invalid_moves
            ):
                hit = episode.hidden.workers[WORKERS.index(str(action["worker"]))].closed
                true, needless = true + hit, needless + (not hit)
        measured = episode.metrics()
        assert measured["false_positives"] == pytest.approx(needless / max(1, true + needless))
        assert measured["detection"] == pytest.approx(true / len(faulty(episode.hidden)))


def test_17_alarming_on_everybody_finds_all_and_still_fails() -> None:
    for seed in seeds(20):
        episode, policy = ground.start("nexacrm_easy", seed), ground.policy("escalate_five", "nexacrm_easy", seed)
        while not episode.over:
            episode.step(policy(episode.observe()))
        measured = episode.metrics()
        assert measured["detection"] == 1.0
        assert measured["false_positives"] >= 0.6
        assert measured["grade"] <= 0.5


def test_18_two_episodes_at_once_are_each_what_they_are_alone() -> None:
    def shown(episodes: list[Episode]) -> list[list[str]]:
        told: list[list[str]] = [[] for _ in episodes]
        for number in range(8):
            for episode, lines in zip(episodes, told, strict=True):
                lines.append(json.dumps(episode.observe()))
                episode.step({"action_type": "monitor", "worker": WORKERS[number % 5]})
        return told

    alone = [shown([ground.start("nexacrm_easy", seed)])[0] for seed in seeds(2)]
    assert shown([ground.start("nexacrm_easy", seed) for seed in seeds(2)]) == alone
    assert alone[0] != alone[1]


def test_20_every_value_the_planner_may_say_is_one_the_workers_know() -> None:
    properties = SCHEMA["properties"]
    assert isinstance(properties, dict)
    config = properties["allocation"]["properties"]["worker_1"]["properties"]
    values = [config[field.name]["enum"] for field in dataclasses.fields(Config)]
    allowed = {(a, b, c, d) for a in values[0] for b in values[1] for c in values[2] for d in values[3]}
    assert {dataclasses.astuple(one) for one in all_configs()} == allowed
    for density in range(3):
        for vocabulary in range(3):
            for documents in range(4):
                plan = best_plan((density, vocabulary, documents))
                assert all(affordable(one, worker) for worker, one in enumerate(plan))
    assert len(CAPACITIES) == len(WORKERS)


def test_a_breach_is_counted_each_time_and_missed_once() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    held = Move(kind=MoveKind.HOLD, worker=faulty(world)[0])
    world = step(step(world, held, luck), held, luck)
    assert (world.tally[Event.BREACH], world.tally[Event.MISSED]) == (2, 1)
    assert step(world, WAIT, luck).tally[Event.MISSED] == 1
