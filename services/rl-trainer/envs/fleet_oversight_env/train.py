"""Train the learned policies and the control, choose on dev, and write checkpoints with their lineage.

    python -m fleet_oversight_env.train            three training seeds, then the control
    python -m fleet_oversight_env.train --seed 2   one of them

The same command gives the same weights on the same numpy and processor; a checkpoint says which numpy that was.
"""

import argparse
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.checkpoint import CONTROL, FOLDER, SHIPPED, document, dumped
from fleet_oversight_env.learned import learned
from fleet_oversight_env.network import Network
from fleet_oversight_env.results import play
from fleet_oversight_env.scenarios import DEV_SEEDS, TRAIN_SEEDS
from fleet_oversight_env.starts import starts
from fleet_oversight_env.training import Recipe, Round, train

logger = logging.getLogger(__name__)
SEEDS: Final = (1, 2, 3)
CANDIDATE_EVERY: Final = 20
DEV_EPISODES: Final = 1000
FP_TARGET: Final = 0.08
FP_PRICE: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """Greedy play on the first dev seeds, half easy and half hard: what a checkpoint is chosen by."""

    update: int
    detection: float
    needless: float
    oversight: float

    @property
    def merit(self) -> float:
        """R_oversight, less a price on needless alarms beyond the target."""
        return self.oversight - FP_PRICE * max(0.0, self.needless - FP_TARGET)


def on_dev(network: Network, update: int) -> Dev:
    """Play the dev seeds."""
    seeds = DEV_SEEDS[:DEV_EPISODES]
    found = []
    for task in ("nexacrm_easy", "nexacrm_hard"):
        begun = starts(task, seeds)
        found.append(play(Batch(begun), learned(network)(begun.opening, np.random.default_rng(0))))
    return Dev(
        update=update,
        detection=float(np.mean([one.detection.mean() for one in found])),
        needless=float(np.mean([one.needless.mean() for one in found])),
        oversight=float(np.mean([one.oversight.mean() for one in found])),
    )


def run(recipe: Recipe) -> tuple[Network, dict[str, object]]:
    """Train one recipe; give the network that was best on dev, and its lineage."""
    began = time.process_time()
    curve: list[Round] = []
    candidates: list[tuple[Dev, Network]] = []
    for point, network in train(recipe):
        curve.append(point)
        if point.update % CANDIDATE_EVERY == CANDIDATE_EVERY - 1:
            candidates.append((on_dev(network, point.update), network))
            logger.info("seed %s: %s", recipe.seed, candidates[-1][0])
    chosen, best = max(candidates, key=lambda candidate: candidate[0].merit)
    lineage: dict[str, object] = {
        "recipe": asdict(recipe),
        "environment_steps": recipe.updates * recipe.episodes * 17,
        "train_seeds": [TRAIN_SEEDS.start, TRAIN_SEEDS.stop - 1],
        "dev_seeds": [DEV_SEEDS.start, DEV_SEEDS.start + DEV_EPISODES - 1],
        "chosen": asdict(chosen) | {"merit": chosen.merit},
        "candidates": [asdict(dev) for dev, _ in candidates],
        "curve": [{name: _short(value) for name, value in asdict(point).items()} for point in curve],
        "cpu_seconds": round(time.process_time() - began, 1),
        "numpy": np.__version__,
        "weights_sha256": sha256(json.dumps(dumped(best)).encode()).hexdigest(),
    }
    return best, lineage


def _short(value: float) -> float:
    return value if isinstance(value, int) else round(value, 4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and write into the package's `policies` folder, or into --out."""
    parser = argparse.ArgumentParser(prog="python -m fleet_oversight_env.train", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="a training seed; all three unless given")
    parser.add_argument("--control", action="store_true", help="train the random-label control alone")
    parser.add_argument("--updates", type=int, default=Recipe().updates)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / FOLDER)
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    recipe = Recipe(updates=chosen.updates)
    seeds = [] if chosen.control else chosen.seed or SEEDS
    for seed in seeds:
        network, lineage = run(replace(recipe, seed=seed))
        (chosen.out / SHIPPED.format(seed)).write_text(document(network, lineage), encoding="utf-8")
    if chosen.control or not chosen.seed:
        network, lineage = run(replace(recipe, shuffled=True))
        (chosen.out / CONTROL).write_text(document(network, lineage), encoding="utf-8")


if __name__ == "__main__":
    main()
