"""Where a demo plays: its folder, the running service, and the command line as a person would use it."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console

from kedge_bandit.entrypoints.settings import Settings

READY_SECONDS = 60.0
SETTLE_SECONDS = 180.0
REPLAYED = 1_000


class DemoFailed(Exception):
    """Say which step of the demo did not do what it must."""


@dataclass(slots=True)
class Stage:
    """Where the demo plays: folder, running service, and the command line's environment."""

    out: Path
    settings: Settings
    environment: dict[str, str]
    console: Console

    def kedge(self, *arguments: str, quiet: bool = False) -> str:
        """Run the command line as a person would, and show the command."""
        if not quiet:
            self.console.print(f"[dim]$ kedge {' '.join(_quoted(a) for a in arguments)}", highlight=False)
        return self._run([str(Path(sys.executable).parent / "kedge"), *arguments])

    def read(self, *arguments: str) -> Any:
        """Run a command of the command line for its JSON."""
        return json.loads(self.kedge(*arguments, "--json", quiet=True))

    def module(self, name: str, *arguments: str, loud: bool = False) -> str:
        """Run a module of the demo package in a process of its own."""
        command = [sys.executable, "-m", name, *arguments]
        if loud:
            if subprocess.run(command, env=self.environment, check=False).returncode:
                raise DemoFailed(f"{name} failed; its own lines above say why")
            return ""
        return self._run(command)

    def prove(self, tenant: str, policy: str) -> dict[str, Any]:
        """Refold the evidence and replay decisions, each in a fresh process, from the database alone.

        Raises:
            DemoFailed: a decision does not replay, or the evidence does not refold.
        """
        rebuilt = json.loads(self.kedge("rebuild", tenant, policy, "--verify", "--json"))
        replayed = json.loads(self.kedge("replay", tenant, policy, "--sample", str(REPLAYED), "--json"))
        if not rebuilt["agrees"] or replayed["mismatches"]:
            raise DemoFailed(f"{tenant}: rebuild {rebuilt}, replay {replayed}")
        self.console.print(
            f"  {tenant}: rebuild differs by {rebuilt['max_error']:.1e}; {replayed['replayed']} decisions replayed,"
            f" {replayed['mismatches']} differ",
            highlight=False,
        )
        return {"rebuild": rebuilt, "replay": replayed}

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailed(
                f"{' '.join(command[-6:])} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
            )
        return done.stdout


def published(status: Any) -> bool:
    """Tell, of what `kedge status` says, whether a policy has a first allocation.

    >>> published({"allocation_version": "3"}), published({})
    (True, False)
    """
    return int(status.get("allocation_version", 0)) > 0


def settled(status: Any) -> bool:
    """Tell, of what `kedge status` says, whether every row of a policy is folded.

    >>> settled({"episode_counts": {"SETTLED": "3"}}), settled({"episode_counts": {"PENDING": "1"}})
    (True, False)
    """
    return int(status.get("backlog", 0)) == 0 and int(status["episode_counts"].get("PENDING", 0)) == 0


def wait_until_serving(address: str, what: str = "the server") -> None:
    """Wait until a process answers gRPC at its `host:port`. Raises DemoFailed."""

    def serving() -> bool:
        with grpc.insecure_channel(address) as channel:
            check: Any = health_pb2_grpc.HealthStub(channel)
            try:
                answer = check.Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.RpcError:
                return False
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    until(serving, READY_SECONDS, f"{what} to serve")


def until(condition: Any, seconds: float, what: str) -> None:
    """Wait for something. Raises DemoFailed where it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.2)


def _quoted(argument: str) -> str:
    return f'"{argument}"' if " " in argument else argument
