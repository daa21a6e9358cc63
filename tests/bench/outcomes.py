"""Measure how fast outcomes are recorded: against one insert per call, and against COPY of the same rows."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import grpc
import orjson

from tests.bench.decide_load import ECHO
from tests.bench.decide_place import Cores
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.outcomes_inside import SERVICE as INSIDE
from tests.bench.outcomes_inside import key_of
from tests.bench.outcomes_load import GROUP, INSERT, Job, Load, run_job, tokens_of
from tests.bench.outcomes_place import TENANTS, Ceiling, Served, running

SEED = 20260317
ROUNDS, TURNS = 5, 3
"""A round is so many turns of everything, one after the other: what disturbs one second of it disturbs all alike."""
BATCH = 50
COPY_ROWS, COPY_TRANSACTIONS = 5_000, 4
TOKENS_OF_THE_ONE, TOKENS_OF_EACH = 8_000, 40
INSERT_BAR, SPREAD_BAR = Bar(at_least=3.0), Bar(at_least=4.0)
SINGLE_BAR, BATCH_BAR, NONE_BAR, LOAD_BAR = Bar(at_least=0.20), Bar(at_least=0.25), Bar(at_most=0), Bar(at_most=0.85)
# Name of a shape: RPC, callers, RPCs of a round, outcomes of an RPC, over all tenants.
SHAPES: dict[str, tuple[str, int, int, int, bool]] = {
    "64 callers": (GROUP, 64, 3_000, 1, False),
    "64 callers, insert per RPC": (INSERT, 64, 1_500, 1, False),
    "64 callers, echo": (ECHO, 64, 3_000, 1, False),
    "256 callers": (GROUP, 256, 3_000, 1, False),
    "RPCs of 50": (GROUP, 64, 500, BATCH, False),
    "RPCs of 50, 200 tenants": (GROUP, 64, 500, BATCH, True),
    "256 callers, 200 tenants": (GROUP, 256, 3_000, 1, True),
    "256 callers, 200 tenants, insert per RPC": (INSERT, 256, 2_000, 1, True),
}
# Callers inside the process: way, callers, outcomes of a round, tenants.
INSIDES: dict[str, tuple[str, int, int, int]] = {
    "inside: 64 callers": ("group", 64, 6_000, 1),
    "inside: 64 callers, insert per call": ("insert", 64, 2_000, 1),
    "inside: 256 callers": ("group", 256, 15_000, 1),
    "inside: 256 callers, 200 tenants": ("group", 256, 8_000, TENANTS),
    "inside: 256 callers, 200 tenants, insert per call": ("insert", 256, 4_000, TENANTS),
}
CEILING = "COPY"


def outcomes(setting: Setting) -> Report:
    """Interleave rounds of all shapes, then end the server and compare what it acknowledged with what is stored."""
    cores = Cores.of_this_machine()
    setting.say(f"starting PostgreSQL, the server and {TENANTS} tenants")
    spawn = multiprocessing.get_context("spawn")
    with running(cores) as served, ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        bench = _Bench(served, cores, lambda job: pool.submit(run_job, job).result())
        setting.say("deciding")
        for tenants, count in ((range(1), TOKENS_OF_THE_ONE), (range(1, TENANTS), TOKENS_OF_EACH)):
            bench.tokens |= pool.submit(tokens_of, bench.address, served.key, tenants, count, cores.load).result()
        bench.run(setting)
        setting.say("draining")
        served.drained()
        lost, doubled = bench.compared()
    return bench.report(lost, doubled)


@dataclass(slots=True)
class _Bench:
    """Measure in turns.

    Attributes:
        turns: outcomes (or RPCs, or rows), seconds and the server's CPU seconds of each turn of this round, by shape.
        rates: outcomes (or RPCs, or rows) per second by shape, one for each round.
        cpu: the server's CPU for one of them, microseconds.
    """

    served: Served
    cores: Cores
    load: Callable[[Job], Load]
    tokens: dict[int, Sequence[bytes]] = field(default_factory=dict)
    turns: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    load_share: list[float] = field(default_factory=list)
    acknowledged: dict[int, list[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    _seed: int = SEED

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.served.port)

    def run(self, setting: Setting) -> None:
        """Warm every shape up, then measure them in turns."""
        with grpc.insecure_channel(f"127.0.0.1:{self.served.port}") as channel:
            inside: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{INSIDE}/Run")
            self._turn(inside, share=0.3)
            ceiling = Ceiling(self.served.place)
            ceiling.rows_per_second(transactions=COPY_TRANSACTIONS, rows=COPY_ROWS)
            self.turns, self.load_share = {}, []
            for number in range(1, ROUNDS + 1):
                setting.say(f"round {number} of {ROUNDS}")
                for _ in range(TURNS):
                    copied = ceiling.rows_per_second(transactions=COPY_TRANSACTIONS, rows=COPY_ROWS)
                    self.turns.setdefault(CEILING, []).append((COPY_ROWS, COPY_ROWS / copied, 0.0))
                    self._turn(inside, share=1.0 / TURNS)
                self._end_round()

    def _turn(self, inside: "grpc.UnaryUnaryMultiCallable[bytes, bytes]", *, share: float) -> None:
        for name in SHAPES:
            self._from_outside(name, share)
        for name in INSIDES:
            self._from_inside(name, inside, share)

    def _end_round(self) -> None:
        for name, turns in self.turns.items():
            count, seconds, cpu = (sum(part) for part in zip(*turns, strict=True))
            self.rates.setdefault(name, []).append(count / seconds)
            if cpu:
                self.cpu.setdefault(name, []).append(cpu / count * 1e6)
        self.turns = {}

    def _from_outside(self, name: str, share: float) -> None:
        path, callers, rpcs, batch, everywhere = SHAPES[name]
        self._seed += 1
        job = Job(
            address=self.address,
            path=path,
            key=self.served.key,
            callers=callers,
            rpcs=int(rpcs * share),
            batch=batch,
            tokens=self.tokens if everywhere else {0: self.tokens[0]},
            seed=self._seed,
            core=self.cores.load,
        )
        before = self.served.server_cpu()
        done = self.load(job)
        self._note(name, job.rpcs * batch, done.seconds, self.served.server_cpu() - before)
        self.load_share.append(done.client_cpu_seconds / done.seconds)
        self.wrong += done.wrong
        for number, keys in done.acknowledged.items():
            self.acknowledged.setdefault(number, []).extend(keys)

    def _from_inside(self, name: str, inside: "grpc.UnaryUnaryMultiCallable[bytes, bytes]", share: float) -> None:
        way, callers, count, tenants = INSIDES[name]
        self._seed += 1
        count = int(count * share)
        before = self.served.server_cpu()
        asked = {"way": way, "callers": callers, "outcomes": count, "tenants": tenants, "seed": self._seed}
        seconds = orjson.loads(inside(orjson.dumps(asked)))
        self._note(name, count, seconds, self.served.server_cpu() - before)
        for number in range(count):
            self.acknowledged.setdefault(number % tenants, []).append(key_of(self._seed, number))

    def _note(self, name: str, count: int, seconds: float, cpu: float) -> None:
        self.turns.setdefault(name, []).append((count, seconds, cpu))

    def compared(self) -> tuple[int, int]:
        """Count outcomes that were acknowledged and are not stored, and those that are stored twice."""
        lost = doubled = 0
        for number, keys in self.acknowledged.items():
            stored = self.served.stored(number)
            lost += len(set(keys) - stored.keys())
            doubled += sum(count > 1 for count in stored.values())
        return lost, doubled

    def report(self, lost: int, doubled: int) -> Report:
        """Judge the ratios, and that nothing acknowledged was lost or doubled."""
        insert, insert_inside = "64 callers, insert per RPC", "inside: 64 callers, insert per call"
        spread, spread_inside = "256 callers, 200 tenants", "inside: 256 callers, 200 tenants"
        rows = [
            self._ratio("64 callers", insert, INSERT_BAR),
            self._ratio("RPCs of 50", CEILING, BATCH_BAR),
            self._ratio("RPCs of 50, 200 tenants", CEILING, BATCH_BAR),
            self._ratio("inside: 64 callers", insert_inside, INSERT_BAR),
            self._ratio("inside: 256 callers", CEILING, SINGLE_BAR),
            self._ratio(spread_inside, f"{spread_inside}, insert per call", SPREAD_BAR),
            self._ratio("256 callers", CEILING),
            self._ratio(spread, f"{spread}, insert per RPC"),
            self._ratio("64 callers", "64 callers, echo"),
            *(Row.of_rounds(name, rounds, unit="/s") for name, rounds in self.rates.items()),
            *(Row.of_rounds(f"server CPU: {name}", rounds, unit="us") for name, rounds in self.cpu.items()),
            Row.of_rounds("the load's own CPU share", self.load_share, LOAD_BAR),
            Row(name="outcomes acknowledged", value=sum(map(len, self.acknowledged.values()))),
            Row(name="acknowledged but not stored after the drain", value=lost, bar=NONE_BAR),
            Row(name="stored twice", value=doubled, bar=NONE_BAR),
            Row(name="wrong answers", value=len(self.wrong), bar=NONE_BAR),
        ]
        controls = [
            Control(name, self.rates[name])
            for name in (
                CEILING,
                insert,
                f"{spread}, insert per RPC",
                insert_inside,
                f"{spread_inside}, insert per call",
            )
        ]
        return Report(rows=rows, controls=controls, notes=[*_NOTES, *self.wrong[:3]], seeds=[SEED])

    def _ratio(self, name: str, control: str, bar: Bar | None = None) -> Row:
        rounds = [one / other for one, other in zip(self.rates[name], self.rates[control], strict=True)]
        return Row.of_rounds(f"{name} / {control}", rounds, bar or Bar())


_NOTES = [
    "insert per RPC: the same servicer on the same server object, but each call is a transaction of its own on one of"
    " 16 pooled connections: role and search_path, one INSERT of key and fact, commit",
    "inside: callers in the server's process, without gRPC on either side, as the bars of single outcomes were set;"
    " over gRPC the transport is most of a call, see the echo",
    f"COPY: {COPY_ROWS:,} rows a transaction into the two tables an outcome is stored in, with their indexes, of a"
    " tenant of its own, empty before each round",
    "embedded PostgreSQL, fsync on; the server alone on one core, load and PostgreSQL on the other; no worker runs",
]
