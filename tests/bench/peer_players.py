"""Play one table of rewards by Vowpal Wabbit, by MABWiser, and by what the service does for a decision and an outcome.

Needs the packages of requirements/bench.lock, which `make bench` installs.
"""

import numpy as np
import vowpalwabbit
from mabwiser.mab import MAB, LearningPolicy

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.draw import pick, uniform
from kedge_bandit.domain.learners.beta import BetaLearner, beta_shapes
from kedge_bandit.domain.learners.learner import EvidenceTable
from tests.bench.served import ServedPolicy, grown

VW_OPTIONS = "--cb_explore {arms} --bag 5 --quiet --random_seed {seed}"


def play_vw(table: FloatArray, seed: int) -> IntArray:
    """Learn after every step, cost = 1 − reward, which makes actions that were never tried look good.

    Returns:
        The action of every step [T].
    """
    horizon, arms = table.shape
    costs, draws = (1.0 - table).tolist(), np.random.default_rng(seed).random(len(table)).tolist()
    model = vowpalwabbit.Workspace(VW_OPTIONS.format(arms=arms, seed=seed))
    chosen = np.zeros(horizon, dtype=np.int64)
    for step in range(horizon):
        shares = model.predict("| x")
        action = pick(shares, draws[step])
        model.learn(f"{action + 1}:{costs[step][action]:g}:{shares[action]:g} | x")
        chosen[step] = action
    model.finish()
    return chosen


def play_mabwiser(table: FloatArray, seed: int, batch: int) -> IntArray:
    """Decide step by step and learn after every batch; the first batch, before it can be asked, at random."""
    horizon, arms = table.shape
    model = MAB(list(range(arms)), LearningPolicy.ThompsonSampling(), seed=seed)
    chosen = np.zeros(horizon, dtype=np.int64)
    chosen[:batch] = np.random.default_rng(seed).integers(arms, size=batch)
    model.fit(chosen[:batch], table[np.arange(batch), chosen[:batch]])
    for begin in range(batch, horizon, batch):
        steps = np.arange(begin, min(begin + batch, horizon))
        chosen[steps] = [model.predict() for _ in steps]
        model.partial_fit(chosen[steps], table[steps, chosen[steps]])
    return chosen


def play_served(table: FloatArray, seed: int, batch: int) -> IntArray:
    """Decide and learn as the service does; the vector is renewed by the service's rule when a batch is through."""
    horizon, arms = table.shape
    policy = ServedPolicy(BetaLearner(), tuple(map(str, range(arms))), due=grown)
    rewards = table.tolist()
    chosen: list[int] = []
    for begin in range(0, horizon, batch):
        until = min(begin + batch, horizon)
        chosen += [
            policy.decide("", uniform("tenant", "policy", str(seed * horizon + step), 0, policy.version))
            for step in range(begin, until)
        ]
        for step in range(begin, until):
            policy.learn("", chosen[step], rewards[step][chosen[step]], float(step))
        policy.publish("", float(until))
    return np.array(chosen, dtype=np.int64)


def play_belief(tables: FloatArray, seed: int, batch: int) -> IntArray:
    """Draw from the service's belief for all tables [seeds, T, K] at once, learning after every batch.

    Returns:
        The action of every seed and step [seeds, T].
    """
    seeds, horizon, arms = tables.shape
    rng = np.random.default_rng(seed)
    n, s = np.zeros(seeds * arms), np.zeros(seeds * arms)
    evidence = EvidenceTable(n[None], s[None], s[None])  # filled in place; rewards are 0 or 1, so squares sum alike
    one = np.arange(seeds)
    chosen = np.zeros((seeds, horizon), dtype=np.int64)
    for begin in range(0, horizon, batch):
        a, b = beta_shapes(evidence, 0)
        steps = range(begin, min(begin + batch, horizon))
        for step in steps:
            chosen[:, step] = rng.beta(a, b).reshape(seeds, arms).argmax(axis=1)
        for step in steps:
            cell = one * arms + chosen[:, step]
            n[cell] += 1.0
            s[cell] += tables[one, step, chosen[:, step]]
    return chosen
