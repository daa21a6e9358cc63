"""One policy: what is served and learned, what it believes, how its traffic is shared, what happened to it."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import policy_pb2, proposal_pb2
from kedge_bandit.adapters.console import divergence, ramps, reading, wording
from kedge_bandit.adapters.console import proposals_read as proposals
from kedge_bandit.adapters.console.charts import Interval
from kedge_bandit.adapters.console.standing import FEWEST
from kedge_bandit.adapters.console.visit import Visit

_Z95: Final = 1.959964
_EVENTS_SHOWN: Final = 12
DIMENSIONS: Final = {
    policy_pb2.DIMENSION_MODEL_ROUTE: "Model route",
    policy_pb2.DIMENSION_REASONING_DEPTH: "Reasoning depth",
    policy_pb2.DIMENSION_PROMPT_VARIANT: "Prompt variant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What the evidence says of one action, all buckets together.

    Attributes:
        weight: discounted episodes.
        mean, lower, upper: discounted mean reward with a 95 % interval, in [0, 1].
    """

    key: str
    weight: float
    mean: float
    lower: float
    upper: float

    @property
    def is_known(self) -> bool:
        """Whether there are enough episodes for an interval."""
        return self.weight >= FEWEST


def beliefs_of(cells: Iterable[Any]) -> dict[str, Belief]:
    """Sum the cells of each action over its buckets; one without evidence is left out.

    >>> cell = policy_pb2.Cell(action_key="a", weight=100, reward_sum=60, reward_square_sum=40)
    >>> found = beliefs_of([cell])["a"]
    >>> found.mean, round(found.lower, 3), round(found.upper, 3)
    (0.6, 0.561, 0.639)
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for cell in cells:
        for place, value in enumerate((cell.weight, cell.reward_sum, cell.reward_square_sum)):
            sums[cell.action_key][place] += value
    found = {}
    for key, (weight, total, squares) in sums.items():
        if weight <= 0:
            continue
        mean = total / weight
        half = _Z95 * math.sqrt(max(0.0, squares / weight - mean * mean) / weight)
        found[key] = Belief(key=key, weight=weight, mean=mean, lower=max(0.0, mean - half), upper=min(1.0, mean + half))
    return found


def holdout_lift(proposals: Iterable[proposal_pb2.Proposal]) -> Interval | None:
    """Give the difference of quality with which what serves now was promoted last; None where this reader sees none."""
    serving = [one for one in proposals if wording.state(one) == "SERVING" and one.gate_result.HasField("quality")]
    if not serving:
        return None
    quality = max(serving, key=lambda one: one.approve_time.ToNanoseconds()).gate_result.quality
    return Interval(label="holdout", mean=quality.mean, lower=quality.lower, upper=quality.upper, tone="good")


async def show(visit: Visit) -> Response:
    """Show one policy."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    name = visit.policy
    standing, events, served, watched = await asyncio.gather(
        reading.standing_of(visit, visit.tenant, name, cells=True, metrics=True),
        reading.newest_events(visit, visit.tenant),
        proposals.list_of(visit, visit.tenant, proposals.SERVED, policy=name, most=_EVENTS_SHOWN),
        divergence.newest(visit, name, size=1),
    )
    return visit.show(
        "one_policy.html",
        section="policy",
        standing=standing,
        policy=standing.status.policy,
        beliefs=beliefs_of(standing.status.cells),
        fewest=FEWEST,
        figure=ramps.figure,
        dimensions=DIMENSIONS,
        ramps=[ramps.RampView(one) for one in standing.ramps],
        events=[event for event in events.events if event.subject.startswith(name)][:_EVENTS_SHOWN],
        served=served.found,
        on_holdout=holdout_lift(served.found),
        watched=watched,
    )
