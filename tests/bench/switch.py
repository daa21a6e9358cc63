"""Flip the kill switch 200 times under load on three replicas, hold the database, and look for what was lost."""

import hashlib
import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kedge.bandit.v1 import governance_service_pb2, policy_service_pb2
from tests.bench.decide_place import POLICY
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import percentile
from tests.bench.switch_effects import Flip, effects, outage
from tests.bench.switch_load import Replies, SwitchJob, run_switch_load
from tests.bench.switch_machine import Machine
from tests.bench.switch_place import REPLICAS, Application, Fleet, running_fleet
from tests.bench.tenants_place import database_with_commit_times
from tests.fixtures.stack import wait_for

SEED = 20260311
FLIPS = 200
STRETCH = 20
"""Flips after which the bench looks at what the machine gives."""
DWELL_SECONDS = (0.15, 0.35)
"""Between two flips, at random, so that they do not fall in step with polls."""
WARM_UP_SECONDS, SATURATION_SECONDS = 2.0, 6.0
SHARE = 0.7
FEW_ROWS = 100
"""Rows that wait for the worker while only the application talks."""
OUTAGE_SECONDS = 8.0
RECOVERY_SECONDS = 10.0
SPINS = 3
SPUN_BYTES = 48 << 20
SWITCH_BAR, BASELINE_BAR, RECOVERY_BAR = Bar(at_most=100.0), Bar(at_most=6.0), Bar(at_most=6.0)
RATE_BAR, LEARNED_BAR, ERROR_BAR, NONE_BAR = Bar(at_least=0.95), Bar(at_least=100), Bar(at_most=1e-9), Bar(at_most=0)


@dataclass(slots=True)
class _Run:
    """What one run saw; times are monotonic seconds."""

    saturation: float = 0.0
    replies: Replies = field(default_factory=Replies)
    flips: list[Flip] = field(default_factory=list)
    gone: float = 0.0
    back: float = 0.0
    spins: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)
    failures: int = 0
    settled: int = 0
    rebuild_error: float = float("nan")
    acknowledged: int = 0
    lost: int = 0


def switch(setting: Setting) -> Report:
    """Run everything once; figures of time count only if the machine was as fast after the flips as before."""
    setting.say("starting PostgreSQL, three servers and a worker")
    run = _Run()
    with database_with_commit_times() as place, ExitStack() as servers, running_fleet(place, servers) as fleet:
        run.spins += _spin()
        spawn = multiprocessing.get_context("spawn")
        application = Application(fleet, SEED)
        with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
            application.start()
            try:
                _under_load(run, fleet, pool, setting)
            finally:
                application.stop()
        run.spins += _spin()
        setting.say("waiting for the worker, and comparing the belief with a rebuild")
        _compare_belief(run, fleet)
        setting.say("ending the servers, and looking for what was acknowledged")
        servers.close()
        _look_for_lost(run, fleet, application)
    return _report(run)


def _under_load(run: _Run, fleet: Fleet, pool: ProcessPoolExecutor, setting: Setting) -> None:
    setting.say("measuring saturation")
    _sustained(fleet, pool, WARM_UP_SECONDS)
    machine = Machine(fleet.place.folder, run.cores, run.syncs)
    machine.mark()
    run.saturation = _sustained(fleet, pool, SATURATION_SECONDS)
    until = fleet.place.folder / "load.over"
    loading = pool.submit(run_switch_load, _job(fleet, until, SEED, SHARE * run.saturation))
    try:
        time.sleep(WARM_UP_SECONDS)
        machine.mark()
        with machine:
            _flip(run, fleet, setting, loading, machine)
        setting.say("holding the database")
        _outage(run, fleet)
    finally:
        until.touch()
    run.replies = loading.result()


def _job(fleet: Fleet, until: Path, seed: int, rate: float | None = None) -> SwitchJob:
    return SwitchJob(addresses=fleet.addresses, key=fleet.key, policy=POLICY, seed=seed, until=until, rate=rate)


