"""Play a world against a numpy stand-in of the bandit, to see whether the demo's plan can reach its aims.

It draws from the belief instead of integrating (the law is the same), publishes every `every` decisions from evidence
that is `delay` decisions old, and follows the design on floor, slice, veto rule and exploration budget. It exists to
choose the number of turns, the release and the reference scales; it says nothing about the server.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincc

from kedge_demo.arms import Part
from kedge_demo.build_world import FIRST_FLOOR, FIRST_SLICE, JUDGE_RATE, LAST_FLOOR
from kedge_demo.datasets import Floats, Integers
from kedge_demo.play import LAST_SLICE
from kedge_demo.rewards import RewardTables, reward_tables
from kedge_demo.truth import Flags
from kedge_demo.world import World

BUDGET_SHARE = 0.05
STRENGTH = 6.0


@dataclass(kw_only=True)
class Belief:
    """Evidence by bucket and action, vetoes and budget by action."""

    n: Floats
    s: Floats
    episodes: Floats
    vetoes: Floats
    settled: Floats
    earned: Floats
    eligible: Flags
    excluded_after: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, shape: tuple[int, int]) -> "Belief":
        """Know nothing of so many buckets and actions."""
        return cls(
            n=np.zeros(shape),
            s=np.zeros(shape),
            episodes=np.zeros(shape[1]),
            vetoes=np.zeros(shape[1]),
            settled=np.zeros(shape[1]),
            earned=np.zeros(shape[1]),
            eligible=np.ones(shape[1], dtype=np.bool_),
        )

    def add(self, bucket: Integers, action: Integers, reward: Floats, weight: Floats, tripped: Flags) -> None:
        """Fold a batch of settled episodes."""
        np.add.at(self.n, (bucket, action), weight)
        np.add.at(self.s, (bucket, action), weight * np.nan_to_num(reward))
        np.add.at(self.episodes, action, 1.0)
        np.add.at(self.vetoes, action, tripped)
        np.add.at(self.settled, action, weight)
        np.add.at(self.earned, action, weight * np.nan_to_num(reward))

    def exclude(self, baseline: int) -> None:
        """Apply the veto rule of 03 §3."""
        a, b = 0.5 + self.vetoes, 24.5 + self.episodes - self.vetoes
        cap = max(0.02, 2.0 * float(a[baseline] / (a[baseline] + b[baseline])))
        over = betaincc(a, b, cap)
        for action in np.flatnonzero(self.eligible & (over > 0.99)).tolist():
            if action != baseline:
                self.eligible[action] = False
                self.excluded_after.setdefault(action, int(self.episodes[action]))
        self.eligible |= over < 0.9

    def is_spent(self, baseline: int, ahead: float) -> bool:
        """Apply the exploration budget of 03 §4; before the baseline has settled nothing is explored."""
        n = self.settled
        if n[baseline] == 0:
            return True
        mean = self.earned / np.maximum(n, 1.0)
        k = len(n)
        radius = np.sqrt(np.log(2 * k * np.log2(2 * n + 2) / 0.05) / (2 * np.maximum(n, 1e-9)))
        others = np.arange(k) != baseline
        sure = (n * np.maximum(0.0, mean - radius))[others].sum() + n[baseline] * mean[baseline]
        return bool(sure < (1.0 - BUDGET_SHARE) * mean[baseline] * (n.sum() + ahead))

    def draw(self, bucket: Integers, random: np.random.Generator) -> Integers:
        """Draw the best action of each turn's bucket from the `beta` learner's belief."""
        n_others, s_others = self.n.sum(axis=0) - self.n, self.s.sum(axis=0) - self.s
        prior, strength = (1.0 + s_others) / (2.0 + n_others), np.minimum(STRENGTH, 2.0 + n_others)
        a = np.maximum(0.5, strength * prior + self.s)
        b = np.maximum(0.5, strength * (1.0 - prior) + self.n - self.s)
        theta = np.where(self.eligible, random.beta(a[bucket], b[bucket]), -1.0)
        best: Integers = theta.argmax(axis=1).astype(np.int64)
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulated run served, and what it knew at the end."""

    actions: Integers
    excluded_after: dict[int, int]
    budget_share: float

    def late_share(self, world: World, part: Part) -> float:
        """Share of the last third that went to a planted action."""
        return float(np.isin(self.actions[world.late_from :], world.actions(part)).mean())


def simulate(
    world: World,
    *,
    seed: int,
    every: int,
    delay: int,
    release_turn: int | None = None,
    with_budget: bool = True,
    ahead: float = 1.0,
) -> Simulated:
    """Play the world once."""
    random = np.random.default_rng(seed)
    tables = reward_tables(world, random.random(world.turns) < JUDGE_RATE)
    shape = (len(world.bucket_names), len(world.action_keys))
    belief = Belief.start(shape)
    actions = np.zeros(world.turns, dtype=np.int64)
    release = world.release_turn if release_turn is None else release_turn
    folded = spent_turns = 0
    for start in range(0, world.turns, every):
        turns = np.arange(start, min(start + every, world.turns))
        known = np.arange(folded, max(folded, start - delay))
        folded += len(known)
        _fold(belief, world, tables, known, actions[known])
        belief.exclude(world.baseline)
        if with_budget and belief.is_spent(world.baseline, ahead):
            actions[turns] = world.baseline
            spent_turns += len(turns)
            continue
        floor, uniform_slice = (FIRST_FLOOR, FIRST_SLICE) if start < release else (LAST_FLOOR, LAST_SLICE)
        chosen = belief.draw(world.bucket_of[turns], random)
        anyone = random.choice(np.flatnonzero(belief.eligible), len(turns))
        chosen = np.where(random.random(len(turns)) < uniform_slice, anyone, chosen)
        actions[turns] = np.where(random.random(len(turns)) < floor, world.baseline, chosen)
    return Simulated(
        actions=actions, excluded_after=belief.excluded_after, budget_share=spent_turns / max(1, world.turns)
    )


def _fold(belief: Belief, world: World, tables: RewardTables, turns: Integers, actions: Integers) -> None:
    where = (turns, actions)
    belief.add(world.bucket_of[turns], actions, tables.reward[where], tables.weight[where], world.truth.tripped[where])
