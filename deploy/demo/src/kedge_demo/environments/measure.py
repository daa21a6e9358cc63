"""Measure a run from outside: its export held against the client's account, and every late episode played by everybody.

    python -m kedge_demo.environments.measure --address HOST:PORT --keys FILE --out DIR

An environment gives the same grade to the same player on the same seed, so what every action would have had on an
episode is not estimated but played. Writes DIR/measured.json.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

import grpc
import numpy as np

from kedge.bandit.v1 import episode_pb2 as episodes
from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge.bandit.v1 import policy_service_pb2 as status
from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceStub
from kedge.bandit.v1.policy_service_pb2_grpc import PolicyServiceStub
from kedge_demo.datasets import Floats, Integers
from kedge_demo.environments.play import Turn, read_played
from kedge_demo.environments.policy import COST_REFERENCE_USD, WEIGHT_COST, WEIGHT_GRADE, policy
from kedge_demo.environments.roster import ACTIONS, LABELS, TASKS
from kedge_demo.environments.streams import STREAMS, Item, cost_usd, items, late_from, play_item

MEASURED_FILE: Final = "measured.json"
TIMEOUT_S: Final = 60.0
WINDOWS: Final = 24
CHUNK: Final = 50
NEVER_SERVED: Final = (True, 0.0)
Fetched: TypeAlias = tuple[list[wire.DecisionRecord], list[tuple[bool, float]]]
"""A stream's export; and by action whether it is eligible at the end, and P(veto rate over its cap)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one stream came to; lists by action are in the order of LABELS, matrices are (tasks, actions).

    Attributes:
        late: episodes of the last quarter, on which quality is compared.
        quality, routed: mean of what was served there, and of the best action of each task.
        single: mean of each action on the same episodes, 0 where a rule was broken; graded: the grade alone.
        best: the best single action in hindsight; lift, low, high: served less it, paired, with its 95 % interval.
        by_task: mean quality of each action on the late episodes of each task.
        share_late: each action's share of the late turns, by task.
        vetoes, episodes: what was served, by action; eligible, over_cap: as the service has it at the end.
        missing: turns that the export has otherwise or not at all; misjudged: breaches that are no veto, or vetoes
            without a breach; reward_error: largest difference from the reward that the grade and the price must give.
        windows: by window of turns, each action's share; window_quality: what was served, and what the best single has.
    """

    stream: int
    turns: int
    late: int
    quality: float
    routed: float
    single: list[float]
    graded: list[float]
    best: str
    lift: float
    low: float
    high: float
    by_task: list[list[float]]
    share_late: list[list[float]]
    vetoes: list[int]
    episodes: list[int]
    eligible: list[bool]
    over_cap: list[float]
    missing: int
    misjudged: int
    reward_error: float
    windows: list[list[float]]
    window_quality: list[float]


def everybody(late: Sequence[Item], pool: Executor) -> tuple[Floats, Floats]:
    """Play each episode with every action: quality and grade, both (episodes, actions)."""
    pairs = [(item, place) for item in late for place in range(len(ACTIONS))]
    played = list(pool.map(play_item, *zip(*pairs, strict=True), chunksize=CHUNK))
    shape = (len(late), len(ACTIONS))
    quality = np.array([one.quality for one in played]).reshape(shape)
    return quality, np.array([one.grade for one in played]).reshape(shape)


def paired(served: Floats, other: Floats) -> tuple[float, float, float]:
    """Give the mean difference with its 95 % interval, normal over episodes.

    >>> paired(np.array([0.5, 0.7]), np.array([0.5, 0.7]))
    (0.0, 0.0, 0.0)
    """
    differences = served - other
    mean = float(differences.mean())
    half = 1.96 * float(differences.std(ddof=1)) / len(differences) ** 0.5
    return mean, mean - half, mean + half


def must_earn(turn: Turn) -> float:
    """Compute, from the environment's word alone, the reward that a turn must have.

    >>> must_earn(Turn(stream=1, turn=0, action=1, grade=1.0, breach="", steps=10))
    0.895
    """
    if turn.breach:
        return 0.0
    cost = min(1.0, cost_usd(turn.action, turn.steps) / COST_REFERENCE_USD)
    return min(1.0, max(0.0, WEIGHT_GRADE * turn.grade - WEIGHT_COST * cost))


def audit(turns: Sequence[Turn], records: Sequence[wire.DecisionRecord]) -> tuple[int, int, float]:
    """Hold the export against the client's account: turns that differ, vetoes that differ, largest reward error."""
    found = {record.decision.episode_id: record for record in records}
    missing = misjudged = 0
    worst = 0.0
    for turn in turns:
        record = found.pop(f"turn-{turn.turn:06d}", None)
        if record is None or record.decision.action_key != ACTIONS[turn.action].key:
            missing += 1
            continue
        vetoed = record.episode.state == episodes.EPISODE_STATE_VETOED
        misjudged += vetoed != bool(turn.breach)
        reward = record.episode.reward if vetoed or record.episode.HasField("reward") else float("inf")
        worst = max(worst, abs((0.0 if vetoed else reward) - must_earn(turn)))
    return missing + len(found), misjudged, worst


