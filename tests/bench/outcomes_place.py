"""Make the place of the outcomes bench: embedded PostgreSQL, 200 tenants, the server on its own core."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from kedge_bandit.entrypoints.bootstrap import make_ready
from kedge_bandit.entrypoints.settings import Settings
from tests.bench.decide_place import Cores
from tests.bench.tenants_place import Place, cpu_seconds, make_policy, onboard, schema_of
from tests.fixtures.database import open_folder

TENANTS = 200
_KEYS = "COPY {schema}.idempotency_key (scope, key, payload_hash) FROM STDIN"
_OUTCOMES = "COPY {schema}.outcome (key, policy, episode_id, decision_id, signal, payload, served_action) FROM STDIN"
_STORED = """
SELECT o.key, o.policy, o.episode_id, o.decision_id, o.signal, o.payload::text, k.payload_hash
FROM {schema}.outcome o JOIN {schema}.idempotency_key k ON k.scope = 'outcome' AND k.key = o.key LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server over its database."""

    place: Place
    process: "subprocess.Popen[str]"
    port: int

    @property
    def key(self) -> str:
        """Admits the operator, to every tenant."""
        return self.place.database.operator_key

    def server_cpu(self) -> float:
        return cpu_seconds(self.process.pid)

    def drained(self) -> None:
        """End the server as an operator does."""
        self.process.terminate()
        self.process.wait(30)

    def stored(self, number: int) -> Counter[str]:
        """Count the outcome rows of a tenant by idempotency key."""
        with self.place.connect() as connection:
            return Counter(key for (key,) in connection.execute(f"SELECT key FROM {schema_of(number)}.outcome"))


@contextmanager
def running(cores: Cores) -> Iterator[Served]:
    """Start everything and onboard the tenants; on the way out, end it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {cores.server})  # what is started from here on leaves the server alone
    try:
        with open_folder() as folder:
            database = make_ready(Settings(data_dir=folder / "kedge"))
            try:
                place = Place(database, folder / "kedge")
                with _server(place, cores) as (process, port):
                    onboard(place, port, range(TENANTS + 1), make_policy())
                    yield Served(place, process, port)
            finally:
                database.stop()
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _server(place: Place, cores: Cores) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    argv = [sys.executable, "-m", "tests.bench.outcomes_server", "--core", str(cores.server)]
    environment = place.environment(KEDGE_PORT="0")
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError("the server did not start: see its log above")
            yield process, int(line)
        finally:
            process.terminate()


class Ceiling:
    """Copy outcome rows like those stored, into the tables they are stored in: what this database takes at best.

    A stored outcome is two rows, the fact and its idempotency key, each with its index. The tables are those of a
    tenant of its own, emptied before each measurement, so that every one finds them alike.
    """

    def __init__(self, place: Place) -> None:
        self._schema = schema_of(TENANTS)
        self._place = place
        with place.connect() as connection:
            row = connection.execute(_STORED.format(schema=schema_of(0))).fetchone()
        if row is None:
            raise RuntimeError("no outcome to take as the pattern: send some first")
        self._pattern = [str(value) for value in row]
        self._made = 0

    def rows_per_second(self, *, transactions: int, rows: int) -> float:
        """Copy; the bytes are made before the clock starts."""
        lots = [self._lot(rows) for _ in range(transactions)]
        with self._place.connect() as connection:
            connection.execute(f"TRUNCATE {self._schema}.idempotency_key, {self._schema}.outcome".encode())
            began = time.perf_counter()
            for keys, outcomes in lots:
                with connection.transaction():
                    _copy(connection, _KEYS.format(schema=self._schema), keys)
                    _copy(connection, _OUTCOMES.format(schema=self._schema), outcomes)
            return transactions * rows / (time.perf_counter() - began)

    def _lot(self, rows: int) -> tuple[bytes, bytes]:
        """Write rows in COPY's text format, each under a new key."""
        pattern_key, *rest, payload, digest = self._pattern
        keys, outcomes = [], []
        for _ in range(rows):
            self._made += 1
            key = f"copied-{os.urandom(11).hex()}-{self._made:06d}"
            keys.append(f"outcome\t{key}\t{digest}\n")
            fact = payload.replace(pattern_key, key).replace("\\", "\\\\")
            outcomes.append("\t".join((key, *rest, fact, "\\N")) + "\n")
        return "".join(keys).encode(), "".join(outcomes).encode()


def _copy(connection: "psycopg.Connection[tuple[object, ...]]", statement: str, data: bytes) -> None:
    with connection.cursor().copy(statement.encode()) as copy:
        for at in range(0, len(data), 1 << 16):
            copy.write(data[at : at + (1 << 16)])
