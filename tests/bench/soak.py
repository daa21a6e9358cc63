"""Load a server and its worker at 70 % of what they can for five minutes: memory, latency and queue must not grow."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.http2_load import Headers, Measured, closed_loop, percentile
from tests.bench.lag_load import DECIDE, LOG, OUTCOME, Job, bodies_of, run_job
from tests.bench.tenants_place import (
    Place,
    database_with_commit_times,
    make_policy,
    onboard,
    running,
    running_server,
    schema_of,
    wait_for_vectors,
)
from tests.fixtures.stack import wait_for

SEED = 20260402
TENANTS = 20
SECONDS = float(os.environ.get("KEDGE_TEST_SECONDS", "300"))
"""Fewer while the bench itself is worked on."""
WINDOWS = 10
SHARE = 0.7
FILL, SAMPLE = 22_000, 1_500
"""Decisions that fill the server's memory of episodes, full at 20,000; episodes by which capacity is measured."""
SHAPE = (8, 4)
HEAD_START = 10.0
SURE = 0.99
GROWTH_BAR, NONE_BAR, RATE_BAR = Bar(at_most=0.02), Bar(at_most=0), Bar(at_least=0.98)
WAITING = """
SELECT (SELECT count(*) FROM {schema}.episode_event WHERE kind = 'LOG')
    - (SELECT count(*) FROM {schema}.evidence WHERE reward_version = 1)
"""


@dataclass(frozen=True, slots=True)
class Trend:
    """How a figure moved over a run, as a share of its mean.

    Attributes:
        growth: of the least-squares line from the first window to the last.
        noise: by which chance alone may make the line rise once in a hundred runs.
    """

    growth: float
    noise: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Trend":
        """Fit a line; the noise is Student's t with n - 2 degrees of freedom times the slope's standard error.

        >>> steady = Trend.of([10.0, 10.2, 9.9, 10.1, 9.8, 10.0])
        >>> steady.growth < steady.noise
        True
        >>> rising = Trend.of([10.0, 11.1, 11.9, 13.0, 14.1, 15.0])
        >>> rising.sure > 0.3
        True
        """
        y = np.asarray(values, dtype=float)
        x = np.arange(y.size) - (y.size - 1) / 2
        slope = float(x @ y / (x @ x))
        rest = y - y.mean() - slope * x
        error = float(np.sqrt(rest @ rest / (y.size - 2) / (x @ x)))
        span = (y.size - 1) / max(float(abs(y.mean())), 1e-9)
        return cls(slope * span, float(stdtrit(y.size - 2, SURE)) * error * span)

    @property
    def sure(self) -> float:
        """The growth that is certain at 99 %."""
        return self.growth - self.noise


@dataclass(slots=True)
class Watched:
    """Figures of each window."""

    memory: dict[str, list[float]] = field(default_factory=dict)
    waiting: list[float] = field(default_factory=list)


def soak(setting: Setting) -> Report:
    """Measure the capacity, load at a share of it, and look at every window."""
    with (
        database_with_commit_times() as place,
        running_server(place) as (server, port),
        running(place, "worker") as worker,
    ):
        onboard(place, port, range(TENANTS), make_policy())
        wait_for_vectors(place, range(TENANTS))
        setting.say("measuring the capacity")
        capacity = _capacity(place, port)
        rate = SHARE * capacity
        setting.say(f"{SECONDS:g} s at {rate:.0f} episodes a second")
        pids = {"server": server.pid, "worker": worker.pid, "PostgreSQL": place.postmaster}
        watched, sent = _load(place, port, rate, pids)
        wait_for(lambda: _waiting(place) == 0, "the last episodes to be learned", seconds=60)
    return _report(capacity, rate, watched, sent)


