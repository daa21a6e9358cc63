"""Measure local decide: time per decision in the client's process; and every action is the one the server draws."""

import asyncio
import hashlib
import os
import random
import time
from dataclasses import dataclass, field

import psycopg

from kedge.bandit.v1 import decision_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge_client import Arm, Baseline, Kedge, Listener
from tests.bench.decide_load import DECIDE, TASKS
from tests.bench.decide_place import ARMS, POLICY, Cores, Place, running_server
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import Headers, closed_loop, percentile

SEED = 20260311
EPISODES = 100_000
ROUNDS = 5
LOT = 2_000
WARM_UP = 25_000  # more than a process remembers, so that what is forgotten makes room for what comes
SHAPE = (8, 8)
DRAIN_SECONDS = 60.0
P99_BAR, NONE_BAR = Bar(at_most=50.0), Bar(at_most=0)
YARDSTICK = 2_000  # hashes of a short message, before each lot

_FIRST = [Arm(names[0], names[0]) for names in ARMS.values()]
BASELINE = Baseline(model_route=_FIRST[0], reasoning_depth=_FIRST[1], prompt_variant=_FIRST[2])
_FACTS = "episode_id, action, propensity, bucket, allocation_version, is_randomised, judge_requested"


@dataclass(frozen=True, slots=True)
class Turn:
    """An episode and its features."""

    episode_id: str
    task: str
    words: float


@dataclass(slots=True)
class Counted(Listener):
    """Count what must not happen."""

    refused: int = 0
    dropped: int = 0

    def decision_refused(self, decision: str, why: str) -> None:
        self.refused += 1

    def decision_dropped(self, decision: str) -> None:
        self.dropped += 1


