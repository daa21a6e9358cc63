"""Make the vectors of `draw.json`: what every language must get from the draw, the pick and the narrowing."""

import itertools
import platform
from hashlib import sha256
from typing import TypeAlias

import numpy as np

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.draw import pick, uniform

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"

EPISODES = [
    "e-1",
    "e-2",
    "00000000-0000-7000-8000-000000000000",
    "with space and\nnewline",
    "caf\u00e9",  # composed ...
    "cafe\u0301",  # ... and decomposed: another id, because nothing normalises ids
    "会話-42",
    "محادثة",
    "🦊🧪",
    "\ufeffbom",
    "x" * 128,
    "0",
]
TENANTS = ["acme", "acme-eu"]
SEEDS = [(0, 1), (1, 1), (0, 2**31), (2**63 - 1, 2**63 - 1)]
VECTORS = [
    [1.0],
    [0.5, 0.5],
    [0.1] * 10,  # adds up to 0.9999999999999999
    [0.0, 1.0, 0.0],
    [1e-300, 0.0, 1.0 - 1e-16, 0.0],
    [0.824667, 0.168667, 0.006666],
    [1.0 / 36.0] * 36,
]
EDGES = [0.0, 2.0**-53, 0.25, 0.5, 0.75, 1.0 - 2.0**-53]
EDGE_VECTORS = [
    [0.25, 0.25, 0.5],
    [0.0, 0.25, 0.0, 0.75],
    [0.5, 0.5, 0.0],
    [1.0, 0.0],
    [0.0, 1.0],
    [0.1] * 10,
    [0.1] * 10 + [0.0],
]


def draws() -> list[Value]:
    """Cross tenants, ids, epochs and versions, each with one of the vectors in turn."""
    found: list[Value] = []
    vectors = itertools.cycle(VECTORS)
    for tenant, episode, (epoch, version) in itertools.product(TENANTS, EPISODES, SEEDS):
        message = "\0".join(["kedge.draw.v1", tenant, "support", episode, str(epoch), str(version)])
        u = uniform(tenant, "support", episode, epoch, version)
        p = next(vectors)
        found.append(
            {
                "tenant": tenant,
                "policy": "support",
                "episode_id": episode,
                "seed_epoch": str(epoch),
                "allocation_version": str(version),
                "sha256": sha256(message.encode()).hexdigest(),
                "u_times_2_53": int(u * 2.0**53),
                "p": list(p),
                "picked": pick(p, u),
            }
        )
    return found


def picks() -> list[Value]:
    """Meet every boundary exactly."""
    return [{"p": list(p), "u": u, "picked": pick(p, u)} for p in EDGE_VECTORS for u in EDGES]


def narrowings() -> list[Value]:
    """Narrow published beliefs to subsets, with and without caps, down to a subset that has no mass."""
    rng = np.random.default_rng(1)
    found: list[Value] = []
    for actions in (1, 2, 3, 5, 11, 36):
        for capped in (False, True):
            q = rng.dirichlet(np.full(actions, 0.3))
            subset = rng.random(actions) < 0.7
            baseline = int(rng.integers(actions))
            subset[baseline] = True
            caps = np.where(rng.random(actions) < 0.5, 0.05, 1.0) if capped else None
            floor, uniform_slice = float(rng.choice([0.05, 0.3, 0.8])), float(rng.choice([0.02, 0.1]))
            found.append(narrowing(q, subset, baseline, floor, uniform_slice, caps))
    found.append(narrowing(np.array([0.0, 0.0, 1.0]), np.array([True, True, False]), 0, 0.8, 0.1, None))
    return found


def narrowing(
    q: np.ndarray[tuple[int], np.dtype[np.float64]],
    subset: np.ndarray[tuple[int], np.dtype[np.bool_]],
    baseline: int,
    floor: float,
    uniform_slice: float,
    caps: np.ndarray[tuple[int], np.dtype[np.float64]] | None,
) -> Value:
    """Record one narrowing with its result."""
    p = allocate(q, subset=subset, baseline=baseline, floor=floor, uniform_slice=uniform_slice, caps=caps)
    return {
        "q": q.tolist(),
        "subset": subset.tolist(),
        "baseline": baseline,
        "floor": floor,
        "uniform_slice": uniform_slice,
        "caps": None if caps is None else caps.tolist(),
        "p": p.tolist(),
    }


def build() -> dict[str, Value]:
    """Put the file together."""
    return {
        "about": "Law of the draw: u is a multiple of 2^-53; p, q and u are IEEE doubles in shortest decimal form.",
        "made_with": {"python": platform.python_version(), "numpy": np.__version__},
        "draws": draws(),
        "picks": picks(),
        "narrowings": narrowings(),
    }
