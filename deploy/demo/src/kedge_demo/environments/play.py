"""Play the streams through gRPC: ask who plays, play the episode, report its grade, its breach and its price.

    python -m kedge_demo.environments.play --address HOST:PORT --keys FILE --out DIR [--scale SHARE]

Policies and keys must be there. The episodes are played in processes of their own. Writes DIR/played.json, the client's
own account of everything, which the measure holds against the export.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Final

from rich.console import Console
from rich.progress import track

from kedge.bandit.v1 import episode_pb2 as episodes
from kedge.bandit.v1.outcome_pb2 import Outcome, OutcomeStatus
from kedge_client.action import Arm, Baseline
from kedge_client.choice import Choice
from kedge_client.errors import KedgeClientError
from kedge_client.kedge import Kedge
from kedge_client.outcomes import OutcomeMaker
from kedge_demo.environments.policy import TENANT, policy_id
from kedge_demo.environments.roster import ACTIONS, BASELINE, LABELS
from kedge_demo.environments.streams import STREAMS, Item, Played, cost_usd, items, play_item, turns_at
from kedge_demo.pace import PlayFailed
from kedge_demo.play import DECIDE_DEADLINE_S, single_failures

PLAYED_FILE: Final = "played.json"
SLOTS: Final = 6
"""Episodes of a stream that are under way at a time."""
VETOES: Final[Mapping[str, str]] = {
    "rule_violation": "GUARDRAIL_POLICY",
    "hold_on_active_fault": "APPROVAL_BYPASSED",
    "budget_exhausted": "TOOL_BLOCKED",
    "pii_in_report": "GUARDRAIL_PII",
    "foreign_citation": "ASSERTION_TENANT_ISOLATION",
}
"""Kedge's reason for each of the environments' vetoes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Account for one turn of a stream: which action was decided, as a place, and what it came to."""

    stream: int
    turn: int
    action: int
    grade: float
    breach: str
    steps: int

    @property
    def quality(self) -> float:
        """The grade; 0 where a rule was broken."""
        return 0.0 if self.breach else self.grade


def outcomes(played: Played, place: int, make: OutcomeMaker, name: str) -> list[Outcome]:
    """Say what the environment said: its grade, whether a rule was broken, and the price."""
    safety = (
        make.safety_tripped(VETOES[played.breach], key=f"{name}:safety")
        if played.breach
        else make.safety_clean(key=f"{name}:safety")
    )
    return [
        make.task_success(min(1.0, max(0.0, played.grade)), key=f"{name}:task"),
        safety,
        make.cost(cost_usd(place, played.steps), key=f"{name}:cost"),
    ]


class Stream:
    """Play one stream once, some turns at a time, in the order of its episodes."""

    def __init__(self, number: int, turns: int, kedge: Kedge, pool: ProcessPoolExecutor) -> None:
        """Prepare; nothing is asked yet."""
        self.done: list[Turn] = []
        self._number = number
        self._left = iter(enumerate(items(number, turns)))
        self._kedge = kedge
        self._pool = pool

    async def play(self) -> None:
        """Play every turn; returns when all of it is acknowledged."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SLOTS):
                group.create_task(self._play_some())

    async def _play_some(self) -> None:
        for turn, item in self._left:
            self.done.append(await self._play(turn, item))

    async def _play(self, turn: int, item: Item) -> Turn:
        name = f"turn-{turn:06d}"
        choice = await self._kedge.decide(
            policy_id(self._number), episode_id=name, request_id=name, categories={"task": item.task.label}
        )
        if choice.fallback:
            raise PlayFailed(f"no decision for {name}: {choice.failure}")
        place = LABELS.index(_label(choice))
        played = await asyncio.get_running_loop().run_in_executor(self._pool, play_item, item, place)
        await self._report(choice, played, place, f"{self._number}:{name}")
        return Turn(
            stream=self._number, turn=turn, action=place, grade=played.grade, breach=played.breach, steps=played.steps
        )

    async def _report(self, choice: Choice, played: Played, place: int, name: str) -> None:
        sent = outcomes(played, place, self._kedge.about(choice.handle), name)
        for outcome, result in zip(sent, await self._kedge.record_outcomes(sent), strict=True):
            if result.status not in (OutcomeStatus.OUTCOME_STATUS_RECORDED, OutcomeStatus.OUTCOME_STATUS_DUPLICATE):
                raise PlayFailed(f"outcome {outcome.idempotency_key} was refused: {result.detail}")
        call = episodes.LlmCall(model_id=ACTIONS[place].model_id)
        await self._kedge.log_episode(choice.handle, episodes.Trajectory(llm_calls=[call], terminated=True))


