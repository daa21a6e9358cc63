"""Make the vectors of `choose.json`: what every language must choose from an allocation, by mode, wish and draw.

Also the draw for the judge. Numbers are IEEE doubles in shortest decimal form; a client must get their very bits.
"""

import itertools
import platform
from datetime import UTC, datetime

import numpy as np

from kedge_bandit.domain.allocation import allocate, baseline_only
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import PLAIN, Wish, choose
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation
from tests.golden.draw import Value

SHAPES = [
    (1, False, None),
    (2, False, None),
    (3, True, None),
    (5, True, None),
    (4, False, Reason.BUDGET),
    (36, True, None),
]
EPISODES = 4
RATES = [0.0, 0.1, 0.5, 0.9, 1.0]


def allocation(number: int, size: int, closed: Reason | None, *, capped: bool) -> Allocation:
    """Publish a vector over some actions, a fifth of them not eligible."""
    rng = np.random.default_rng(number)
    actions = tuple(sorted((f"arm-{i}@{rng.integers(16**12):012x}" for i in range(size)), key=str.encode))
    baseline = int(rng.integers(size))
    eligible = rng.random(size) < 0.8
    eligible[baseline] = True
    q = np.where(eligible, rng.dirichlet(np.full(size, 0.5)), 0.0)
    q = q / q.sum()
    floor, uniform_slice = float(rng.choice([0.05, 0.2, 0.8])), float(rng.choice([0.05, 0.1, 0.5]))
    caps = np.where(rng.random(size) < 0.5, 0.2, 1.0) if capped else None
    p = allocate(q, subset=eligible, baseline=baseline, floor=floor, uniform_slice=uniform_slice, caps=caps)
    if closed is not None:
        p = baseline_only(size, baseline)
    return Allocation(
        policy=PolicyName("support"),
        bucket="task=math",
        version=number + 1,
        policy_version=1,
        configuration_version=1,
        seed_epoch=number,
        as_of=0.0,
        evidence_sequence=0,
        evidence_hash="",
        actions=actions,
        baseline=baseline,
        floor=floor,
        uniform_slice=uniform_slice,
        caps=None if caps is None else tuple(caps.tolist()),
        q=tuple(q.tolist()),
        p=tuple(p.tolist()),
        mean=tuple(rng.random(size).tolist()),
        eligible=tuple(eligible.tolist()),
        closed=closed,
        publish_time=datetime(2026, 3, 1, tzinfo=UTC),
    )


ALLOCATIONS = [allocation(number, size, closed, capped=capped) for number, (size, capped, closed) in enumerate(SHAPES)]


def wishes(source: Allocation) -> list[Wish]:
    """Ask for everything that can be asked for."""
    keys = source.actions
    baseline = keys[source.baseline]
    others = tuple(key for key in keys if key != baseline)
    some = [
        PLAIN,
        Wish(available=keys),
        Wish(available=(baseline, *others[::2])),
        Wish(available=(*others[1::2], "unknown@000000000000")),
        Wish(available=(baseline,)),
        Wish(no_exploration=True),
        Wish(in_tool_loop=True),
        Wish(pinned=keys[-1]),
        Wish(pinned=keys[0], available=others),
    ]
    return [wish for wish in some if wish is PLAIN or wish != PLAIN]  # with one action some of them ask for nothing


def as_json(source: Allocation) -> Value:
    """Write an allocation with the names of the wire's fields."""
    return {
        "allocation_version": str(source.version),
        "seed_epoch": str(source.seed_epoch),
        "action_keys": list(source.actions),
        "probability_best": list(source.q),
        "propensities": list(source.p),
        "means": list(source.mean),
        "eligible": list(source.eligible),
        "closed_reason": "" if source.closed is None else source.closed.value,
        "exploitation_floor": source.floor,
        "uniform_slice": source.uniform_slice,
        "caps": list(source.caps or ()),
        "baseline_index": source.baseline,
    }


def choices() -> list[Value]:
    """Cross allocations, wishes, modes and episodes."""
    found: list[Value] = []
    for place, source in enumerate(ALLOCATIONS):
        numbers = itertools.count()
        for wish, mode in itertools.product(wishes(source), Mode):
            for _ in range(EPISODES if mode is Mode.APPLY else 1):
                episode = f"e-{next(numbers)}"
                u = uniform("acme", "support", episode, source.seed_epoch, source.version)
                choice = choose(source, wish, mode, u)
                found.append(
                    {
                        "allocation": place,
                        "episode_id": episode,
                        "mode": mode.value,
                        "available": list(wish.available),
                        "pinned": wish.pinned,
                        "no_exploration": wish.no_exploration,
                        "in_tool_loop": wish.in_tool_loop,
                        "chosen": choice.index,
                        "propensity": choice.propensity,
                        "reason": choice.reason.value,
                        "is_randomised": choice.is_randomised,
                        "shadow": -1 if choice.shadow is None else choice.shadow,
                    }
                )
    return found


def judges() -> list[Value]:
    """Draw whether a judge is asked."""
    return [
        {
            "tenant": "acme",
            "policy": "support",
            "episode_id": episode,
            "rate": rate,
            "requested": judge_requested("acme", "support", episode, rate),
        }
        for rate, episode in itertools.product(RATES, ["e-1", "e-2", "caf\u00e9", "cafe\u0301", "会話-42", "0"])
    ]


def build() -> dict[str, Value]:
    """Put the file together."""
    return {
        "about": "Choice of an action of tenant acme, policy support; lists run over action_keys, in canonical order.",
        "made_with": {"python": platform.python_version(), "numpy": np.__version__},
        "allocations": [as_json(source) for source in ALLOCATIONS],
        "choices": choices(),
        "judges": judges(),
    }
