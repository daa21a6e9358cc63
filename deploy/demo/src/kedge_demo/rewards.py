"""Compute, from the truth alone, the reward that each turn and action must earn (03 §5), and what it earns on average.

Written on its own, not shared with the server.
"""

from dataclasses import dataclass

import numpy as np

from kedge_demo.datasets import Floats
from kedge_demo.export_log import SETTLED, VETOED, Log
from kedge_demo.truth import Flags
from kedge_demo.world import World

JUDGE_LOW, JUDGE_HIGH, JUDGE_KNEE = 0.05, 0.95, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTables:
    """Hold rewards, NaN where there is none, and evidence weights, both (turns, actions)."""

    reward: Floats
    weight: Floats


def reward_tables(world: World, judged: Flags) -> RewardTables:
    """Score every turn and action with the signals that the demo sends.

    Args:
        world: whose truth and reward spec.
        judged: turns for which a judge was requested, shape (turns,).

    M = Σ w over the present of {HUMAN, TASK_SUCCESS}. M > 0: Q = Q_V + σ·[judged]·(g − Q_V), weight 1. Judge alone:
    Q = ½ + σ·(g − ½), weight 0. raw = W·Q − w_C·C − w_L·L, clipped to [0, 1]. A tripped guardrail: reward 0, weight 1.
    """
    truth, spec = world.truth, world.policy.reward
    human = (spec.weight_human * truth.has_thumb)[:, None]
    task = (spec.weight_task_success * truth.has_verifier)[:, None]
    total = spec.weight_human + spec.weight_judge + spec.weight_task_success
    share = spec.weight_judge / total
    mass = human + task
    verified = (human * truth.thumb_up + task * truth.score) / np.where(mass > 0, mass, 1.0)
    inside = np.clip(truth.judge, JUDGE_LOW, JUDGE_HIGH)
    judge = np.minimum(inside, JUDGE_KNEE) + np.maximum(inside - JUDGE_KNEE, 0.0) / 3
    asked = judged[:, None]
    anchor = np.where(mass > 0, verified, 0.5)
    quality = anchor + share * asked * (judge - anchor)
    cost = np.clip(truth.cost_usd / spec.cost_reference_usd, 0.0, 1.0)
    latency = np.clip(truth.latency_ms / spec.latency_reference_ms, 0.0, 1.0)
    raw = np.clip(total * quality - spec.weight_cost * cost - spec.weight_latency * latency, 0.0, 1.0)
    reward = np.where((mass > 0) | asked, raw, np.nan)
    return RewardTables(
        reward=np.where(truth.tripped, 0.0, reward),
        weight=np.where(truth.tripped | (mass > 0), 1.0, 0.0),
    )


def expected_rewards(world: World) -> Floats:
    """Average what each turn and action earns over the judge's request rate, learned episodes only: (turns, actions).

    NaN where the episode is not learned from.
    """
    rate = world.policy.settlement.judge_rate
    never = reward_tables(world, np.zeros(world.turns, dtype=np.bool_))
    always = reward_tables(world, np.ones(world.turns, dtype=np.bool_))
    mean = rate * always.reward + (1.0 - rate) * never.reward
    return np.where(never.weight > 0, mean, np.nan)


def reward_max_error(log: Log, world: World) -> float:
    """Compare every exported reward and weight with ours: the largest difference, 1 if only one side has a number."""
    judged = np.zeros(world.turns, dtype=np.bool_)
    judged[log.turn] = log.judged
    tables = reward_tables(world, judged)
    scored = (log.state == SETTLED) | (log.state == VETOED)
    ours, weight = tables.reward[log.turn, log.action][scored], tables.weight[log.turn, log.action][scored]
    theirs = np.where(log.state == VETOED, 0.0, log.reward)[scored]
    if np.any(np.isnan(ours) != np.isnan(theirs)):
        return 1.0
    differences = np.concatenate([np.abs(ours - theirs), np.abs(weight - log.weight[scored])])
    return float(np.nanmax(differences, initial=0.0))
