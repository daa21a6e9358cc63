"""Keep a trained network as JSON with its lineage: recipe, seeds, curve, figures on dev, layout of the features."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, cast

import numpy as np

from fleet_oversight_env.features import NAMES, VERSION
from fleet_oversight_env.network import Network, Singles

FOLDER: Final = "policies"
SHIPPED: Final = "learned_{}.json"
CONTROL: Final = "control.json"
BEST: Final = 3
"""The training seed whose policy was best on dev; `learned` plays it."""
FORMAT: Final = 1
DIGITS: Final = 6
_WEIGHTS: Final = ("centre", "scale", "w1", "b1", "w2", "b2", "w3", "b3", "w4", "b4")


class LayoutDiffers(ValueError):
    """A checkpoint was trained on features of another layout than these."""

    def __init__(self, found: object) -> None:
        super().__init__(f"the checkpoint's features are {found!r}, these are {VERSION!r}: train it again")


def dumped(network: Network) -> dict[str, object]:
    """Write the weights as nested lists, rounded to six significant digits."""
    return {name: _rounded(getattr(network, name)) for name in _WEIGHTS}


def _rounded(weights: Singles) -> object:
    return (
        [_rounded(row) for row in weights] if weights.ndim > 1 else [float(f"{value:.{DIGITS}g}") for value in weights]
    )


def loaded(weights: Mapping[str, object]) -> Network:
    """Read what `dumped` wrote."""
    return Network(**{name: np.array(weights[name], dtype=np.float32) for name in _WEIGHTS})


def document(network: Network, lineage: Mapping[str, object]) -> str:
    """Write a checkpoint: format, features, lineage, weights."""
    body = {"format": FORMAT, "features": VERSION, "names": list(NAMES), "lineage": lineage, "weights": dumped(network)}
    return json.dumps(body, separators=(",", ":")) + "\n"


def read(text: str) -> Network:
    """Read a checkpoint.

    Raises:
        LayoutDiffers: It was trained on other features.
    """
    body = json.loads(text)
    if body["features"] != VERSION or tuple(body["names"]) != NAMES:
        raise LayoutDiffers(body["features"])
    return loaded(cast("Mapping[str, object]", body["weights"]))


@cache
def shipped(name: str = SHIPPED.format(BEST)) -> Network:
    """Load a network that comes with the package."""
    return read((files("fleet_oversight_env") / FOLDER / name).read_text(encoding="utf-8"))
