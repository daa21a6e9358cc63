"""Measure what callers notice of a month that goes: Decide at a steady rate, quiet and while the oldest is dropped."""

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from grpc_health.v1 import health_pb2
from psycopg import sql

from kedge.bandit.v1 import decision_pb2, policy_service_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge_bandit.adapters.embedded import EmbeddedPostgres
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.connections import engine_of
from kedge_bandit.entrypoints.retention import let_months_go
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import Headers, fixed_rate, percentile
from tests.fixtures.database import open_folder
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, running_stack

TENANT = "bench"
POLICY = f"tenants/{TENANT}/policies/support"
ROUNDS = 5
ROWS = 20_000
"""Evidence rows of each old month, and as many decisions."""
RATE, CALLS = 100.0, 600
DECIDE, ECHO = "/kedge.bandit.v1.DecisionService/Decide", "/grpc.health.v1.Health/Check"
RATIO, NONE, EXACT = Bar(at_most=1.2), Bar(at_most=0.0), Bar(at_most=1e-9)

# Settled long ago, of decisions made just now: so that it weighs what fresh evidence weighs.
_EVIDENCE = """
INSERT INTO {}.evidence (evidence_sequence, settle_time, policy, bucket, action, episode_id, reward_version,
    policy_version, decision_time, policy_time, weight, reward, vetoed, veto_weight, verdict)
SELECT {first} + n, {month}::timestamptz + n * interval '1 minute', 'support',
    'task=' || (ARRAY['math', 'code'])[1 + n %% 2], (%s::text[])[1 + (n / 2) %% 2], 'old-' || {first} + n, 1,
    1, {month}, extract(epoch FROM now()) - n, 1, (n %% 101) / 100.0, false, 1, '{{}}'
FROM generate_series(1, {rows}) n
"""
_DECISIONS = """
INSERT INTO {}.decision (decision_id, decision_time, policy, episode_id, request_id, bucket, action, propensity,
    policy_version, allocation_version, seed_epoch, mode, reason, is_randomised, judge_requested, judge_rate,
    superseded, x)
SELECT gen_random_uuid(), {month}::timestamptz + n * interval '1 minute', 'support', 'old-' || {first} + n, 'r',
    'task=math', (%s::text[])[1], 0.5, 1, 1, 1, 'APPLY', 'DRAWN', true, false, 0, false, 0
FROM generate_series(1, {rows}) n
"""


@dataclass(slots=True)
class Found:
    """Figures of all rounds, seconds."""

    quiet: list[float] = field(default_factory=list)
    dropping: list[float] = field(default_factory=list)
    echo: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    rows: int = 0
    not_drawn: int = 0
    error: float = 0.0
    moved: float = 0.0


def retain(setting: Setting) -> Report:
    """Lay old months out, then drop one in each round beside a steady load."""
    setting.say("starting the service")
    found, months = Found(), old_months(datetime.now(UTC).date())
    context = multiprocessing.get_context("spawn")
    with (
        open_folder() as folder,
        EmbeddedPostgres(folder / "data", state_dir=folder / "state") as url,
        running_stack(url, folder) as stack,
        ProcessPoolExecutor(1, context) as pool,
    ):
        key = stack.tenant(TENANT)
        stack.put_policy(two_models(TENANT))
        with stack.services() as services:
            actions = list(
                services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=POLICY)).policy.action_keys
            )
            setting.say(f"writing {ROUNDS} months of {ROWS} episodes")
            for number, month in enumerate(months):
                _lay_out(stack, month, number, actions)
            services.policies.RebuildPolicy(policy_service_pb2.RebuildPolicyRequest(name=POLICY))
            pool.submit(_drop, url).result()  # nothing is due yet: its imports are done
            for number, month in enumerate(months):
                setting.say(f"round {number + 1} of {ROUNDS}")
                _round(stack, services, key, pool, month, found)
    return _report(found)