def _capacity(place: Place, port: int) -> float:
    """Fill the memory of episodes; then count episodes a second, from the first call to the last one's evidence."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(_closed, _job(place, port, DECIDE, FILL, seed=SEED)).result()
        began = time.monotonic()
        for path in (DECIDE, LOG, OUTCOME):
            done = pool.submit(_closed, _job(place, port, path, SAMPLE, seed=SEED + 1)).result()
            assert not done.failures, done.failures[:1]
        wait_for(lambda: _waiting(place) == 0, "the sample to be learned", seconds=60)
        return SAMPLE / (time.monotonic() - began)


def _closed(job: Job) -> Measured:
    bodies = [body.SerializeToString() for body in bodies_of(job)]
    headers = Headers(job.path, {"authorization": f"Bearer {job.key}"})
    measured = closed_loop(("127.0.0.1", job.port), headers, bodies, shape=SHAPE)
    measured.answers.clear()
    return measured


def _job(place: Place, port: int, path: str, episodes: int, *, seed: int, rate: float = 0.0, begin: float = 0.0) -> Job:
    return Job(
        path=path,
        port=port,
        key=place.database.operator_key,
        tenants=TENANTS,
        rate=rate,
        episodes=episodes,
        begin=begin,
        seed=seed,
    )


def _load(place: Place, port: int, rate: float, pids: dict[str, int]) -> tuple[Watched, dict[str, Measured]]:
    """Send for the whole time, and look once in each window."""
    watched, begin = Watched({name: [] for name in pids}), time.time() + HEAD_START
    jobs = [
        _job(place, port, path, round(rate * SECONDS), seed=SEED + 2, rate=rate, begin=begin)
        for path in (DECIDE, LOG, OUTCOME)
    ]
    with ProcessPoolExecutor(max_workers=len(jobs), mp_context=multiprocessing.get_context("spawn")) as pool:
        sending: list[Future[Measured]] = [pool.submit(run_job, job) for job in jobs]
        for number in range(WINDOWS):
            time.sleep(max(0.0, begin + (number + 1) * SECONDS / WINDOWS - time.time()))
            watched.waiting.append(_waiting(place))
            for name, pid in pids.items():
                watched.memory[name].append(_memory(pid))
        return watched, {job.path: done.result() for job, done in zip(jobs, sending, strict=True)}


def _memory(pid: int) -> float:
    """Read the memory that a process and its children have to themselves, in MB.

    What is mapped from files or shared is left out: its share changes whenever anybody else starts or ends, and the
    database's shared buffers fill up to their bound.
    """
    total = _anonymous(pid)
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
        with suppress(FileNotFoundError, ProcessLookupError):  # a backend that has just ended
            total += _anonymous(int(child))
    return total


def _anonymous(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return int(line.split()[1]) / 1024


def _waiting(place: Place) -> float:
    """Count episodes that were logged and are not in the evidence."""
    with place.connect() as connection:
        return float(
            sum(
                connection.execute(WAITING.format(schema=schema_of(number))).fetchall()[0][0]
                for number in range(TENANTS)
            )
        )


def _windows(latencies: Sequence[float]) -> list[float]:
    """Give the p99 of each window in milliseconds; at a fixed rate, the place in the list is the time."""
    size = len(latencies) // WINDOWS
    return [percentile(latencies[size * n : size * (n + 1)], 0.99) * 1e3 for n in range(WINDOWS)]


def _rows_of(name: str, values: Sequence[float], unit: str) -> list[Row]:
    """Show a figure's windows, and judge its growth; the first window is the load's own beginning."""
    trend = Trend.of(values[1:])
    spread = (min(values), max(values))
    return [
        Row(name=f"{name}, median of {WINDOWS} windows", value=percentile(values, 0.5), unit=unit, spread=spread),
        Row(name=f"{name}: growth, line through the windows", value=trend.growth),
        Row(name=f"{name}: growth less what chance explains", value=trend.sure, bar=GROWTH_BAR),
    ]


def _report(capacity: float, rate: float, watched: Watched, sent: dict[str, Measured]) -> Report:
    slowest = max(measured.seconds for measured in sent.values())
    rows = [
        Row(name="capacity, episodes a second", value=capacity),
        Row(name="rate kept / rate asked for", value=SECONDS / slowest, bar=RATE_BAR),
        Row(name="calls that failed", value=sum(len(one.failures) for one in sent.values()), bar=NONE_BAR),
    ]
    for name, values in watched.memory.items():
        rows += _rows_of(f"memory of {name}", values, "MB")
    for path, measured in sent.items():
        rows += _rows_of(f"p99 of {path.rpartition('/')[2]}", _windows(measured.latencies), "ms")
    rows += _rows_of("episodes logged and not yet learned", watched.waiting, "")
    notes = [
        f"{SECONDS:g} s at {SHARE:.0%} of the capacity, {rate:.0f} episodes a second over {TENANTS} tenants; each is a"
        " decision, a log and an outcome",
        f"growth from the second window to the last as a share of the mean; chance: Student's t at {SURE:.0%}",
    ]
    return Report(rows=rows, notes=notes, seeds=[SEED])
