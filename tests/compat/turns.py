"""Play turns with the Python client of whatever revision is on the path, and write down what was acknowledged.

A program of its own: it imports the client and its stubs, nothing else of this repository, since both may be old.
Every event is said twice, as a caller does that has lost the answer; a line is written after the first acknowledgement
and before the next call.
"""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from typing import TextIO

from kedge.bandit.v1.episode_pb2 import GUARDRAIL_KIND_PII, Trajectory
from kedge.bandit.v1.outcome_pb2 import OUTCOME_STATUS_DUPLICATE, OUTCOME_STATUS_RECORDED
from kedge_client import Arm, Baseline, Kedge, Listener

PATIENT_S = 60.0
AT_ONCE = 8
BASELINES = {"support": Baseline(model_route=Arm("small", "small-model"))}
TAKEN = (OUTCOME_STATUS_RECORDED, OUTCOME_STATUS_DUPLICATE)


class Unreported(Listener):
    """Keeps the decisions made here that no server has taken."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def decision_refused(self, decision: str, why: str) -> None:
        sys.stderr.write(f"refused: {decision} {why}\n")
        self.names.add(decision)

    def decision_dropped(self, decision: str) -> None:
        self.names.add(decision)


def client(local: tuple[str, ...] = (), listener: Listener | None = None) -> Kedge:
    """Make a client that waits for the server however slow the machine is."""
    return Kedge(
        os.environ["KEDGE_ADDRESS"],
        key=os.environ["KEDGE_KEY"],
        tenant=os.environ["KEDGE_TENANT"],
        baselines=BASELINES,
        decide_deadline_s=PATIENT_S,
        call_deadline_s=PATIENT_S,
        local=local,
        listener=listener,
    )


async def remote(prefix: str, turns: int, told: TextIO) -> None:
    """Decide by RPC, record an outcome, log the episode."""
    numbers = count()
    async with client() as kedge:
        assert await kedge.ready(timeout_s=PATIENT_S)

        async def worker() -> None:
            while (number := next(numbers)) < turns:
                await turn(kedge, f"{prefix}-{number}", told)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def turn(kedge: Kedge, episode: str, told: TextIO) -> None:
    """Say everything of one turn, twice."""
    choices = [await kedge.decide("support", episode_id=episode, categories={"task": "math"}) for _ in range(2)]
    if any(choice.fallback for choice in choices):
        sys.stderr.write(f"no decision: {[choice.failure for choice in choices]}\n")
        return
    acknowledge(told, "decision", episode)
    assert choices[0].action_key == choices[1].action_key
    outcome = kedge.about(choices[0].handle).task_success(1.0)
    for _ in range(2):
        [result] = await kedge.record_outcomes([outcome])
        assert result.status in TAKEN, result
        acknowledge(told, "outcome", outcome.idempotency_key)
    ended = Trajectory(terminated=True)
    ended.guardrail_events.add(kind=GUARDRAIL_KIND_PII)
    for _ in range(2):
        await kedge.log_episode(choices[0].handle, ended)
        acknowledge(told, "episode", episode)


async def local(prefix: str, turns: int, told: TextIO) -> None:
    """Decide in this process; a report that is neither refused nor dropped at the end was acknowledged."""
    unreported = Unreported()
    kedge = client(("support",), unreported)
    made = {}
    try:
        assert await kedge.ready(timeout_s=PATIENT_S)
        for number in range(turns):
            choice = await kedge.decide("support", episode_id=f"{prefix}-l{number}", categories={"task": "math"})
            assert not choice.fallback, choice.failure
            made[choice.decision] = choice.episode_id
    finally:
        await kedge.close(timeout_s=PATIENT_S)
    for decision, episode in made.items():
        if decision not in unreported.names:
            acknowledge(told, "local decision", episode)


def acknowledge(told: TextIO, kind: str, key: str) -> None:
    """Write down that the server has taken an event."""
    told.write(f"{kind}\t{key}\n")
    told.flush()


async def main(prefix: str, turns: int, file: Path) -> None:
    """Play both ways."""
    with file.open("w", encoding="utf-8") as told:
        await remote(prefix, turns, told)
        await local(prefix, turns, told)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
