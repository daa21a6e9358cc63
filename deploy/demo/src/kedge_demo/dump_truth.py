"""Write the true scores of a run for another program: `python -m kedge_demo.dump_truth --out DIR`.

Reads DIR/play.json (which worlds were played). Writes DIR/truth/<tenant>.npz with

    keys        action keys, canonical order                          (actions,)
    score       true success of every turn and action                 (turns, actions)
    items       item of the public set that each turn asks            (turns,)
    late_from   first turn of the last third
    reference   action the tenant is compared with, −1: the best honest one
    honest, flatterer, breaker   places of such actions
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from kedge_demo.arms import Part
from kedge_demo.counts import read_play
from kedge_demo.worlds import build_worlds


def main() -> int:
    """Write one file a tenant."""
    parser = argparse.ArgumentParser(prog="kedge_demo.dump_truth", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; holds play.json")
    folder: Path = parser.parse_args().out
    play = read_play(folder)
    (folder / "truth").mkdir(exist_ok=True)
    for world in build_worlds(seed=play.seed, scale=play.scale):
        np.savez(
            folder / "truth" / f"{world.tenant}.npz",
            policy=np.array(world.policy_id),
            keys=np.array(world.action_keys),
            score=world.truth.score,
            items=world.truth.items,
            late_from=np.array(world.late_from),
            reference=np.array(-1 if world.reference is None else world.reference),
            honest=np.array(world.actions(Part.HONEST)),
            flatterer=np.array(world.actions(Part.FLATTERER)),
            breaker=np.array(world.actions(Part.BREAKER)),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