def _sustained(fleet: Fleet, pool: ProcessPoolExecutor, seconds: float) -> float:
    """Give the decisions per second that are answered, stored and taken by the worker, of a closed loop.

    Each loop has a seed of its own: an episode that was decided before is answered from memory, and no row comes of it.
    """
    until = fleet.place.folder / "closed.over"
    until.unlink(missing_ok=True)
    before, began = fleet.stored(), time.perf_counter()
    loading = pool.submit(run_switch_load, _job(fleet, until, SEED + round(seconds)))
    time.sleep(seconds)
    until.touch()
    answered = len(loading.result().at)
    wait_for(lambda: fleet.stored() - before >= answered and fleet.backlog() < FEW_ROWS, "the rows to be taken")
    return answered / (time.perf_counter() - began)


def _flip(run: _Run, fleet: Fleet, setting: Setting, loading: "Future[Replies]", machine: Machine) -> None:
    """Freeze and unfreeze in turns, and read afterwards when each was committed."""
    rng = random.Random(SEED)
    governance = fleet.operator.governance
    calls: list[tuple[bool, float, float]] = []
    for number in range(FLIPS):
        if number % STRETCH == 0:
            setting.say(f"flip {number} of {FLIPS} at {SHARE:.0%} of {run.saturation:.0f} decisions/s")
        if loading.done():
            loading.result()
            raise RuntimeError("the load ended before the flips did")
        is_freeze = number % 2 == 0
        began = time.perf_counter()
        if is_freeze:
            governance.Freeze(governance_service_pb2.FreezeRequest(name=POLICY, because="bench"))
        else:
            replay = governance_service_pb2.QUARANTINE_CHOICE_REPLAY
            governance.Unfreeze(governance_service_pb2.UnfreezeRequest(name=POLICY, because="bench", quarantine=replay))
        calls.append((is_freeze, began, time.perf_counter()))
        time.sleep(rng.uniform(*DWELL_SECONDS))
        if (number + 1) % STRETCH == 0:
            machine.mark()
    run.flips = _with_commits(fleet, calls)


def _with_commits(fleet: Fleet, calls: list[tuple[bool, float, float]]) -> list[Flip]:
    """PostgreSQL notes a commit's time on the wall clock, just before it is made durable."""
    with fleet.place.connect() as connection:
        ahead = time.time() - time.perf_counter()
        rows = connection.execute(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8, mode FROM t_bench.mode_change"
            " WHERE policy = 'support' ORDER BY change_id"
        ).fetchall()
    if [mode == "FROZEN" for _, mode in rows] != [is_freeze for is_freeze, _, _ in calls]:
        raise RuntimeError(f"{len(calls)} flips left {len(rows)} rows")
    return [
        Flip(is_freeze, began, at - ahead, ended)
        for (is_freeze, began, ended), (at, _) in zip(calls, rows, strict=True)
    ]


def _outage(run: _Run, fleet: Fleet) -> None:
    """Hold every process of the database: nothing is refused and nothing answered, the worst way to be gone."""
    database = fleet.place.database.embedded
    if database is None or database.pid is None:
        raise RuntimeError("the bench needs the embedded database, which it can hold")
    run.gone = time.perf_counter()
    held = _hold(database.pid)
    try:
        time.sleep(OUTAGE_SECONDS)
    finally:
        run.back = time.perf_counter()
        for pid in held:
            _signal(pid, signal.SIGCONT)
    time.sleep(RECOVERY_SECONDS)


def _hold(parent: int) -> list[int]:
    """Stop a process, so that it makes no more children, and then those it has."""
    os.kill(parent, signal.SIGSTOP)
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    for child in children:
        _signal(int(child), signal.SIGSTOP)
    return [parent, *map(int, children)]


