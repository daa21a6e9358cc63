"""Let code without an event loop use the client: a thread runs the loop, calls wait for it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from kedge.bandit.v1.outcome_pb2 import Outcome
from kedge_client.kedge import Kedge

ResultT = TypeVar("ResultT")


class BlockingKedge:
    """Hold a `Kedge` in a background thread; safe to use from any thread.

    `BlockingKedge(lambda: Kedge(...))`, then `kedge.run(lambda k: k.decide("support", episode_id="turn-7"))`.
    """

    def __init__(self, make: Callable[[], Kedge]) -> None:
        self._kedge = make()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kedge", daemon=True)
        self._thread.start()

    def run(self, call: Callable[[Kedge], Coroutine[object, object, ResultT]]) -> ResultT:
        """Make one call and wait for its result; raises what the call raises."""
        return asyncio.run_coroutine_threadsafe(call(self._kedge), self._loop).result()

    def put(self, make: Callable[[Kedge], Outcome]) -> None:
        """Queue an outcome without waiting, e.g. `put(lambda k: k.about(handle).thumb(+1))`."""
        outcome = make(self._kedge)
        self._loop.call_soon_threadsafe(self._kedge.outcomes.put, outcome)

    def close(self, *, timeout_s: float = 5.0) -> tuple[Outcome, ...]:
        """Deliver what waits, stop the thread, and return what could not be delivered."""
        left = self.run(lambda kedge: kedge.close(timeout_s=timeout_s))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        return left