def old_months(today: date) -> list[date]:
    """Name months that are over for four months at least, oldest first."""
    first = today.year * 12 + today.month - 1 - ROUNDS - 4
    return [date(number // 12, number % 12 + 1, 1) for number in range(first, first + ROUNDS)]


def _lay_out(stack: Stack, month: date, number: int, actions: list[str]) -> None:
    schema = f"t_{TENANT}"
    names = {"first": sql.Literal(number * ROWS), "rows": sql.Literal(ROWS), "month": sql.Literal(f"{month} 00:00+00")}
    with stack.connect() as owner, owner.transaction():
        owner.execute(sql.SQL("SELECT 1 FROM {}.fold_state FOR UPDATE").format(sql.Identifier(schema)))
        for table in ("decision", "episode_event", "outcome", "episode", "evidence"):
            owner.execute("SELECT control.ensure_partitions(%s::regclass, %s, 1)", (f"{schema}.{table}", month))
        for text in (_EVIDENCE, _DECISIONS):
            owner.execute(sql.SQL(text).format(sql.Identifier(schema), **names), (actions,))
        moved = sql.SQL("UPDATE {}.fold_state SET evidence_sequence = {}").format(
            sql.Identifier(schema), sql.Literal((number + 1) * ROWS)
        )
        owner.execute(moved)


def _round(stack: Stack, services: Services, key: str, pool: ProcessPoolExecutor, month: date, found: Found) -> None:
    address = ("127.0.0.1", stack.port)
    check = [health_pb2.HealthCheckRequest().SerializeToString()] * CALLS
    found.echo.append(
        percentile(fixed_rate(address, Headers(ECHO, {}), check, rate=RATE, connections=4).latencies, 0.5)
    )
    found.quiet.append(_p99(address, key, f"quiet-{month}", found))
    keep = (datetime.now(UTC).date() - month).days - 31
    with stack.connect() as owner:
        before = owner.execute(f"SELECT * FROM t_{TENANT}.cell ORDER BY 1, 2, 3").fetchall()
        owner.execute("UPDATE control.tenant SET retention_days = %s WHERE name = %s", (keep, TENANT))
    dropped = pool.submit(_drop, stack.database_url)
    found.dropping.append(_p99(address, key, f"dropping-{month}", found))
    rows, seconds = dropped.result()
    found.rows += rows
    found.took.append(seconds)
    with stack.connect() as owner:
        found.moved += float(owner.execute(f"SELECT * FROM t_{TENANT}.cell ORDER BY 1, 2, 3").fetchall() != before)
    verified = services.policies.RebuildPolicy(policy_service_pb2.RebuildPolicyRequest(name=POLICY, verify_only=True))
    found.error = max(found.error, verified.max_error)


def _drop(url: str) -> tuple[int, float]:
    """Let go what is due; rows that went, and seconds."""

    async def drop() -> int:
        engine = engine_of(url)
        try:
            return sum(rows for _, rows in await let_months_go(engine, TenantId(TENANT)))
        finally:
            await engine.dispose()

    began = time.perf_counter()
    return asyncio.run(drop()), time.perf_counter() - began


def _p99(address: tuple[str, int], key: str, name: str, found: Found) -> float:
    context = decision_pb2.Context(categories={"task": "math"})
    bodies = [
        pb.DecideRequest(
            policy=POLICY, request_id=f"{name}-{n}", episode_id=f"{name}-{n}", context=context
        ).SerializeToString()
        for n in range(CALLS)
    ]
    headers = Headers(DECIDE, {"authorization": f"Bearer {key}"})
    measured = fixed_rate(address, headers, bodies, rate=RATE, connections=4)
    reasons = [pb.DecideResponse.FromString(answer).reason for answer in measured.answers]
    found.not_drawn += CALLS - reasons.count(decision_pb2.DECISION_REASON_DRAWN)
    return percentile(measured.latencies, 0.99)


def _report(found: Found) -> Report:
    ratios = [after / before for before, after in zip(found.quiet, found.dropping, strict=True)]
    rows = [
        Row.of_rounds("Decide p99 while the oldest month goes, over quiet", ratios, RATIO),
        Row.of_rounds("p99 while it is quiet", [p * 1e3 for p in found.quiet], unit="ms"),
        Row.of_rounds("p99 while the month goes", [p * 1e3 for p in found.dropping], unit="ms"),
        Row.of_rounds("folding and dropping a month", [p * 1e3 for p in found.took], unit="ms"),
        Row(name="answers that were not drawn", value=float(found.not_drawn), bar=NONE),
        Row(name="months after which a cell had moved", value=found.moved, bar=NONE),
        Row(name="belief against a rebuild from the snapshot, largest", value=found.error, bar=EXACT),
        Row(name="rows that went", value=float(found.rows)),
    ]
    notes = [
        f"{ROUNDS} months of {ROWS} decisions and evidence rows, one dropped in each round beside {CALLS} decisions at"
        f" {RATE:g} a second; the fold and its check run in a process of their own",
    ]
    return Report(rows=rows, controls=[Control("health check at the same rate, p50", found.echo)], notes=notes)
