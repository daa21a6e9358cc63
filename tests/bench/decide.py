"""Measure Decide against Echo on the same server object: requests per second, server CPU per request, added p99."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from subprocess import Popen

from tests.bench.decide_load import DECIDE, ECHO, Job, Load, requests_of_new_episodes, run_job
from tests.bench.decide_place import POLICY, Cores, Place, running_server
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import percentile

SEED = 20260305
ROUNDS = 5
SHAPE = (8, 8)
FLIGHT = f"{SHAPE[0] * SHAPE[1]} in flight"
LOTS = 3
LOT_REQUESTS = 2_000
RATE = 200.0
RATE_REQUESTS = 1_600
WARM_UP = 2_000
DRAIN_SECONDS = 30.0
SETTLE_SECONDS = 0.25
RPS_BAR, CPU_BAR, P99_BAR = Bar(at_least=0.75), Bar(at_most=1.35), Bar(at_most=2.0)
NONE_BAR, CLIENT_BAR = Bar(at_most=0), Bar(at_most=0.85)


@dataclass(slots=True)
class Rounds:
    """Figures of one RPC, one of each per round.

    Attributes:
        rps: answers per second with the closed loop's shape.
        cpu: microseconds of server CPU per request in the same loop, the group writer's included.
        client_share: the load's CPU over the wall clock; near 1 the load itself would be measured.
        p50, p99: milliseconds at the fixed rate.
    """

    rps: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    client_share: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)


def decide(setting: Setting) -> Report:
    """Compare with Echo while decisions are written after the answer."""
    bench, lost = measured(setting)
    return bench.report(lost)


def measured(setting: Setting, *, durable: bool = False) -> tuple["DecideBench", int]:
    """Interleave rounds of both RPCs, then end the server and count what it acknowledged and did not store.

    Args:
        durable: the tenant's decisions are committed before they are answered.
    """
    cores = Cores.of_this_machine()
    setting.say("starting PostgreSQL and the server")
    with running_server(cores, durable=durable) as (place, process):
        bench = DecideBench(place, cores)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
            bench.run(lambda job: pool.submit(run_job, job).result(), setting)
        setting.say("draining")
        lost = len(bench.acknowledged - _drained(process, place))
    return bench, lost


def _drained(process: "Popen[str]", place: Place) -> set[str]:
    """End the server as an operator does, which writes its queue, and read what is stored."""
    process.terminate()
    process.wait(DRAIN_SECONDS)
    return place.durable_decisions()


@dataclass(slots=True)
class DecideBench:
    """Turns of load on both RPCs.

    Attributes:
        fdatasync: milliseconds of one where PostgreSQL writes, the median of each round.
    """

    place: Place
    cores: Cores
    figures: dict[str, Rounds] = field(default_factory=lambda: {ECHO: Rounds(), DECIDE: Rounds()})
    fdatasync: list[float] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    _seed: int = SEED

    def run(self, load: Callable[[Job], Load], setting: Setting) -> None:
        """Warm both up, then measure in turns."""
        for path in self.figures:
            self._note(load(self._job(path, WARM_UP)))
        for number in range(1, ROUNDS + 1):
            setting.say(f"round {number} of {ROUNDS}: {SHAPE[0] * SHAPE[1]} in flight")
            self._closed_round(load)
            self.fdatasync.append(self.place.fdatasync_seconds() * 1e3)
            setting.say(f"round {number} of {ROUNDS}: {RATE:g} RPS")
            for path, figures in self.figures.items():
                paced = self._note(load(self._job(path, RATE_REQUESTS, rate=RATE)))
                figures.p50.append(percentile(paced.latencies, 0.50) * 1e3)
                figures.p99.append(percentile(paced.latencies, 0.99) * 1e3)

    def _closed_round(self, load: Callable[[Job], Load]) -> None:
        """Take turns in small lots, so that a passing disturbance meets both."""
        sums = {path: [0.0, 0.0, 0.0] for path in self.figures}
        for _ in range(LOTS):
            for path, sum_of in sums.items():
                before = self.place.cpu_seconds()
                closed = self._note(load(self._job(path, LOT_REQUESTS)))
                time.sleep(SETTLE_SECONDS)  # the group writer's last batches are part of what a decision costs
                for place, more in enumerate((closed.seconds, self.place.cpu_seconds() - before)):
                    sum_of[place] += more
                sum_of[2] += closed.client_cpu_seconds
        for path, (seconds, used, client) in sums.items():
            figures = self.figures[path]
            figures.rps.append(LOTS * LOT_REQUESTS / seconds)
            figures.cpu.append(used / (LOTS * LOT_REQUESTS) * 1e6)
            figures.client_share.append(client / seconds)

    def _job(self, path: str, requests: int, rate: float | None = None) -> Job:
        self._seed += 1
        return Job(
            address=self.place.address,
            path=path,
            key=self.place.key,
            policy=POLICY,
            requests=requests,
            seed=self._seed,
            core=self.cores.load,
            shape=SHAPE,
            rate=rate,
        )

    def _note(self, done: Load) -> Load:
        self.answers += len(done.decision_ids)
        self.acknowledged.update(done.decision_ids)
        self.wrong += done.wrong
        return done

    def report(self, lost: int) -> Report:
        """Judge the ratios, and that every answer was right."""
        rows = [
            Row.of_rounds(f"Decide RPS / Echo RPS, {FLIGHT}", self.rps_ratios, RPS_BAR),
            Row.of_rounds(f"Decide CPU / Echo CPU per request, {FLIGHT}", self.cpu_ratios, CPU_BAR),
            Row.of_rounds(f"p99(Decide) - p99(Echo) at {RATE:g} RPS", self.added_p99, P99_BAR, "ms"),
            *self.plain_rows(lost),
        ]
        return Report(rows=rows, controls=self.controls, notes=self.notes(), seeds=[SEED])

    @property
    def rps_ratios(self) -> list[float]:
        """Answers per second over Echo's, of each round."""
        return _ratios(self.figures[DECIDE].rps, self.figures[ECHO].rps)

    @property
    def cpu_ratios(self) -> list[float]:
        """Server CPU per request over Echo's, of each round."""
        return _ratios(self.figures[DECIDE].cpu, self.figures[ECHO].cpu)

    @property
    def added_p99(self) -> list[float]:
        """Milliseconds of p99 beyond Echo's at the fixed rate, of each round."""
        ours, echo = self.figures[DECIDE].p99, self.figures[ECHO].p99
        return [one - other for one, other in zip(ours, echo, strict=True)]

    @property
    def controls(self) -> list[Control]:
        """Echo's own figures."""
        echo = self.figures[ECHO]
        return [
            Control(f"Echo RPS, {FLIGHT}", echo.rps),
            Control(f"Echo CPU per request, {FLIGHT}", echo.cpu),
            Control(f"Echo p50 at {RATE:g} RPS", echo.p50),
        ]

    def plain_rows(self, lost: int) -> list[Row]:
        """Show the figures themselves, and judge that every answer was right and none was lost."""
        echo, ours = self.figures[ECHO], self.figures[DECIDE]
        return [
            *(
                Row.of_rounds(f"{name} {figure}", rounds, unit=unit)
                for name, found in (("Echo", echo), ("Decide", ours))
                for figure, rounds, unit in (
                    ("RPS", found.rps, "/s"),
                    ("CPU per request", found.cpu, "us"),
                    (f"p50 at {RATE:g} RPS", found.p50, "ms"),
                    (f"p99 at {RATE:g} RPS", found.p99, "ms"),
                )
            ),
            Row.of_rounds("the load's own CPU share, Echo", echo.client_share, CLIENT_BAR),
            Row(name="decisions acknowledged", value=len(self.acknowledged)),
            Row(name="acknowledged but not stored after the drain", value=lost, bar=NONE_BAR),
            Row(name="decision ids that came twice", value=self.answers - len(self.acknowledged), bar=NONE_BAR),
            Row(name="wrong answers (status, sum of P, propensity, reason)", value=len(self.wrong), bar=NONE_BAR),
        ]

    def notes(self) -> list[str]:
        """Say what was compared with what."""
        size = len(requests_of_new_episodes(POLICY, 1, SEED)[0])
        return [
            "Echo: bytes in, bytes out, nothing parsed, on the same grpc.aio server object and port;"
            f" asked the {size} B of a Decide request, answers the {len(self.place.answer)} B of a real Decide answer",
            f"{ROUNDS} interleaved rounds of {LOTS} x {LOT_REQUESTS:,} requests ({SHAPE[0]} connections x {SHAPE[1]})"
            f" and {RATE_REQUESTS:,} at {RATE:g} RPS; every decision is a new episode; decision log on",
            f"server alone on core {self.cores.server}, with uvloop; load, embedded PostgreSQL (fsync on) and the rest"
            f" on core {self.cores.load}; CPU is the server process's utime + stime",
            *self.wrong[:3],
        ]


def _ratios(ones: list[float], others: list[float]) -> list[float]:
    return [one / other for one, other in zip(ones, others, strict=True)]
