"""Read what ExportDecisions streams into columns, and keep it in a file.

The file is the stream itself: each message behind its length, four bytes big-endian. So the figures can be recomputed
later, on another machine, by anyone who does not trust ours.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kedge.bandit.v1 import decision_pb2 as decisions
from kedge.bandit.v1 import decision_service_pb2 as allocations
from kedge.bandit.v1 import episode_pb2 as episodes
from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.datasets import Floats, Integers
from kedge_demo.truth import Flags
from kedge_demo.world import World, turn_of

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Hold one published allocation; arrays run over the world's actions.

    Attributes:
        p: published probability; q: probability to be best.
        closed: DecisionReason for which p is the baseline alone, 0 where it is open.
    """

    bucket: str
    version: int
    policy_version: int
    seed_epoch: int
    p: Floats
    q: Floats
    eligible: Flags
    closed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Hold one tenant's export by column; arrays run over the demo's own decisions in the order of their turns.

    Attributes:
        turn: of the stream.
        action: decided; served: what the caller says it served. Both as places in the world's actions.
        propensity: logged with the decision; reason: DecisionReason.
        randomised: drawn, and the first decision of its episode.
        vector: allocation_version that was drawn from.
        bucket: as the server names it; evidence_bucket: the one that its evidence counts in now.
        state: EpisodeState; reward: NaN where there is none; weight: of the evidence.
        policy_time: of the decision, seconds.
        vetoes: VetoReason numbers per decision.
        others: decisions of episodes that are not turns of the stream.
        superseded: decisions that another one of the same episode came before.
    """

    policy: policies.Policy
    vectors: dict[int, Vector]
    turn: Integers
    episode_ids: tuple[str, ...]
    action: Integers
    served: Integers
    propensity: Floats
    reason: Integers
    randomised: Flags
    judged: Flags
    vector: Integers
    seed_epoch: Integers
    bucket: tuple[str, ...]
    state: Integers
    reward: Floats
    weight: Floats
    policy_time: Floats
    vetoes: tuple[tuple[int, ...], ...]
    evidence_bucket: tuple[str, ...]
    cells: tuple[policies.Cell, ...]
    changes: tuple[policies.KnownChange, ...]
    self_check: policies.SelfCheck
    others: int
    superseded: int


def write_export(path: Path, messages: Iterable[wire.ExportDecisionsResponse]) -> int:
    """Write the stream to a file; answers the number of messages."""
    count = 0
    with path.open("wb") as file:
        for count, message in enumerate(messages, start=1):  # noqa: B007 - the count is the answer
            payload = message.SerializeToString()
            file.write(_LENGTH.pack(len(payload)) + payload)
    return count


def read_export(path: Path) -> Iterator[wire.ExportDecisionsResponse]:
    """Read the stream back from a file."""
    content = path.read_bytes()
    place = 0
    while place < len(content):
        (size,) = _LENGTH.unpack_from(content, place)
        place += _LENGTH.size
        yield wire.ExportDecisionsResponse.FromString(content[place : place + size])
        place += size


def read_log(messages: Iterable[wire.ExportDecisionsResponse], world: World) -> Log:
    """Sort the stream into columns.

    Raises:
        ValueError: the export has no policy record, or another one's.
    """
    policy = policies.Policy()
    vectors: dict[int, Vector] = {}
    records: list[wire.DecisionRecord] = []
    cells: list[policies.Cell] = []
    changes: list[policies.KnownChange] = []
    self_check = policies.SelfCheck()
    others = 0
    for message in messages:
        match message.WhichOneof("record"):
            case "policy":
                policy = message.policy
            case "allocation":
                vectors[message.allocation.allocation_version] = _vector(message.allocation, world)
            case "decision" if _is_turn(message.decision.decision.episode_id):
                records.append(message.decision)
            case "decision":
                others += 1
            case "cell":
                cells.append(message.cell)
            case "known_change":
                changes.append(message.known_change)
            case "self_check":
                self_check = message.self_check
            case _:
                raise ValueError("the export holds a record that this measure does not know; use one release of both")
    if policy.name != world.policy.name:
        raise ValueError(f"the export is of {policy.name or 'no policy'}, not of {world.policy.name}")
    first = [record for record in records if not record.decision.superseded]
    first.sort(key=lambda record: record.decision.episode_id)
    extra = (policy, vectors, tuple(cells), tuple(changes), self_check, others, len(records) - len(first))
    return _columns(first, world, *extra)


def _is_turn(episode: str) -> bool:
    return episode.startswith("turn-")


def _vector(allocation: allocations.Allocation, world: World) -> Vector:
    """Put an allocation's columns into the world's order, by key, so that order is checked and not assumed."""
    place = [world.index_of[key] for key in allocation.action_keys]
    if place != list(range(len(world.action_keys))):
        raise ValueError(f"allocation {allocation.allocation_version} is not in canonical action order")
    return Vector(
        bucket=allocation.bucket,
        version=allocation.allocation_version,
        policy_version=allocation.policy_version,
        seed_epoch=allocation.seed_epoch,
        p=np.array(allocation.propensities, dtype=np.float64),
        q=np.array(allocation.probability_best, dtype=np.float64),
        eligible=np.array(allocation.eligible, dtype=np.bool_),
        closed=allocation.closed_reason,
    )


def _columns(
    records: list[wire.DecisionRecord],
    world: World,
    policy: policies.Policy,
    vectors: dict[int, Vector],
    cells: tuple[policies.Cell, ...],
    changes: tuple[policies.KnownChange, ...],
    self_check: policies.SelfCheck,
    others: int,
    superseded: int,
) -> Log:
    decided = [record.decision for record in records]
    known = [record.episode for record in records]
    action = [world.index_of[one.action_key] for one in decided]
    served = [
        world.index_of[one.served_action_key] if one.served_action_key else place
        for one, place in zip(decided, action, strict=True)
    ]
    return Log(
        policy=policy,
        vectors=vectors,
        turn=_integers(turn_of(one.episode_id) for one in decided),
        episode_ids=tuple(one.episode_id for one in decided),
        action=_integers(action),
        served=_integers(served),
        propensity=np.array([one.propensity for one in decided], dtype=np.float64),
        reason=_integers(one.reason for one in decided),
        randomised=np.array([one.is_randomised for one in decided], dtype=np.bool_),
        judged=np.array([one.judge_requested for one in decided], dtype=np.bool_),
        vector=_integers(one.allocation_version for one in decided),
        seed_epoch=_integers(one.seed_epoch for one in decided),
        bucket=tuple(one.bucket for one in decided),
        state=_integers(one.state for one in known),
        reward=np.array([one.reward if one.HasField("reward") else np.nan for one in known], dtype=np.float64),
        weight=np.array([one.weight for one in known], dtype=np.float64),
        policy_time=np.array([record.policy_time for record in records], dtype=np.float64),
        vetoes=tuple(tuple(one.veto_reasons) for one in known),
        evidence_bucket=tuple(record.evidence_bucket or record.decision.bucket for record in records),
        cells=cells,
        changes=changes,
        self_check=self_check,
        others=others,
        superseded=superseded,
    )


def _integers(values: Iterable[int]) -> Integers:
    return np.array(list(values), dtype=np.int64)


DRAWN = decisions.DECISION_REASON_DRAWN
BUDGET = decisions.DECISION_REASON_BUDGET
SETTLED = episodes.EPISODE_STATE_SETTLED
VETOED = episodes.EPISODE_STATE_VETOED
STATES = {
    "PENDING": episodes.EPISODE_STATE_PENDING,
    "SETTLED": SETTLED,
    "VETOED": VETOED,
    "UNSCORED": episodes.EPISODE_STATE_UNSCORED,
    "CANCELLED": episodes.EPISODE_STATE_CANCELLED,
}
