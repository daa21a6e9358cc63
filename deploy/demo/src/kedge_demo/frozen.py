"""Ask a frozen tenant for actions, and write down what it serves: `python -m kedge_demo.frozen --out DIR …`.

Run it after `kedge freeze a-routing --because …`. Writes DIR/frozen.json, and the tenant's audit log into
DIR/audit.json. Ends with 1 if anything but the baseline came.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from kedge_client.kedge import Kedge
from kedge_demo.audit import read_audit, save_audit
from kedge_demo.keys import read_keys
from kedge_demo.page_model import Frozen
from kedge_demo.play import DECIDE_DEADLINE_S, client_baseline
from kedge_demo.world import World
from kedge_demo.worlds import build_worlds

FROZEN_FILE = "frozen.json"


async def ask(world: World, address: str, key: str, *, times: int, because: str) -> Frozen:
    """Ask for so many turns, one after the other; their episodes are not logged."""
    reasons: Counter[str] = Counter()
    served = 0
    kedge = Kedge(
        address,
        key=key,
        tenant=world.tenant,
        baselines={world.policy_id: client_baseline(world)},
        decide_deadline_s=DECIDE_DEADLINE_S,
    )
    async with kedge:
        for turn in range(times):
            context = world.context(turn)
            choice = await kedge.decide(
                world.policy_id,
                episode_id=f"frozen-{turn:06d}",
                categories=context.categories,
                numbers=context.numbers,
            )
            reasons[choice.reason] += 1
            served += choice.action_key == world.action_keys[world.baseline] and not choice.fallback
    return Frozen(
        tenant=world.tenant,
        asked=times,
        baseline_served=served,
        reasons=dict(reasons),
        baseline=world.labels[world.baseline],
        because=because,
    )


def main() -> int:
    """Ask, write, judge."""
    parser = argparse.ArgumentParser(
        prog="kedge_demo.frozen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", required=True, help="host:port of the gRPC server")
    parser.add_argument("--keys", type=Path, required=True, help="JSON of keys by tenant")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--tenant", default="a-routing")
    parser.add_argument("--times", type=int, default=200, help="how often to ask")
    parser.add_argument("--because", default="", help="the reason given to the freeze, for the page")
    options = parser.parse_args()
    world = next(world for world in build_worlds() if world.tenant == options.tenant)
    keys = read_keys(options.keys)[world.tenant]
    found = asyncio.run(ask(world, options.address, keys.core_app, times=options.times, because=options.because))
    folder: Path = options.out
    save_audit(folder, {world.tenant: read_audit(options.address, keys.viewer, world)})
    (folder / FROZEN_FILE).write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    return 0 if found.baseline_served == found.asked and set(found.reasons) == {"FROZEN"} else 1


if __name__ == "__main__":
    sys.exit(main())
