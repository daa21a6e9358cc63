"""Measure how long what was reported takes to become belief: 200 busy tenants, one server, one worker."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.bench.http2_load import Measured, percentile
from tests.bench.lag_load import DECIDE, LOG, OUTCOME, Job, run_job
from tests.bench.tenants_place import (
    Place,
    cpu_seconds,
    schema_of,
)
from tests.fixtures.stack import wait_for

SEED = 20260311
TENANTS = 200
RATE = 400.0
SECONDS = 30.0
WARM_SECONDS = 5.0
"""Of the load's begin, not measured: connections open, caches fill."""
HEAD_START = 8.0
"""Seconds in which the load's processes start and make their requests."""
LAG = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(e.xmin)),
    extract(epoch FROM pg_xact_commit_timestamp(e.xmin) - pg_xact_commit_timestamp(greatest(v.x, o.x)::text::xid))
FROM {schema}.evidence e
JOIN {schema}.episode_event v ON v.policy = e.policy AND v.episode_id = e.episode_id
JOIN {schema}.outcome o ON o.policy = e.policy AND o.episode_id = e.episode_id
WHERE e.reward_version = 1 AND e.episode_id LIKE %s AND v.kind = 'LOG'
"""
"""When an episode's evidence was committed, and how long after the last of the rows that settled it."""


@dataclass(slots=True)
class Load:
    """What one load at a fixed rate showed.

    Attributes:
        lags: seconds, by when the fold was committed.
        cpu: cores used by worker, PostgreSQL and server.
    """

    rate: float
    lags: list[tuple[float, float]] = field(default_factory=list)
    sent: dict[str, Measured] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    passes: float = 0.0


@dataclass(slots=True)
class Runner:
    """Put loads on a place where server and worker run."""

    place: Place
    port: int
    pids: dict[str, int]
    tenants: int = TENANTS
    seed: int = SEED

    def run(self, rate: float, seconds: float) -> Load:
        """Run one load to its end and read every lag of it."""
        self.seed += 1
        load, begin = Load(rate), time.time() + HEAD_START
        jobs = [self._job(path, rate, seconds, begin) for path in (DECIDE, LOG, OUTCOME)]
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max_workers=len(jobs), mp_context=spawn) as pool:
            waiting = [pool.submit(run_job, job) for job in jobs]
            time.sleep(max(0.0, begin + WARM_SECONDS - time.time()))
            before, began = self._cpu(), time.monotonic()
            load.sent = {job.path: done.result() for job, done in zip(jobs, waiting, strict=True)}
            after, took = self._cpu(), time.monotonic() - began
        load.cpu = {name: (after[name] - before[name]) / took for name in after}
        wait_for(lambda: len(self._lags(0.0)) >= jobs[0].episodes, "every episode to be folded", seconds=120)
        load.lags = self._lags(begin + WARM_SECONDS)
        return load

    def _job(self, path: str, rate: float, seconds: float, begin: float) -> Job:
        return Job(
            path=path,
            port=self.port,
            key=self.place.database.operator_key,
            tenants=self.tenants,
            rate=rate,
            episodes=round(rate * (seconds + WARM_SECONDS)),
            begin=begin,
            seed=self.seed,
        )

    def _cpu(self) -> dict[str, float]:
        used = {name: cpu_seconds(pid) for name, pid in self.pids.items()}
        return {**used, "PostgreSQL": cpu_seconds(self.place.postmaster, with_children=True)}

    def _lags(self, since: float) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        with self.place.connect() as connection:
            for number in range(self.tenants):
                rows = connection.execute(LAG.format(schema=schema_of(number)), [f"{self.seed}-%"])
                found += [(float(time_), float(lag)) for time_, lag in rows if time_ >= since]
        return sorted(found)


def summary(load: Load) -> str:
    """Say a load's figures in one line."""
    lags = [lag for _, lag in load.lags]
    failed = sum(len(measured.failures) for measured in load.sent.values())
    cpu = ", ".join(f"{name} {share:.2f}" for name, share in load.cpu.items())
    return (
        f"{load.rate:g}/s: p50 {percentile(lags, 0.5) * 1e3:.0f} ms, p99 {percentile(lags, 0.99) * 1e3:.0f} ms,"
        f" max {max(lags) * 1e3:.0f} ms of {len(lags)}; failed {failed}; cores: {cpu}"
    )
