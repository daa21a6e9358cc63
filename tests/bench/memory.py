"""Measure what a worker and a server keep in memory per tenant, and how soon they are ready."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.figures import Bar, Report, Row, Setting
from tests.bench.tenants_place import (
    ARMS,
    Place,
    database_with_commit_times,
    is_serving,
    make_policy,
    onboard,
    running,
    running_server,
    schema_of,
    wait_for_vectors,
)
from tests.fixtures.stack import free_port, wait_for

BUCKETS = 60
COUNTS = (20, 100, 200, 300, 400)
"""A worker remembers up to 5 MiB, which about 270 such tenants fill: growth is read below that bound, and beyond it."""
STARTS = 5
GROWN = 1_000_000
"""Rows of evidence by which every bucket is said to have grown, so that each wants a new vector."""
TOTAL_BAR, TENANT_BAR, READY_BAR = Bar(at_most=150), Bar(at_most=16), Bar(at_most=3)
FILL = """
INSERT INTO {schema}.cell (policy, bucket, action, n, s, s2, as_of)
SELECT 'support', 'bucket-' || b, a.action, 20, 12, 9, extract(epoch FROM now())
FROM generate_series(1, {buckets}) AS b, unnest((SELECT actions FROM {schema}.allocation LIMIT 1)) AS a (action)
ON CONFLICT DO NOTHING;
INSERT INTO {schema}.bucket_state (policy, bucket, allocation_version, n, fresh)
SELECT 'support', 'bucket-' || b, 0, 0, 0 FROM generate_series(1, {buckets}) AS b ON CONFLICT DO NOTHING;
"""
"""Evidence of every bucket and action, and a reason to publish all of them: the worker reads, ages and publishes it."""


@dataclass(slots=True)
class Weighed:
    """Memory in MB with a number of tenants."""

    tenants: int
    worker: float
    server: float


def memory(setting: Setting) -> Report:
    """Weigh worker and server with few and with more tenants, then start each a few times."""
    with database_with_commit_times() as place:
        setting.say("making tenants")
        weighed = []
        with running_server(place) as (_, port), running(place, "worker"):
            onboard(place, port, range(max(COUNTS)), make_policy())
            wait_for_vectors(place, range(max(COUNTS)))
        for count in COUNTS:
            setting.say(f"{count} tenants with {BUCKETS} x {len(ARMS)} cells")
            weighed.append(weigh(place, range(count)))
        setting.say("starting processes")
        ready = {name: [seconds_to_ready(place, name) for _ in range(STARTS)] for name in ("worker", "server")}
    return _report(weighed, ready)


def weigh(place: Place, tenants: range) -> Weighed:
    """Start both processes anew, make the worker publish every bucket of these tenants, and read their memory."""
    fill(place, tenants)
    with ExitStack() as exits:
        server, _ = exits.enter_context(running_server(place))
        worker = exits.enter_context(running(place, "worker"))
        wait_for(lambda: all_published(place, tenants), "every bucket to be published", seconds=300)
        return Weighed(len(tenants), pss(worker.pid), pss(server.pid))


def fill(place: Place, tenants: range) -> None:
    """Put evidence into every cell, and ask for every bucket's vector, whether it was published before or not."""
    with place.connect() as connection:
        for number in tenants:
            connection.execute(FILL.format(schema=schema_of(number), buckets=BUCKETS))
            connection.execute(f"UPDATE {schema_of(number)}.bucket_state SET fresh = {GROWN}, publish_time = NULL")
            connection.execute(f"UPDATE {schema_of(number)}.fold_state SET x = x")


def all_published(place: Place, tenants: range) -> bool:
    """Whether no bucket waits any more."""
    wanted = f"SELECT 1 FROM {{schema}}.bucket_state WHERE fresh >= {GROWN} LIMIT 1"
    with place.connect() as connection:
        return not any(
            connection.execute(wanted.format(schema=schema_of(number))).fetchone() is not None for number in tenants
        )


def pss(pid: int) -> float:
    """Read a process's memory in MB, shared pages counted in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def seconds_to_ready(place: Place, name: str) -> float:
    """Start a process with the database up; the server is ready when it serves, the worker when it has passed."""
    port, began = free_port(), time.monotonic()
    if name == "server":
        with running(place, name, KEDGE_PORT=str(port)):
            wait_for(lambda: is_serving(port), name)
            return time.monotonic() - began
    fill(place, range(1))
    began = time.monotonic()
    with running(place, name):
        wait_for(lambda: all_published(place, range(1)), name)
        return time.monotonic() - began


def _growth(few: Weighed, many: Weighed) -> tuple[float, float]:
    """Give the kB that each tenant more costs worker and server."""
    more = many.tenants - few.tenants
    return (many.worker - few.worker) * 1024 / more, (many.server - few.server) * 1024 / more


def _report(weighed: list[Weighed], ready: dict[str, list[float]]) -> Report:
    twenty, hundred, two_hundred, late, last = weighed
    cells = f"{BUCKETS} x {len(ARMS)} cells each"
    rows = [
        Row(name=f"worker, 200 tenants with {cells}", value=two_hundred.worker, bar=TOTAL_BAR, unit="MB"),
        Row(name="worker, per tenant from 20 to 100", value=_growth(twenty, hundred)[0], bar=TENANT_BAR, unit="kB"),
        Row(name="worker, per tenant from 300 to 400", value=_growth(late, last)[0], bar=TENANT_BAR, unit="kB"),
        *(Row(name=f"worker, {one.tenants} tenants", value=one.worker, unit="MB") for one in weighed),
        *(Row(name=f"server, {one.tenants} tenants", value=one.server, unit="MB") for one in weighed),
        Row(name="server, per tenant from 20 to 400", value=_growth(twenty, last)[1], unit="kB"),
        *(
            Row(name=f"{name} ready", value=median(took), bar=READY_BAR, unit="s", spread=(min(took), max(took)))
            for name, took in ready.items()
        ),
    ]
    return Report(rows=rows, notes=["PSS after every bucket of every tenant was published by a worker just started"])
