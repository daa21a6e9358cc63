"""Kill processes of a running service at random moments of its callers' play, and see how long each stays away."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import psycopg

from tests.fixtures.stack import Stack
from tests.trust.turns import Players

IN_FLIGHT = 64
LONGEST_DELAY = 0.3
"""Seconds after the last kill's recovery, or a kill of something else, until the next at the latest."""
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: what was under way, and how long until the killed worked again."""

    victim: str
    in_flight: Mapping[str, int]
    seconds: float


@dataclass(slots=True)
class Killer:
    """Kill one process after another at random moments of the callers' play."""

    stack: Stack
    players: Players
    moments: random.Random
    down: set[str] = field(default_factory=set)
    kills: list[Kill] = field(default_factory=list)

    async def run(self, victims: list[str]) -> None:
        """Kill them in this order; each only once it serves again, while others may still be down."""
        self.players.playing.set()
        async with asyncio.TaskGroup() as recoveries:
            for victim in victims:
                await until(partial(self._works, victim), f"{victim} to work again")
                await asyncio.sleep(self.moments.uniform(0.0, LONGEST_DELAY))
                await until(lambda: self.players.flying >= IN_FLIGHT, f"{IN_FLIGHT} RPCs in flight")
                in_flight = dict(+self.players.in_flight)
                self.down.add(victim)
                recoveries.create_task(self._recovery(victim, in_flight, self._kill(victim)))
        self.players.playing.clear()

    def _works(self, victim: str) -> bool:
        return victim not in self.down

    def _kill(self, victim: str) -> int:
        pid = postmaster(self.stack) if victim == "database" else self.stack.pid(victim)
        os.kill(pid, signal.SIGKILL)
        return pid

    async def _recovery(self, victim: str, in_flight: Mapping[str, int], killed: int) -> None:
        began = time.monotonic()
        if victim == "database":
            await until(lambda: postmaster(self.stack) not in (0, killed), "another postmaster")
            await self._written_again()
        else:
            await until(lambda: self.stack.pid(victim) != killed, f"{victim} to be started again")
            await (self._folded_again() if victim == "worker" else self._listens(self.stack.servers.index(victim)))
        self.kills.append(Kill(victim, in_flight, time.monotonic() - began))
        self.down.discard(victim)

    async def _written_again(self) -> None:
        before = self.players.counts["outcome"]
        await until(lambda: self.players.counts["outcome"] > before, "writes to be acknowledged again")

    async def _folded_again(self) -> None:
        before = await self._watermark()
        deadline = time.monotonic() + PATIENCE
        while await self._watermark() in (before, ""):
            assert time.monotonic() < deadline, "the worker takes nothing"
            await asyncio.sleep(0.1)

    async def _watermark(self) -> str:
        """Read how far the worker came; empty while the database is away."""
        try:
            async with await psycopg.AsyncConnection.connect(self.stack.database_url, autocommit=True) as connection:
                row = await (await connection.execute("SELECT x::text FROM t_quick.fold_state")).fetchone()
        except psycopg.OperationalError:
            return ""
        return str(row[0]) if row else ""

    async def _listens(self, replica: int) -> None:
        port = self.stack.port + replica
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert time.monotonic() < deadline, f"nobody listens on {port}"
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s in vain for {what}")
        await asyncio.sleep(0.002)


def postmaster(stack: Stack) -> int:
    """Read the embedded database's process; 0 while there is none."""
    try:
        lines = (stack.data_dir / "postgres" / "pgdata" / "postmaster.pid").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return 0
    return int(lines[0]) if lines else 0
