"""Write randomised decisions with their rewards for other programs: Vowpal Wabbit's text, Open Bandit's arrays."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote

import numpy as np

from kedge.bandit.v1 import decision_pb2, episode_service_pb2

_PLAIN = "=@._-+"
"""Characters of names beside letters and digits that Vowpal Wabbit reads as part of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRow:
    """One episode whose action was drawn and whose reward is learned from.

    Attributes:
        actions: keys that the draw could choose from; action: the drawn one.
        propensity: with which it was drawn.
    """

    bucket: str
    context: decision_pb2.Context
    actions: tuple[str, ...]
    action: str
    propensity: float
    reward: float


def rows_of(stream: Iterable[episode_service_pb2.ExportDecisionsResponse]) -> Iterator[LoggedRow]:
    """Read what ExportDecisions streams; gives the rows that an evaluation counts, too."""
    vectors: dict[int, dict[str, float]] = {}
    for message in stream:
        if message.HasField("allocation"):
            found = message.allocation
            vectors[found.allocation_version] = dict(zip(found.action_keys, found.propensities, strict=True))
        elif message.HasField("decision") and _counts(message.decision):
            decision = message.decision.decision
            able = frozenset(message.decision.available_action_keys)
            drawn_from = vectors[decision.allocation_version]
            yield LoggedRow(
                bucket=decision.bucket,
                context=decision.context,
                actions=tuple(key for key, p in drawn_from.items() if p > 0.0 and (not able or key in able)),
                action=decision.action_key,
                propensity=decision.propensity,
                reward=message.decision.episode.reward,
            )


def _counts(record: episode_service_pb2.DecisionRecord) -> bool:
    decision, episode = record.decision, record.episode
    is_drawn = decision.reason == decision_pb2.DECISION_REASON_DRAWN and decision.is_randomised
    stands = not decision.superseded and not decision.set_aside
    return is_drawn and stands and episode.HasField("reward") and episode.weight > 0.0


def vw_lines(row: LoggedRow) -> str:
    """Write one example of `--cb_explore_adf`, its blank line included; the cost is 1 less the reward.

    >>> row = LoggedRow(bucket="task=math", context=decision_pb2.Context(categories={"task": "math"}),
    ...                 actions=("a@1", "b@2"), action="b@2", propensity=0.25, reward=1.0)
    >>> print(vw_lines(row), end="")
    shared |context task=math
    |action a@1
    0:0:0.25 |action b@2
    <BLANKLINE>
    """
    features = [f"{_name(name)}={_name(value)}" for name, value in sorted(row.context.categories.items())]
    features += [f"{_name(name)}:{value!r}" for name, value in sorted(row.context.numbers.items())]
    lines = [f"shared |context {' '.join(features) or _name('bucket=' + row.bucket)}"]
    for key in row.actions:
        label = f"0:{1.0 - row.reward:.9g}:{row.propensity:.9g} " if key == row.action else ""
        lines.append(f"{label}|action {_name(key)}")
    return "\n".join(lines) + "\n\n"


def write_open_bandit(rows: Iterable[LoggedRow], file: BinaryIO) -> int:
    """Write the arrays of Open Bandit's `BanditFeedback` as .npz; gives how many rows.

    `context` is one-hot by bucket [n, B], `action` the place in `action_keys` [n], `pscore` the logged probability,
    `position` 0 throughout, `action_context` one-hot by action [K, K].
    """
    kept = list(rows)
    keys = sorted({key for row in kept for key in row.actions})
    buckets = sorted({row.bucket for row in kept})
    place, bucket = {key: i for i, key in enumerate(keys)}, {name: i for i, name in enumerate(buckets)}
    np.savez_compressed(
        file,
        allow_pickle=False,
        n_rounds=np.int64(len(kept)),
        n_actions=np.int64(len(keys)),
        context=np.eye(len(buckets))[[bucket[row.bucket] for row in kept]],
        action_context=np.eye(len(keys)),
        action=np.array([place[row.action] for row in kept], dtype=np.int64),
        position=np.zeros(len(kept), dtype=np.int64),
        reward=np.array([row.reward for row in kept]),
        pscore=np.array([row.propensity for row in kept]),
        action_keys=np.array(keys),
        buckets=np.array(buckets),
    )
    return len(kept)


def _name(text: str) -> str:
    return quote(text, safe=_PLAIN)