def _signal(pid: int, number: signal.Signals) -> None:
    """Send a signal; a child that had ended by then needs none."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _compare_belief(run: _Run, fleet: Fleet) -> None:
    wait_for(lambda: fleet.backlog() == 0, "the worker to have folded everything", 60)
    policies = fleet.operator.policies
    status = policies.GetPolicyStatus(policy_service_pb2.GetPolicyStatusRequest(name=POLICY))
    run.settled = status.episode_counts["SETTLED"]
    rebuilt = policies.RebuildPolicy(policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True))
    run.rebuild_error = rebuilt.max_error


def _look_for_lost(run: _Run, fleet: Fleet, application: Application) -> None:
    run.failures = application.failures
    decided = set(run.replies.decision_ids)
    with fleet.place.connect() as connection:
        for acknowledged, query in (
            (decided, "SELECT decision_id::text FROM t_bench.decision"),
            (application.outcomes, "SELECT key FROM t_bench.outcome"),
            (application.episodes, "SELECT episode_id FROM t_bench.episode_event WHERE kind = 'LOG'"),
        ):
            run.acknowledged += len(acknowledged)
            run.lost += len(acknowledged - {one for (one,) in connection.execute(query)})


def _spin() -> list[float]:
    """Time a piece of work that has nothing to do with the service."""
    found, block = [], bytes(SPUN_BYTES)
    for _ in range(SPINS):
        began = time.process_time()
        hashlib.sha256(block).digest()
        found.append((time.process_time() - began) * 1e3)
    return found


def _report(run: _Run) -> Report:
    seen, missed = effects(run.flips, run.replies)
    replies = run.replies
    freezes = [ms for ms, flip in zip(seen, run.flips, strict=True) if flip.is_freeze]
    unfreezes = [ms for ms, flip in zip(seen, run.flips, strict=True) if not flip.is_freeze]
    calm = [s * 1e3 for at, s in zip(replies.at, replies.seconds, strict=True) if at < run.flips[-1].ended]
    baseline, recovery = outage(run.gone, run.back, replies)
    rate = replies.sent / replies.wall_seconds
    what = "commit to last reply in the old mode"
    rows = [
        Row(name=f"{what}, p99 of {FLIPS} flips", value=percentile(seen, 0.99), bar=SWITCH_BAR, unit="ms", timed=True),
        Row(name=f"{what}, p99 of freezes", value=percentile(freezes, 0.99), bar=SWITCH_BAR, unit="ms", timed=True),
        Row(name=f"{what}, p99 of unfreezes", value=percentile(unfreezes, 0.99), bar=SWITCH_BAR, unit="ms", timed=True),
        Row(name=f"{what}, p50", value=percentile(seen, 0.5), unit="ms"),
        Row(name=f"{what}, longest", value=max(seen), unit="ms"),
        Row(name="flips that missed a replica before the next", value=missed, bar=NONE_BAR),
        Row(name="store gone to last reply that is not STALE", value=baseline, bar=BASELINE_BAR, unit="s"),
        Row(name="store back to draws on every replica", value=recovery, bar=RECOVERY_BAR, unit="s"),
        Row(name="saturation, closed loop over three replicas", value=run.saturation, unit="/s"),
        Row(name="rate kept / rate asked for", value=rate / (SHARE * run.saturation), bar=RATE_BAR),
        Row(name="Decide p50 at that rate", value=percentile(calm, 0.5), unit="ms"),
        Row(name="Decide p99 at that rate", value=percentile(calm, 0.99), unit="ms"),
        Row(name="fdatasync of a page beside the database, p50", value=percentile(run.syncs, 0.5), unit="ms"),
        Row(name="fdatasync of a page beside the database, p99", value=percentile(run.syncs, 0.99), unit="ms"),
        Row(name="the load's own CPU share", value=replies.cpu_seconds / replies.wall_seconds),
        Row(name="episodes settled", value=run.settled, bar=LEARNED_BAR),
        Row(name="belief less a rebuild of it, largest", value=run.rebuild_error, bar=ERROR_BAR),
        Row(name="acknowledged decisions, outcomes, episodes", value=run.acknowledged),
        Row(name="acknowledged but not stored", value=run.lost, bar=NONE_BAR),
        Row(name="wrong replies (status, sum of P)", value=len(replies.wrong), bar=NONE_BAR),
        Row(name="turns of the application that failed, in the outage", value=run.failures),
    ]
    controls = [Control("CPU of a hash, ms", run.spins), Control("cores that nobody else took", run.cores)]
    return Report(rows=rows, controls=controls, notes=_notes(run), seeds=[SEED])


def _notes(run: _Run) -> list[str]:
    slowest = sorted(flip.ended - flip.began for flip in run.flips)
    return [
        f"{REPLICAS} servers, worker, PostgreSQL (fsync on), load and an application that reports about 40 episodes a"
        " second share the machine's cores; the load is paced over all replicas, every decision is a new episode",
        "commit: PostgreSQL's own time of the commit, just before it is made durable; replies: when they were received",
        f"the RPCs of the flips took {slowest[len(slowest) // 2] * 1e3:.0f} ms (median), the longest"
        f" {slowest[-1] * 1e3:.0f} ms",
        *run.replies.wrong[:3],
    ]
