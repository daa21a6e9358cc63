"""Play the demo's tenants through gRPC, all at once, as their core applications would.

    python -m kedge_demo.play --address HOST:PORT --keys FILE --out DIR

Policies and keys must be there. Floor and slice are released in time by running `kedge policy stage` (`--kedge` names
the command). Writes DIR/play.json: the client's own count of everything, which `kedge_demo.measure` holds against the
export. Ends with 1 and a sentence if something was refused.
"""

import argparse
import asyncio
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import grpc.aio
from rich.console import Console

from kedge_client.action import Arm, Baseline
from kedge_client.errors import KedgeClientError
from kedge_client.kedge import Kedge
from kedge_demo.build_world import FIRST_FLOOR, FIRST_SLICE, LAST_FLOOR
from kedge_demo.counts import Play, Stage, TenantCounts, write_play
from kedge_demo.keys import TenantKeys, read_keys
from kedge_demo.pace import Pace, PlayFailed
from kedge_demo.player import Player
from kedge_demo.progress import show_progress
from kedge_demo.world import World
from kedge_demo.worlds import SEED, build_worlds

LAST_SLICE = 0.02
BECAUSE = "demo: the learned part has shown itself on the floor's traffic"
IN_FLIGHT = 64
DECIDE_DEADLINE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Say where to play, with which keys, and how to call the command line."""

    address: str
    keys: dict[str, TenantKeys]
    command: tuple[str, ...]


def client_baseline(world: World) -> Baseline:
    """Configure the known-good action locally, with its content, as a core application does."""
    policy = world.policy
    names = {
        "model_route": policy.baseline.model_route.name,
        "reasoning_depth": policy.baseline.reasoning_depth.name,
        "prompt_variant": policy.baseline.prompt_variant.name,
    }
    content = {arm.name: arm.content for arm in policy.arms}
    return Baseline(**{field: Arm(name, content[name]) for field, name in names.items() if name})


async def release(world: World, server: Server, counts: TenantCounts, turn: int) -> None:
    """Release floor and slice by the real command, while the traffic goes on.

    Raises:
        PlayFailed: the command refused.
    """
    arguments = ["--floor", str(LAST_FLOOR), "--slice", str(LAST_SLICE), "--because", BECAUSE]
    command = [*server.command, "policy", "stage", world.tenant, world.policy_id, *arguments]
    # In a thread: a play that stops meanwhile lets the command end, and leaves neither process nor pipe behind.
    run = partial(subprocess.run, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    ended = await asyncio.to_thread(run)
    if ended.returncode:
        raise PlayFailed(f"{world.tenant}: kedge policy stage ended with {ended.returncode}: {ended.stdout}")
    counts.stages.append(Stage(turn=turn, floor=LAST_FLOOR, uniform_slice=LAST_SLICE, because=BECAUSE))


async def play(worlds: tuple[World, ...], server: Server, console: Console) -> dict[str, TenantCounts]:
    """Play all worlds side by side, with decisions in flight in proportion to their turns."""
    total = sum(world.turns for world in worlds)
    clients = {
        world.tenant: Kedge(
            server.address,
            key=server.keys[world.tenant].core_app,
            tenant=world.tenant,
            baselines={world.policy_id: client_baseline(world)},
            decide_deadline_s=DECIDE_DEADLINE_S,
            call_deadline_s=30.0,
        )
        for world in worlds
    }
    channel = grpc.aio.insecure_channel(server.address)
    players: dict[str, Player] = {}
    for world in worlds:
        pace = Pace(world, channel, server.keys[world.tenant].viewer)
        player = Player(world, clients[world.tenant], pace)
        player.counts.stages.append(Stage(turn=0, floor=FIRST_FLOOR, uniform_slice=FIRST_SLICE))
        players[world.tenant] = player
    counts = {name: one.counts for name, one in players.items()}
    shown = asyncio.create_task(show_progress(worlds, counts, console))
    try:
        async with asyncio.TaskGroup() as group:
            for world in worlds:
                stage = partial(release, world, server, counts[world.tenant])
                slots = max(2, round(IN_FLIGHT * world.turns / total))
                group.create_task(players[world.tenant].play(slots, stage))
    finally:
        shown.cancel()
        await asyncio.wait([shown])
        for client in clients.values():
            await client.close()
        await channel.close()
    return counts


def single_failures(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    """Unfold what several tasks raised."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from single_failures(one)
        else:
            yield one


def main() -> int:
    """Play, and write down what was counted."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.play", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", required=True, help="host:port of the gRPC server")
    parser.add_argument("--keys", type=Path, required=True, help='JSON: {"TENANT": {"core_app": "…", "viewer": "…"}}')
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--kedge", default="kedge", help="command that `policy stage …` is appended to")
    parser.add_argument("--seed", type=int, default=SEED, help="of the turns and of the truth")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the turns to play, for trials")
    options = parser.parse_args()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    worlds = build_worlds(seed=options.seed, scale=options.scale)
    command = tuple(shlex.split(options.kedge))
    server = Server(address=options.address, keys=read_keys(options.keys), command=command)
    started = perf_counter()
    tenants: dict[str, TenantCounts] = {}
    try:
        tenants = asyncio.run(play(worlds, server, console))
    except* (PlayFailed, KedgeClientError, grpc.aio.AioRpcError) as failures:
        for failure in single_failures(failures):
            console.print(f"the demo stopped: {failure}", style="red", markup=False)
    if not tenants:
        return 1
    seconds = perf_counter() - started
    write_play(folder, Play(seed=options.seed, scale=options.scale, seconds=seconds, tenants=tenants))
    return 0


if __name__ == "__main__":
    sys.exit(main())
