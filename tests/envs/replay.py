"""Record trajectories and replay them; `python -m tests.envs.replay` does so in a process of its own."""

import hashlib
import json
import sys
from typing import NamedTuple

from kedge_trainer.adapters.environments import load
from kedge_trainer.application.ports import Ground, Json


class Trajectory(NamedTuple):
    """An episode by what was played and what came of it; JSON values throughout."""

    task: str
    seed: int
    actions: list[Json]
    observations: list[Json]
    rewards: list[float]
    grade: float | None


def recorded(ground: Ground, task: str, seed: int, policy: str) -> Trajectory:
    """Let a policy play an episode."""
    episode, player = ground.start(task, seed), ground.policy(policy, task, seed)
    found = Trajectory(task, seed, [], [dict(episode.observe())], [], None)
    while True:
        action = player(found.observations[-1])
        turn = episode.step(action)
        found.actions.append(dict(action))
        found.observations.append(dict(episode.observe()))
        found.rewards.append(turn.reward)
        if turn.terminated or turn.truncated:
            return found._replace(grade=turn.grade)


def replayed(ground: Ground, given: Trajectory) -> Trajectory:
    """Play a trajectory's actions again."""
    episode = ground.start(given.task, given.seed)
    found = Trajectory(given.task, given.seed, given.actions, [dict(episode.observe())], [], None)
    grade = None
    for action in given.actions:
        turn = episode.step(action)
        found.observations.append(dict(episode.observe()))
        found.rewards.append(turn.reward)
        grade = turn.grade
    return found._replace(grade=grade)


def encoded(trajectory: Trajectory) -> bytes:
    """Give a trajectory as bytes."""
    return json.dumps(trajectory).encode()


def main() -> None:
    """Read trajectories from standard input, replay them, and print the hash of each."""
    asked = json.load(sys.stdin)
    ground = load(asked["name"])
    found = [encoded(replayed(ground, Trajectory(**one))) for one in asked["trajectories"]]
    json.dump([hashlib.sha256(one).hexdigest() for one in found], sys.stdout)


if __name__ == "__main__":
    main()
