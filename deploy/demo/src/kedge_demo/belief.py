"""Read the `beta` learner's belief from exported cells (03 §3), and the belief about vetoes, for the page.

Written on its own, not shared with the server.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincc, betaincinv

from kedge_demo.datasets import Floats
from kedge_demo.export_log import SETTLED, VETOED, Log
from kedge_demo.quality import NORMAL_95, Estimate
from kedge_demo.world import World

LEAST_SHAPE = 0.5
VETO_PRIOR = (0.5, 24.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class VetoBelief:
    """Say what is believed about one action's veto rate.

    Attributes:
        rate: posterior median with its 95 % interval; over_cap: P(rate > cap).
    """

    episodes: int
    vetoes: int
    rate: Estimate
    over_cap: float


def bucket_place(log: Log, world: World) -> dict[str, int]:
    """Match the server's bucket names with the world's, by the turns that fell into them."""
    return {name: int(world.bucket_of[turn]) for name, turn in zip(log.bucket, log.turn.tolist(), strict=True)}


def believed_rewards(log: Log, world: World) -> list[Estimate]:
    """Average each action's posterior over the stream's mix of buckets, with a normal 95 % credible interval.

    Per bucket: Beta(s′·m + S, s′·(1 − m) + N − S), m = (1 + S_o)/(2 + N_o) and s′ = min(s, 2 + N_o) from the same
    action in the other buckets. Buckets are taken as independent.
    """
    place = bucket_place(log, world)
    shape = (len(world.bucket_names), len(world.action_keys))
    n, s = np.zeros(shape), np.zeros(shape)
    for cell in log.cells:
        if cell.bucket in place:
            where = (place[cell.bucket], world.index_of[cell.action_key])
            n[where], s[where] = cell.weight, cell.reward_sum
    n_others, s_others = n.sum(axis=0) - n, s.sum(axis=0) - s
    prior_mean = (1.0 + s_others) / (2.0 + n_others)
    strength = np.minimum(log.policy.prior_strength, 2.0 + n_others)
    a = np.maximum(LEAST_SHAPE, strength * prior_mean + s)
    b = np.maximum(LEAST_SHAPE, strength * (1.0 - prior_mean) + n - s)
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1.0))
    mix = np.bincount(world.bucket_of, minlength=shape[0]) / world.turns
    return _normal(mix @ mean, np.sqrt(mix**2 @ variance))


def _normal(mean: Floats, deviation: Floats) -> list[Estimate]:
    return [
        Estimate(mean=centre, low=max(0.0, centre - NORMAL_95 * spread), high=min(1.0, centre + NORMAL_95 * spread))
        for centre, spread in zip(mean.tolist(), deviation.tolist(), strict=True)
    ]


def veto_cap(log: Log, world: World) -> float:
    """Give the rate above which an action is not eligible: max(.02, twice the baseline's posterior mean rate)."""
    a, b = _veto_shapes(log, world)
    return max(0.02, 2.0 * float(a[world.baseline] / (a[world.baseline] + b[world.baseline])))


def veto_beliefs(log: Log, world: World) -> list[VetoBelief]:
    """Count each action's episodes and vetoes, with Beta(.5 + vetoes, 24.5 + episodes − vetoes) against the cap."""
    a, b = _veto_shapes(log, world)
    over_cap = betaincc(a, b, veto_cap(log, world))
    low, middle, high = (betaincinv(a, b, level) for level in (0.025, 0.5, 0.975))
    vetoes, clean = a - VETO_PRIOR[0], b - VETO_PRIOR[1]
    return [
        VetoBelief(
            episodes=round(float(vetoes[place] + clean[place])),
            vetoes=round(float(vetoes[place])),
            rate=Estimate(mean=float(middle[place]), low=float(low[place]), high=float(high[place])),
            over_cap=float(over_cap[place]),
        )
        for place in range(len(world.action_keys))
    ]


def _veto_shapes(log: Log, world: World) -> tuple[Floats, Floats]:
    size = len(world.action_keys)
    vetoes = np.bincount(log.action[log.state == VETOED], minlength=size).astype(np.float64)
    clean = np.bincount(log.action[log.state == SETTLED], minlength=size).astype(np.float64)
    return VETO_PRIOR[0] + vetoes, VETO_PRIOR[1] + clean
