"""Measure every registered environment: steps and resets in process, memory of an episode, episodes over the wire."""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.adapters.openenv_client import session
from kedge_trainer.application.evaluate import play_out
from kedge_trainer.application.ports import Ground
from tests.bench.figures import SHOWN, Bar, Control, Report, Row, Setting
from tests.envs.replay import Trajectory, recorded
from tests.fixtures.openenv import running_host

SEED = 1_000_000
EPISODES = 100
SERVED = 20
ROUNDS = 5
RESET_BAR, EPISODE_BAR, MEMORY_BAR = Bar(at_most=1.0), Bar(at_most=5.0), Bar(at_most=5.0)


def environments(setting: Setting) -> Report:
    """Time random episodes of the default task, in turns with a loop of plain Python."""
    grounds = {name: load(name) for name in GROUNDS}
    played = {name: _record(ground) for name, ground in grounds.items()}
    control: list[float] = []
    figures: dict[tuple[str, str], list[float]] = {}

    def note(name: str, what: str, value: float) -> None:
        figures.setdefault((name, what), []).append(value)

    with running_host() as host:
        for number in range(ROUNDS):
            setting.say(f"round {number + 1} of {ROUNDS}")
            control.append(_seconds(_plain_loop))
            for name, ground in grounds.items():
                resets = _seconds(partial(_reset, ground))
                seconds = _seconds(partial(_replay, ground, played[name]))
                served = _seconds(partial(_play_served, ground, host.urls[name]))
                note(name, "ms a reset", resets / EPISODES * 1e3)
                note(name, "steps a second", sum(len(one.actions) for one in played[name]) / seconds)
                note(name, "ms an episode", seconds / EPISODES * 1e3)
                note(name, "episodes a second, served", SERVED / served)
    rows = [Row.of_rounds(f"{name}: {what}", rounds, _bar(what)) for (name, what), rounds in figures.items()]
    rows += [
        Row(name=f"{name}: MB an episode at its peak", value=_megabytes(ground), bar=MEMORY_BAR)
        for name, ground in grounds.items()
    ]
    notes = [
        f"{EPISODES} random episodes of the default task, each action's observation built; served: one session,"
        f" {SERVED} episodes by WebSocket on this machine, client and server in a process each",
        "an environment's batch is timed by the bench of that environment",
    ]
    return Report(rows=rows, controls=[Control("plain loop", control)], notes=notes, seeds=[SEED])


def _bar(what: str) -> Bar:
    return {"ms a reset": RESET_BAR, "ms an episode": EPISODE_BAR}.get(what, SHOWN)


def _record(ground: Ground) -> list[Trajectory]:
    task = next(iter(ground.TASKS))
    return [recorded(ground, task, seed, "random") for seed in range(SEED, SEED + EPISODES)]


def _reset(ground: Ground) -> None:
    task = next(iter(ground.TASKS))
    for seed in range(SEED, SEED + EPISODES):
        ground.start(task, seed).observe()


def _replay(ground: Ground, trajectories: list[Trajectory]) -> None:
    for one in trajectories:
        episode = ground.start(one.task, one.seed)
        episode.observe()
        for action in one.actions:
            episode.step(action)
            episode.observe()


def _play_served(ground: Ground, url: str) -> None:
    task = next(iter(ground.TASKS))
    with session(url) as remote:
        for seed in range(SEED, SEED + SERVED):
            play_out(remote.start(task, seed), ground.policy("random", task, seed))


def _plain_loop() -> None:
    table: dict[str, int] = {}
    for number in range(200_000):
        table[str(number % 1_000)] = number


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _megabytes(ground: Ground) -> float:
    """Play one episode after a warm one and take the highest that Python allocated for it."""
    task = next(iter(ground.TASKS))
    recorded(ground, task, SEED, "random")
    tracemalloc.start()
    recorded(ground, task, SEED + 1, "random")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6
