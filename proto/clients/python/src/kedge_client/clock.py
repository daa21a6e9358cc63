"""Bring time in from outside, so that tests can bring their own."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tell and pass time; tests bring their own."""

    def now(self) -> datetime:
        """Tell the time of day, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Tell seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for that long."""
        ...


class SystemClock:
    """Tell the machine's time."""

    def now(self) -> datetime:
        """Tell the time of day, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Tell seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for that long."""
        await asyncio.sleep(seconds)