@dataclass(slots=True)
class Rounds:
    """Microseconds, one of each per round."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    hash: list[float] = field(default_factory=list)


def local_decide(setting: Setting) -> Report:
    """Decide every episode in this process, report, have the server decide the same ones, compare what is stored."""
    cores, counted, rounds = Cores.of_this_machine(), Counted(), Rounds()
    turns = _turns()
    setting.say("starting PostgreSQL and the server")
    with running_server(cores) as (place, process):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cores.load})
        served = asyncio.run(_decide(place, turns, counted, rounds, setting))
        setting.say(f"the server decides the same {EPISODES:,} episodes")
        headers = Headers(DECIDE, {"authorization": f"Bearer {place.key}"})
        there = closed_loop(place.address, headers, _requests(turns), shape=SHAPE)
        os.sched_setaffinity(0, before)
        setting.say("draining")
        process.terminate()
        process.wait(DRAIN_SECONDS)
        here, server = _stored(place)
    wrong = sum(here.get(turn.episode_id) != server.get(turn.episode_id) for turn in turns)
    unlike = sum(server[e][1:3] != facts for e, facts in served.items() if e in server)
    rows = [
        Row.of_rounds("local decide p99", rounds.p99, P99_BAR, "us"),
        Row.of_rounds("local decide p50", rounds.p50, unit="us"),
        Row.of_rounds("local decide mean", rounds.mean, unit="us"),
        Row(name="decided here, reported and stored", value=len(here)),
        Row(name="decided by the server and stored", value=len(server)),
        Row(name="episodes missing on either side", value=2 * EPISODES - len(here) - len(server), bar=NONE_BAR),
        Row(name="stored facts that differ", value=wrong, bar=NONE_BAR),
        Row(name="actions or propensities served here that differ from the server's", value=unlike, bar=NONE_BAR),
        Row(name="distinct actions", value=len({key for key, _ in served.values()})),
        Row(name="reports refused", value=counted.refused, bar=NONE_BAR),
        Row(name="reports dropped", value=counted.dropped, bar=NONE_BAR),
        Row(name="server answers that were not OK", value=len(there.failures), bar=NONE_BAR),
    ]
    return Report(rows=rows, controls=[Control("SHA-256 of a short message", rounds.hash)], notes=_NOTES, seeds=[SEED])


_NOTES = [
    f"{ROUNDS} rounds of {EPISODES // ROUNDS:,} new episodes in lots of {LOT:,}, one `await kedge.decide(...)` each,"
    " timed one by one in one thread, Python's collector on as by default; 12 actions, two features, a judge's draw",
    f"between lots, untimed: the reports go out and are acknowledged; {WARM_UP:,} decisions before the first round",
    "the same episodes are then asked of the server over HTTP/2, and both sides are read from the decision table",
]


async def _decide(
    place: Place, turns: list[Turn], counted: Counted, rounds: Rounds, setting: Setting
) -> dict[str, tuple[str, float]]:
    """Give the action and propensity served to each episode."""
    host, port = place.address
    served: dict[str, tuple[str, float]] = {}
    kedge = Kedge(
        f"{host}:{port}",
        key=place.key,
        tenant="bench",
        baselines={"support": BASELINE},
        local=["support"],
        listener=counted,
    )
    async with kedge:
        if not await kedge.ready(timeout_s=30):
            raise RuntimeError("no vectors came: nothing can be decided here")
        warming = _turns(WARM_UP, seed=SEED + 1)
        for start in range(0, WARM_UP, LOT):
            await _lot(kedge, warming[start : start + LOT])
        for number in range(ROUNDS):
            setting.say(f"round {number + 1} of {ROUNDS}: deciding here")
            taken: list[float] = []
            hashed: list[float] = []
            share = turns[number * EPISODES // ROUNDS : (number + 1) * EPISODES // ROUNDS]
            for start in range(0, len(share), LOT):
                hashed.append(_yardstick())
                lot = share[start : start + LOT]
                keys, propensities, seconds = await _lot(kedge, lot)
                taken += seconds
                facts = zip(keys, propensities, strict=True)
                served |= {turn.episode_id: fact for turn, fact in zip(lot, facts, strict=True)}
            rounds.p50.append(percentile(taken, 0.50) * 1e6)
            rounds.p99.append(percentile(taken, 0.99) * 1e6)
            rounds.mean.append(sum(taken) / len(taken) * 1e6)
            rounds.hash.append(percentile(hashed, 0.50) * 1e6)
    return served


async def _lot(kedge: Kedge, turns: list[Turn]) -> tuple[list[str], list[float], list[float]]:
    """Decide, one by one, then let the reports go out; a choice is let go of as soon as it has been looked at."""
    keys: list[str] = []
    propensities: list[float] = []
    seconds: list[float] = []
    clock = time.perf_counter
    for turn in turns:
        categories, numbers = {"task": turn.task}, {"words": turn.words}
        began = clock()
        choice = await kedge.decide("support", episode_id=turn.episode_id, categories=categories, numbers=numbers)
        seconds.append(clock() - began)
        keys.append(choice.action_key)
        propensities.append(choice.propensity)
    while kedge._local.waiting:  # noqa: ASYNC110 - the next lot starts on a quiet machine
        await asyncio.sleep(0.01)
    return keys, propensities, seconds


def _yardstick() -> float:
    message = b"kedge.draw.v1" * 6
    began = time.perf_counter()
    for _ in range(YARDSTICK):
        hashlib.sha256(message).digest()
    return (time.perf_counter() - began) / YARDSTICK


def _turns(count: int = EPISODES, *, seed: int = SEED) -> list[Turn]:
    rng = random.Random(seed)
    return [Turn(f"{rng.getrandbits(128):032x}", rng.choice(TASKS), float(rng.randrange(1, 900))) for _ in range(count)]


def _requests(turns: list[Turn]) -> list[bytes]:
    return [
        pb.DecideRequest(
            policy=POLICY,
            request_id=turn.episode_id,
            episode_id=turn.episode_id,
            context=decision_pb2.Context(categories={"task": turn.task}, numbers={"words": turn.words}),
        ).SerializeToString()
        for turn in turns
    ]


def _stored(place: Place) -> tuple[dict[str, tuple[object, ...]], dict[str, tuple[object, ...]]]:
    """Read what the log holds of the bench's episodes, made here and by the server."""
    wanted = {turn.episode_id for turn in _turns()}
    found: tuple[dict[str, tuple[object, ...]], ...] = ({}, {})
    with psycopg.connect(place.database.owner_url) as connection:
        for is_local, *facts in connection.execute(f"SELECT is_local, {_FACTS} FROM t_bench.decision"):
            if facts[0] in wanted:
                found[0 if is_local else 1][facts[0]] = tuple(facts)
    return found[0], found[1]
