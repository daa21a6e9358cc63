"""Give each stream its episodes, and play one: whatever was decided, the environment grades it and says what broke."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kedge_demo.environments.roster import ACTIONS, BREAKER, DEEP, FLEET, TASKS, Task, policy_of
from kedge_trainer.adapters.environments import load
from kedge_trainer.application.ports import Json
from kedge_trainer.domain.splits import TrainingSplit, seed_of

STREAMS: Final = (1, 2, 3)
TURNS: Final = 1_800
LATE_SHARE: Final = 0.25
APART: Final = 20_000
"""Between the first seeds of two streams, so that no two streams share an episode."""
USD_PER_STEP: Final = 0.01


@dataclass(frozen=True, slots=True)
class Item:
    """One episode to come: its task, and the seed that keys everything in it."""

    task: Task
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What an episode came to: the verified grade in [0, 1], the first rule that was broken, and the steps it took."""

    grade: float
    breach: str
    steps: int

    @property
    def quality(self) -> float:
        """The grade; 0 where a rule was broken."""
        return 0.0 if self.breach else self.grade


def turns_at(scale: float) -> int:
    """Give a stream's length, a multiple of the tasks.

    >>> turns_at(1.0), turns_at(0.01)
    (1800, 48)
    """
    return max(48, round(TURNS * scale) // len(TASKS) * len(TASKS))


def late_from(turns: int) -> int:
    """Give the first turn of the last quarter."""
    return turns - round(turns * LATE_SHARE)


def items(stream: int, turns: int) -> list[Item]:
    """List a stream's episodes: every task once in each round, in an order of its own, each with a new dev seed.

    >>> [one.seed for one in items(1, 16)][:3], len({one.task for one in items(1, 16)[:8]})
    ([1020000, 1020001, 1020002], 8)
    """
    rng = np.random.default_rng(stream)
    order = np.concatenate([rng.permutation(len(TASKS)) for _ in range(-(-turns // len(TASKS)))])[:turns]
    first = stream * APART
    return [Item(TASKS[place], seed_of(TrainingSplit.DEV, first + turn)) for turn, place in enumerate(order.tolist())]


def play_item(item: Item, place: int) -> Played:
    """Play an episode with the action of this place. The same item and place give the same grade.

    >>> play_item(Item(TASKS[6], 1_020_000), 0) == play_item(Item(TASKS[6], 1_020_000), 0)
    True
    """
    ground = load(item.task.environment)
    task, policy = policy_of(item.task, ACTIONS[place])
    episode, player = ground.start(task, item.seed), ground.policy(policy, task, item.seed)
    breach, steps = "", 0
    while True:
        turn = episode.step(_spoken(item, place, player(episode.observe())))
        steps += 1
        breach = breach or turn.veto or ""
        if turn.terminated or turn.truncated:
            return Played(grade=float(turn.grade or 0.0), breach=breach, steps=steps)


def _spoken(item: Item, place: int, action: Json) -> Json:
    """Let everybody but the rusher approve no worker by name: to approve an active fault is a breach."""
    careful = item.task.environment == FLEET and ACTIONS[place].arms[0].name != BREAKER
    return {"action_type": "hold"} if careful and action.get("action_type") == "hold" else action


def cost_usd(place: int, steps: int) -> float:
    """Price an episode by its steps; deep costs twice as much, whatever it brings."""
    deep = ACTIONS[place].arms[1].name == DEEP
    return USD_PER_STEP * steps * (2 if deep else 1)
