"""Play the demo's tenants without end, at a steady rate, as users would keep their core applications busy.

    python -m kedge_demo.traffic --address HOST:PORT --keys FILE [--per-second 5]

Policies and keys must be there. Every tenant asks so many times a second, reports what came of it, and goes round its
turns again and again. An action that the worlds do not know, such as an arm that somebody approved, does as well as the
baseline. What a server does not answer is left out: users would not ask again either. Ctrl-C or SIGTERM ends it.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kedge_client.choice import Choice
from kedge_client.errors import KedgeClientError
from kedge_client.kedge import Kedge
from kedge_demo.keys import TenantKeys, read_keys
from kedge_demo.play import client_baseline
from kedge_demo.trajectory import prompt_outcomes, thumb, trajectory
from kedge_demo.world import World
from kedge_demo.worlds import SEED, build_worlds

DEADLINE_S = 2.0


async def turn(world: World, kedge: Kedge, number: int, name: str) -> None:
    """Play one turn under an episode id of its own."""
    place = number % world.turns
    context = world.context(place)
    choice = await kedge.decide(
        world.policy_id, episode_id=name, categories=context.categories, numbers=context.numbers
    )
    if choice.fallback:
        return
    try:
        await report(world, kedge, choice, place, name)
    except KedgeClientError:
        return  # a server that is away; the next turn may find it again


async def report(world: World, kedge: Kedge, choice: Choice, place: int, name: str) -> None:
    """Log what happened, and what is known of how good it was. Raises KedgeClientError."""
    action = world.index_of.get(choice.action_key, world.baseline)
    about = kedge.about(choice.handle)
    for outcome in prompt_outcomes(world, place, action, about, name=name, judged=choice.judge_requested):
        kedge.outcomes.put(outcome)
    opinion = thumb(world, place, action, about, name=name)
    if opinion is not None:
        kedge.outcomes.put(opinion)
    await kedge.log_episode(choice.handle, trajectory(world, place, action))


async def keep_busy(world: World, address: str, keys: TenantKeys, per_second: float) -> None:
    """Ask so many times a second until cancelled; turns overlap where answers take long."""
    baselines = {world.policy_id: client_baseline(world)}
    run, number, loop = f"{time.time_ns():x}", 0, asyncio.get_running_loop()
    async with (
        Kedge(
            address, key=keys.core_app, tenant=world.tenant, baselines=baselines, decide_deadline_s=DEADLINE_S
        ) as kedge,
        asyncio.TaskGroup() as turns,
    ):
        due = loop.time()
        while True:
            turns.create_task(turn(world, kedge, number, f"live-{run}-{number:06d}"))
            number, due = number + 1, max(due + 1.0 / per_second, loop.time() - 1.0)
            await asyncio.sleep(max(0.0, due - loop.time()))


async def play(worlds: Sequence[World], address: str, keys: dict[str, TenantKeys], per_second: float) -> None:
    """Keep every tenant busy until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    busy = [
        asyncio.create_task(keep_busy(world, address, keys[world.tenant], per_second))
        for world in worlds
        if world.tenant in keys
    ]
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopped, *busy], return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, *busy):
        task.cancel()
    await asyncio.gather(stopped, *busy, return_exceptions=True)
    for task in done - {stopped}:
        task.result()


def main() -> int:
    """Play until told to stop."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.traffic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", required=True, help="host:port of the gRPC server")
    parser.add_argument("--keys", type=Path, required=True, help='JSON: {"TENANT": {"core_app": "…", "viewer": "…"}}')
    parser.add_argument("--per-second", type=float, default=5.0, help="decisions of each tenant")
    options = parser.parse_args()
    asyncio.run(play(build_worlds(seed=SEED), options.address, read_keys(options.keys), options.per_second))
    return 0


if __name__ == "__main__":
    sys.exit(main())
