"""Break what surrounds the service, fault by fault, under calls; note what every caller saw, until all is as ever.

`make trust ARGS=tests/trust/test_faults.py` injects every fault, writes build/trust/faults.json and the table of
docs/faults.md; `make test` injects those that take little time.
"""

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kedge.bandit.v1 import policy_service_pb2
from kedge_bandit.adapters.embedded.workspace import SOCKET_NAME
from tests.fixtures.cut_proxy import proxied
from tests.fixtures.database import open_folder
from tests.fixtures.own_database import own_database
from tests.fixtures.policies import two_models
from tests.fixtures.stack import running_stack, wait_for
from tests.trust import size, written
from tests.trust.faults import CASES, Case, Scene
from tests.trust.probes import AS_EVER, RPCS, Probes
from tests.trust.turns import over_all

TENANT = "faulted"
DISK_MIB = 512
PATIENCE = 90.0
STALE_WITHIN = 6.0
"""Seconds after the last sign of the database in which the baseline is promised."""
SLACK = 6.0
"""Seconds that a busy machine may add to a promise."""
FAKETIME = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"),
)
LARGEST_ERROR = 1e-9
COLUMNS = ("fault", *RPCS, "not as ever for", "as ever again after its end", "acknowledged, of which lost")


@dataclass(slots=True)
class Row:
    """What one fault did to its callers."""

    fault: str
    seen: dict[str, dict[str, int]]
    degraded_seconds: float
    back_seconds: float
    acknowledged: int
    lost: int
    note: str

    def cells(self) -> list[str]:
        """Lay it out for the table."""
        seen = [", ".join(said for said in self.seen[rpc] if said not in AS_EVER) or "as ever" for rpc in RPCS]
        name = f"{self.fault}: {self.note}" if self.note else self.fault
        times = [f"{self.degraded_seconds:.1f} s", f"{self.back_seconds:.1f} s"]
        return [name, *seen, *times, f"{self.acknowledged}, {self.lost}"]


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Give a file system of its own that can be filled; an ordinary folder where mounting is not allowed."""
    place.mkdir(mode=0o755)
    options = f"size={DISK_MIB}m,mode=0755"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
    try:
        yield place
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", place], check=True)


def faked_clock(folder: Path) -> tuple[Path | None, dict[str, str]]:
    """Give the file that moves the service's wall clock, and the environment that makes it obey; none without it."""
    library = next((path for path in FAKETIME if path.exists()), None)
    if library is None or not size.IS_FULL:
        return None, {}
    clock = folder / "clock"
    clock.write_text("+0\n", encoding="ascii")
    return clock, {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ExitStack() as exits:
        folder = exits.enter_context(open_folder())
        disk = exits.enter_context(small_disk(folder / "disk"))
        database = exits.enter_context(own_database(disk / "postgres", folder / "state"))
        url = database.start()
        address = urlsplit(url)
        socket = Path(parse_qs(address.query)["host"][0]) / SOCKET_NAME
        proxy = exits.enter_context(proxied(socket))
        through = f"postgresql://{address.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}/kedge?sslmode=disable"
        clock, environment = faked_clock(folder)
        data = folder / "kedge"
        data.mkdir()
        stack = exits.enter_context(running_stack(through, data, **environment))
        stack.database_url = url
        yield Scene(stack, database, proxy, disk, clock)


@pytest.fixture(scope="module")
def key(scene: Scene) -> str:
    made = scene.stack.tenant(TENANT)
    scene.stack.put_policy(two_models(TENANT))
    return made


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    found: list[Row] = []
    yield found
    table = written.markdown(COLUMNS, [row.cells() for row in found])
    print(f"\n{table}")
    written.write_json("faults", {"faults": [facts_of(row) for row in found]})
    if size.IS_FULL and len(found) == len(CASES):
        written.put_table("faults.md", "faults", table)


@pytest.fixture
async def probes(scene: Scene, key: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Probes]:
    with (tmp_path / "acknowledged").open("w", encoding="utf-8") as file:
        async with over_all(scene.stack.addresses) as channel:
            number = list(CASES).index(request.node.callspec.params["name"])
            made = Probes(channel=channel, key=key, tenant=TENANT, acknowledged=file, names=f"f{number}")
            running = asyncio.create_task(made.run())
            await as_ever(made)
            yield made
            running.cancel()
            await made.finish()


async def as_ever(probes: Probes) -> None:
    await until(probes.is_as_ever, "all to be as ever")


async def until(condition: Any, what: str) -> None:
    deadline = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < deadline, f"waited {PATIENCE:g} s in vain for {what}"
        await asyncio.sleep(0.05)


def chosen() -> list[str]:
    return [name for name, case in CASES.items() if size.IS_FULL or case.is_short]


@pytest.mark.slow
@pytest.mark.parametrize("name", chosen())
async def test_a_fault_costs_what_the_table_says_and_passes_by_itself(
    scene: Scene, probes: Probes, rows: list[Row], name: str
) -> None:
    case = CASES[name]
    began = monotonic()
    note = ""
    async with case.fault(scene):
        if case.meanwhile is not None:
            note = await case.meanwhile(scene)
        if case.sees is not None:
            rpc, said = case.sees
            await until(lambda: any(a.said == said for a in probes.since(began, rpc)), f"{rpc} to say {said}")
        await until(lambda: monotonic() - began >= case.seconds, "the fault to have lasted")
        ended = monotonic()
    await as_ever(probes)
    await probes.finish()
    row = row_of(case, probes, began=began, ended=ended)
    row.note = note
    row.acknowledged, row.lost, doubled = await asyncio.to_thread(compare, scene, probes)
    print(json.dumps(facts_of(row)))
    rows.append(row)
    assert set(row.seen["Decide"]) <= {"DRAWN", "STALE", "ERROR"}, row
    assert set().union(*(row.seen[rpc] for rpc in RPCS)) & {"INTERNAL", "UNKNOWN"} == set(), row
    assert (row.lost, doubled) == (0, 0)
    if case.sees == ("Decide", "STALE"):
        late = [a for a in probes.since(began, "Decide") if began + STALE_WITHIN + SLACK < a.began and a.ended < ended]
        assert {a.said for a in late} <= {"STALE"}


def row_of(case: Case, probes: Probes, *, began: float, ended: float) -> Row:
    """Sum up what was seen from a fault's begin to the last answer that was not as ever."""
    heard = {rpc: probes.since(began, rpc) for rpc in RPCS}
    others = [answer for answers in heard.values() for answer in answers if answer.said not in AS_EVER]
    last = max((answer.ended for answer in others), default=began)
    first = min((answer.ended for answer in others), default=began)
    seen = {rpc: dict(Counter(answer.said for answer in answers)) for rpc, answers in heard.items()}
    return Row(case.name, seen, last - first, max(0.0, last - ended), 0, 0, "")


def facts_of(row: Row) -> dict[str, Any]:
    """Spell a row for JSON."""
    return {name: getattr(row, name) for name in Row.__slots__}


def compare(scene: Scene, probes: Probes) -> tuple[int, int, int]:
    """Count what was acknowledged, and of that what is not stored, and what is stored twice."""
    said: dict[str, set[str]] = {"RecordOutcomes": set(), "LogEpisode": set()}
    for line in Path(probes.acknowledged.name).read_text(encoding="utf-8").splitlines():
        rpc, key = json.loads(line)
        said[rpc].add(key)
    lost, doubled = 0, 0
    with scene.stack.connect() as connection:
        for rpc, table in (("RecordOutcomes", "outcome"), ("LogEpisode", "episode_event")):
            stored = Counter(key for (key,) in connection.execute(f"SELECT key FROM t_{TENANT}.{table}".encode()))
            lost += len(said[rpc] - stored.keys())
            doubled += sum(count > 1 for count in stored.values())
    return sum(map(len, said.values())), lost, doubled


@pytest.mark.slow
def test_after_all_faults_the_belief_is_the_fold_of_the_log(scene: Scene, key: str) -> None:
    name = f"tenants/{TENANT}/policies/support"
    with scene.stack.services(key) as services:

        def backlog() -> int:
            request = policy_service_pb2.GetPolicyStatusRequest(name=name, without_cells=True)
            return int(services.policies.GetPolicyStatus(request).backlog)

        wait_for(lambda: backlog() == 0, "every row to be folded")
    with scene.stack.services() as services:
        rebuilt = services.policies.RebuildPolicy(policy_service_pb2.RebuildPolicyRequest(name=name, verify_only=True))
    assert rebuilt.agrees
    assert rebuilt.max_error <= LARGEST_ERROR
