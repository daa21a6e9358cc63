"""Check the export against itself, from the design's formulas alone: draws, fold, self-check.

Written on its own, not shared with the server: two programs that agree are evidence, one that agrees with itself is
not.
"""

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc

from kedge_demo.datasets import Floats
from kedge_demo.export_log import BUDGET, DRAWN, SETTLED, VETOED, Log
from kedge_demo.world import World

PROPENSITY_TOLERANCE = 1e-12
MERGED_BELOW = 5.0


def draw(tenant: str, policy: str, episode: str, seed_epoch: int, allocation_version: int) -> float:
    """Compute the seeded draw u in [0, 1) of 03 §4.

    >>> draw("acme", "support", "e-1", 0, 7)
    0.570449930675558
    """
    parts = ("kedge.draw.v1", tenant, policy, episode, str(seed_epoch), str(allocation_version))
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return float((int.from_bytes(digest[:8], "big") >> 11) * 2.0**-53)


def pick(p: Floats, u: float) -> int:
    """Take the first action whose running sum exceeds u, or the last with p > 0.

    >>> pick(np.array([0.5, 0.5, 0.0]), 0.5), pick(np.array([0.5, 0.4999, 0.0]), 0.99999)
    (1, 1)
    """
    total = 0.0
    for place, share in enumerate(p.tolist()):
        total += share
        if total > u:
            return place
    return int(np.flatnonzero(p > 0)[-1])


def replay_mismatches(log: Log, world: World) -> tuple[str, ...]:
    """List the episodes whose action or propensity does not follow from the published vector and the seeded draw.

    Drawn decisions are drawn again; a spent budget must have served the baseline from a vector that says so; every
    other reason must have served the baseline with propensity 1, not randomised.
    """
    found = []
    for place, episode in enumerate(log.episode_ids):
        vector = log.vectors.get(int(log.vector[place]))
        reason, action = int(log.reason[place]), int(log.action[place])
        if reason == DRAWN and vector is not None:
            u = draw(world.tenant, world.policy_id, episode, int(log.seed_epoch[place]), vector.version)
            expected, propensity = pick(vector.p, u), float(vector.p[action])
            sound = vector.bucket in ("", log.bucket[place]) and bool(log.randomised[place])
        else:
            expected, propensity = world.baseline, 1.0
            sound = reason != DRAWN and not log.randomised[place]
            if reason == BUDGET:
                sound = sound and vector is not None and vector.closed == BUDGET and vector.p[world.baseline] == 1.0
        close = abs(propensity - log.propensity[place]) <= PROPENSITY_TOLERANCE
        if not (sound and close and expected == action):
            found.append(episode)
    return tuple(found)


def rebuild_max_error(log: Log, world: World) -> float:
    """Fold the exported rewards again and compare with the exported cells: largest |difference| / max(1, N).

    Per bucket and action: N = Σ w·2^(−age/H), S = Σ w·2^(−age/H)·r, S2 likewise with r², age = the cell's time less the
    decision's policy time, w times the factors of the known changes (03 §3). A cell on one side only counts with its
    whole content.
    """
    half_life = log.policy.half_life.seconds + log.policy.half_life.nanos * 1e-9
    learned = ((log.state == SETTLED) | (log.state == VETOED)) & (log.weight > 0)
    rows: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for place in np.flatnonzero(learned).tolist():
        for action, share in _shares(log, world, place).items():
            rows[log.evidence_bucket[place], action].append((place, share))
    worst = 0.0
    for cell in log.cells:
        found = rows.pop((cell.bucket, world.index_of[cell.action_key]), [])
        chosen = np.array([place for place, _ in found], dtype=np.int64)
        weight = log.weight[chosen] * np.array([share for _, share in found])
        decayed = weight * np.exp2(-(cell.as_of - log.policy_time[chosen]) / half_life)
        reward = log.reward[chosen]
        ours = (decayed.sum(), (decayed * reward).sum(), (decayed * reward**2).sum())
        theirs = (cell.weight, cell.reward_sum, cell.reward_square_sum)
        scale = max(1.0, float(ours[0]))
        worst = max(worst, *(abs(float(a) - b) / scale for a, b in zip(ours, theirs, strict=True)))
    left = [float(len(places)) for places in rows.values()]
    return max(worst, 1.0) if left else worst


def _shares(log: Log, world: World, place: int) -> dict[int, float]:
    """Follow one decision through the known changes of its bucket, oldest first: action to how much it counts for it.

    A change concerns decisions that are older. One of the action's own multiplies what it has; one with another source
    gives the action the factor times what the source has by then.
    """
    shares = {int(log.action[place]): 1.0}
    bucket, time = log.evidence_bucket[place], float(log.policy_time[place])
    for change in sorted(log.changes, key=lambda each: (each.policy_time, each.evidence_sequence)):
        if change.bucket == bucket and time < change.policy_time:
            action, source = world.index_of[change.action_key], world.index_of[change.source_action_key]
            given = change.factor * shares.get(source, 0.0)
            shares[action] = given if action == source else shares.get(action, 0.0) + given
    return {action: share for action, share in shares.items() if share > 0}


def merge_rare(expected: Floats) -> list[list[int]]:
    """Group actions by Σp: those under 5 together, with the rarest others until the group reaches 5; the rest alone.

    >>> merge_rare(np.array([900.0, 1.0, 2.0, 97.0]))
    [[1, 2, 3], [0]]
    """
    order = [int(place) for place in np.argsort(expected, kind="stable")]
    merged: list[int] = []
    while order and (expected[order[0]] < MERGED_BELOW or (merged and expected[merged].sum() < MERGED_BELOW)):
        merged.append(order.pop(0))
    return ([merged] if merged else []) + [[place] for place in order]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Hold the comparison of what was drawn with what was logged: χ² = dᵀV⁻¹d over `freedom` degrees."""

    decisions: int
    chi_square: float
    freedom: int
    p_value: float


def self_check(log: Log, world: World) -> Check:
    """Compare frequencies with propensities over all randomised decisions of the run (03 §4).

    d = Σ (1[A = a] − p_t(a)), V = Σ (diag p_t − p_t p_tᵀ), χ²(groups − 1). Rare actions form one group together. An
    action that was drawn with probability 0 makes p 0.
    """
    size = len(world.action_keys)
    expected, spread, seen = np.zeros(size), np.zeros((size, size)), np.zeros(size)
    for version in np.unique(log.vector[log.randomised]).tolist():
        vector = log.vectors.get(version)
        if vector is None:
            continue
        chosen = log.action[log.randomised & (log.vector == version)]
        seen += np.bincount(chosen, minlength=size)
        expected += len(chosen) * vector.p
        spread += len(chosen) * (np.diag(vector.p) - np.outer(vector.p, vector.p))
    groups = merge_rare(expected)
    if len(groups) < 2:
        return Check(decisions=int(seen.sum()), chi_square=0.0, freedom=0, p_value=1.0)
    fold = np.zeros((len(groups), size))
    for row, places in enumerate(groups):
        fold[row, places] = 1.0
    d = (fold @ (seen - expected))[:-1]
    v = (fold @ spread @ fold.T)[:-1, :-1]
    chi_square = float(d @ np.linalg.solve(v, d))
    freedom = len(groups) - 1
    impossible = np.any(log.propensity[log.randomised] <= 0.0)
    p_value = 0.0 if impossible else float(chdtrc(freedom, chi_square))
    return Check(decisions=int(seen.sum()), chi_square=chi_square, freedom=freedom, p_value=p_value)
