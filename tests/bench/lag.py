"""Measure how long what was reported takes to become belief: 200 busy tenants, one server, one worker."""

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from sqlalchemy.ext.asyncio import create_async_engine

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.rebuild import Rebuild, Rebuilt
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.entrypoints.bootstrap import core_url
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import Measured, percentile
from tests.bench.lag_load import DECIDE, LOG, OUTCOME, Job, run_job
from tests.bench.tenants_place import (
    Place,
    cpu_seconds,
    database_with_commit_times,
    make_policy,
    onboard,
    running,
    running_server,
    schema_of,
    tenant_of,
    wait_for_vectors,
)
from tests.fixtures.stack import wait_for

SEED = 20260311
TENANTS = 200
RATE, ROUNDS, SECONDS = 50.0, 3, 15.0
"""Episodes a second over all tenants; each is a decision, a log and an outcome, in calls and commits of their own."""
MORE_RATES = (100.0, 200.0)
REBUILT = 5
COMMITS = 40
P50_BAR, P99_BAR, NONE_BAR, EXACT_BAR = Bar(at_most=150), Bar(at_most=1000), Bar(at_most=0), Bar(at_most=1e-9)
WARM_SECONDS = 3.0
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
    episodes: int = 0

    @property
    def failures(self) -> int:
        return sum(len(measured.failures) for measured in self.sent.values())

    def share(self, part: float) -> float:
        """Give a percentile of the lags in milliseconds."""
        return percentile([lag for _, lag in self.lags], part) * 1e3


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
        load.episodes = jobs[0].episodes
        wait_for(lambda: len(self._lags(0.0)) >= load.episodes, "every episode to be folded", seconds=120)
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


def lag(setting: Setting) -> Report:
    """Load at the rate of the bar in rounds, then at higher rates; at the end compare the belief with its log."""
    setting.say("starting PostgreSQL and the server")
    tenants = range(TENANTS)
    with database_with_commit_times() as place, running_server(place) as (server, port):
        with running(place, "worker") as worker:
            setting.say(f"making {TENANTS} tenants")
            onboard(place, port, tenants, make_policy())
            wait_for_vectors(place, tenants)
            runner = Runner(place, port, {"server": server.pid, "worker": worker.pid})
            commits: list[float] = []
            rounds = []
            for number in range(1, ROUNDS + 1):
                setting.say(f"round {number} of {ROUNDS}: {RATE:g} episodes a second")
                commits.append(commit_milliseconds(place))
                rounds.append(runner.run(RATE, SECONDS))
            more = []
            for rate in MORE_RATES:
                setting.say(f"{rate:g} episodes a second")
                more.append(runner.run(rate, SECONDS))
        setting.say("comparing the belief with its log")
        rebuilt = asyncio.run(rebuild_some(place))
        wrong = miscounted(place, sum(load.episodes for load in [*rounds, *more]))
    return _report(rounds, more, commits, rebuilt, wrong)


def commit_milliseconds(place: Place) -> float:
    """Measure the control: the median of writing transactions of a single row, each with its fsync."""
    took = []
    with place.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.bench_commit (one int)")
        for _ in range(COMMITS):
            began = time.perf_counter()
            connection.execute("INSERT INTO public.bench_commit VALUES (1)")
            took.append((time.perf_counter() - began) * 1e3)
    return median(took)


async def rebuild_some(place: Place) -> list[Rebuilt]:
    """Fold the evidence logs of some tenants anew."""
    engine = create_async_engine(core_url(place.database.service_url))
    rebuild = Rebuild(PostgresLedgers(engine), HmacSeals({}))
    names = [TenantId(tenant_of(number)) for number in range(0, TENANTS, TENANTS // REBUILT)]
    found = [await rebuild(name, PolicyName("support"), verify_only=True) for name in names]
    await engine.dispose()
    return found


def miscounted(place: Place, episodes: int) -> int:
    """Count the episodes by which settled ones, or rows of evidence that count, differ from those that were sent."""
    settled = evidence = 0
    with place.connect() as connection:
        for number in range(TENANTS):
            schema = schema_of(number)
            row = connection.execute(
                f"SELECT (SELECT coalesce(sum(count), 0) FROM {schema}.episode_count WHERE name = 'SETTLED'),"
                f" (SELECT count(*) FROM {schema}.evidence WHERE weight = 1 AND reward_version = 1)"
            ).fetchone()
            assert row is not None
            settled, evidence = settled + int(row[0]), evidence + int(row[1])
    return abs(settled - episodes) + abs(evidence - episodes)


def _report(rounds: list[Load], more: list[Load], commits: list[float], rebuilt: list[Rebuilt], wrong: int) -> Report:
    named = f"{TENANTS} tenants, {RATE:g} episodes a second"
    rows = [
        Row.of_rounds(f"belief lag p50, {named}", [load.share(0.5) for load in rounds], P50_BAR, "ms"),
        Row.of_rounds(f"belief lag p99, {named}", [load.share(0.99) for load in rounds], P99_BAR, "ms"),
    ]
    for load in more:
        for part in (0.5, 0.99):
            name = f"belief lag p{part * 100:g}, {load.rate:g} episodes a second"
            rows.append(Row(name=name, value=load.share(part), unit="ms", timed=True))
    for load in [rounds[-1], *more]:
        cores = ", ".join(f"{name} {share:.2f}" for name, share in load.cpu.items())
        rows.append(Row(name=f"cores at {load.rate:g}/s: {cores}", value=sum(load.cpu.values()), timed=True))
    everything = [*rounds, *more]
    rows += [
        Row(name="episodes sent", value=sum(load.episodes for load in everything)),
        Row(name="calls that failed", value=sum(load.failures for load in everything), bar=NONE_BAR),
        Row(name="episodes not settled once, or not in the evidence once", value=wrong, bar=NONE_BAR),
        Row(
            name=f"largest difference of belief and rebuild, {len(rebuilt)} tenants",
            value=max(one.max_error for one in rebuilt),
            bar=EXACT_BAR,
        ),
        Row(name="episodes in no state or in two", value=sum(one.unaccounted for one in rebuilt), bar=NONE_BAR),
    ]
    notes = [
        "lag: from the commit of the last row that settles an episode to the commit of the evidence folded from it, by"
        " PostgreSQL's own commit times",
        f"{ROUNDS} rounds of {SECONDS:g} s after {WARM_SECONDS:g} s; log 0.5 s after its decision, outcome 0.3 s after"
        " the log; server, worker, PostgreSQL (fsync on) and the load share all cores",
    ]
    return Report(rows=rows, controls=[Control("a commit of one row, ms", commits)], notes=notes, seeds=[SEED])
