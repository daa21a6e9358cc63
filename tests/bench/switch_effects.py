"""Read from replies when the switch took effect, when the baseline was served without a store, and when it was back."""

from dataclasses import dataclass

from kedge.bandit.v1 import decision_pb2
from tests.bench.switch_load import Replies
from tests.bench.switch_place import REPLICAS

DRAWN = decision_pb2.DECISION_REASON_DRAWN
FROZEN = decision_pb2.DECISION_REASON_FROZEN
STALE = decision_pb2.DECISION_REASON_STALE


@dataclass(frozen=True, slots=True)
class Flip:
    """One change of the switch; monotonic seconds of its RPC's begin and end, and of its commit in the database."""

    is_freeze: bool
    began: float
    committed: float
    ended: float


def effects(flips: list[Flip], replies: Replies) -> tuple[list[float], int]:
    """Give, for each flip, milliseconds from commit to the last reply in the old mode; and how many missed a replica.

    A flip missed a replica that gave no reply in the new mode before the next flip began.
    """
    ends = [flip.began for flip in flips[1:]] + [float("inf")]
    seen, missed, place = [], 0, 0
    for flip, end in zip(flips, ends, strict=True):
        old, new = (DRAWN, FROZEN) if flip.is_freeze else (FROZEN, DRAWN)
        while place < len(replies.at) and replies.at[place] <= flip.committed:
            place += 1
        last, reached = flip.committed, set()
        for reply in range(place, len(replies.at)):
            if replies.at[reply] >= end:
                break
            if replies.reason[reply] == old:
                last = replies.at[reply]
            elif replies.reason[reply] == new:
                reached.add(replies.replica[reply])
        seen.append((last - flip.committed) * 1e3)
        missed += len(reached) < REPLICAS
    return seen, missed


def outage(gone: float, back: float, replies: Replies) -> tuple[float, float]:
    """Give the seconds until every replica served STALE alone, and from the database's return to the last one's draw.

    A replica that never served STALE while the database was away counts to its return; recovery is infinite where a
    replica never drew again. Replies that cross the return are received in any order, so they say nothing of the first.
    """
    baseline, recovery = [], []
    for replica in range(REPLICAS):
        said = [
            (at, reason)
            for at, reason, of in zip(replies.at, replies.reason, replies.replica, strict=True)
            if of == replica and at > gone
        ]
        last = max((at for at, reason in said if reason == STALE), default=float("inf"))
        baseline.append(max((at for at, reason in said if reason != STALE and at < back), default=gone) - gone)
        recovery.append(min((at for at, reason in said if reason == DRAWN and at > last), default=float("inf")) - back)
    return max(baseline), max(recovery)