def _label(choice: Choice) -> str:
    return next(action.label for action in ACTIONS if action.key == choice.action_key)


async def play(address: str, key: str, turns: int, console: Console) -> list[Turn]:
    """Play all streams side by side against a running server."""
    route, depth = ACTIONS[LABELS.index(BASELINE)].arms
    local = Baseline(model_route=Arm(route.name, route.content), reasoning_depth=Arm(depth.name, depth.content))
    kedge = Kedge(
        address,
        key=key,
        tenant=TENANT,
        baselines={policy_id(number): local for number in STREAMS},
        decide_deadline_s=DECIDE_DEADLINE_S,
        call_deadline_s=30.0,
    )
    # A fresh process, since a fork would copy gRPC's threads.
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        async with kedge:
            streams = [Stream(number, turns, kedge, pool) for number in STREAMS]
            shown = asyncio.create_task(_show(streams, turns, console))
            try:
                async with asyncio.TaskGroup() as group:
                    for stream in streams:
                        group.create_task(stream.play())
            finally:
                shown.cancel()
                await asyncio.wait([shown])
    return sorted((turn for stream in streams for turn in stream.done), key=lambda one: (one.stream, one.turn))


async def _show(streams: Sequence[Stream], turns: int, console: Console) -> None:
    """Show how far the streams are, until cancelled."""
    every = 0.2 if console.is_terminal else 5.0
    total, seen = len(streams) * turns, 0
    bar = iter(track(range(total), "episodes", console=console, disable=not console.is_terminal))
    while True:
        await asyncio.sleep(every)
        done = sum(len(stream.done) for stream in streams)
        for _ in range(done - seen):
            next(bar, None)
        seen = done
        if not console.is_terminal:
            console.print(f"· {done:,} of {total:,} episodes", highlight=False)


def read_played(folder: Path) -> tuple[int, list[Turn]]:
    """Read the account back: turns of a stream, and every turn that was played."""
    found = json.loads((folder / PLAYED_FILE).read_text(encoding="utf-8"))
    return int(found["turns"]), [Turn(**one) for one in found["played"]]


def main() -> int:
    """Play, and write down what was played."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.environments.play", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", required=True, help="host:port of the gRPC server")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--keys", type=Path, required=True, help='JSON: {"core_app": "…", "viewer": "…"}')
    parser.add_argument("--scale", type=float, default=1.0, help="share of the turns to play, for trials")
    options = parser.parse_args()
    console = Console(stderr=True)
    key = json.loads(options.keys.read_text(encoding="utf-8"))["core_app"]
    turns, started = turns_at(options.scale), perf_counter()
    played: list[Turn] = []
    try:
        played = asyncio.run(play(options.address, key, turns, console))
    except* (PlayFailed, KedgeClientError) as failures:
        for failure in single_failures(failures):
            console.print(f"the demo stopped: {failure}", style="red", markup=False)
    if not played:
        return 1
    seconds = perf_counter() - started
    content = {"turns": turns, "seconds": seconds, "played": [asdict(one) for one in played]}
    (options.out / PLAYED_FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")
    console.print(f"· {len(played):,} episodes in {seconds:.0f} s", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