def measure(turns: Sequence[Turn], fetched: Fetched, pool: Executor) -> Measured:
    """Measure one stream, given its turns in order and what the service said of it."""
    records, actions = fetched
    stream, begin = turns[0].stream, late_from(len(turns))
    late = items(stream, len(turns))[begin:]
    task = np.array([TASKS.index(item.task) for item in late])
    quality, grade = everybody(late, pool)
    chosen = np.array([turn.action for turn in turns])
    served = quality[np.arange(len(late)), chosen[begin:]]
    best = int(quality.mean(axis=0).argmax())
    by_task = np.array([quality[task == place].mean(axis=0) for place in range(len(TASKS))])
    mean, low, high = paired(served, quality[:, best])
    missing, misjudged, worst = audit(turns, records)
    breached = np.array([bool(turn.breach) for turn in turns])
    windows = np.array_split(np.arange(len(turns)), WINDOWS)
    return Measured(
        stream=stream,
        turns=len(turns),
        late=len(late),
        quality=float(served.mean()),
        routed=float(by_task.max(axis=1)[task].mean()),
        single=quality.mean(axis=0).tolist(),
        graded=grade.mean(axis=0).tolist(),
        best=LABELS[best],
        lift=mean,
        low=low,
        high=high,
        by_task=by_task.tolist(),
        share_late=[_shares(chosen[begin:][task == place]) for place in range(len(TASKS))],
        vetoes=np.bincount(chosen[breached], minlength=len(ACTIONS)).tolist(),
        episodes=np.bincount(chosen, minlength=len(ACTIONS)).tolist(),
        eligible=[eligible for eligible, _ in actions],
        over_cap=[over for _, over in actions],
        missing=missing,
        misjudged=misjudged,
        reward_error=worst,
        windows=[_shares(chosen[window]) for window in windows],
        window_quality=[float(np.mean([turns[place].quality for place in window])) for window in windows],
    )


def _shares(chosen: Integers) -> list[float]:
    return [float((chosen == place).sum()) / max(1, len(chosen)) for place in range(len(ACTIONS))]


def fetch(channel: grpc.Channel, key: str, stream: int) -> Fetched:
    """Read a stream's decisions, and what the service holds of each action at the end."""
    metadata, name = (("authorization", f"Bearer {key}"),), policy(stream).name
    export = EpisodeServiceStub(channel).ExportDecisions(
        wire.ExportDecisionsRequest(policy=name), metadata=metadata, timeout=TIMEOUT_S
    )
    records = list(_decisions(export))
    answer = PolicyServiceStub(channel).GetPolicyStatus(
        status.GetPolicyStatusRequest(name=name, without_cells=True), metadata=metadata, timeout=TIMEOUT_S
    )
    known = {one.action_key: (one.eligible, one.probability_over_cap) for one in answer.actions}
    return records, [known.get(action.key, NEVER_SERVED) for action in ACTIONS]


def _decisions(messages: Iterator[wire.ExportDecisionsResponse]) -> Iterator[wire.DecisionRecord]:
    for message in messages:
        if message.WhichOneof("record") == "decision" and not message.decision.decision.superseded:
            yield message.decision


def main() -> int:
    """Fetch, play, write."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.environments.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--address", required=True, help="host:port of the gRPC server")
    parser.add_argument("--keys", type=Path, required=True, help='JSON: {"core_app": "…", "viewer": "…"}')
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    options = parser.parse_args()
    key = json.loads(options.keys.read_text(encoding="utf-8"))["viewer"]
    _, played = read_played(options.out)
    with (
        grpc.insecure_channel(options.address, options=(("grpc.max_receive_message_length", -1),)) as channel,
        ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool,
    ):
        found = [
            measure([turn for turn in played if turn.stream == stream], fetch(channel, key, stream), pool)
            for stream in STREAMS
        ]
    (options.out / MEASURED_FILE).write_text(json.dumps([asdict(one) for one in found]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
