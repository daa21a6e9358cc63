"""Keep a trained network as JSON with its lineage: recipe, curve, figures on dev, layout of the features."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np

from brief_routing_env.features import COMPAT_INPUTS, NAMES, VERSION
from brief_routing_env.network import Floats, Network
from brief_routing_env.scenarios import Profile

FOLDER: Final = "policies"
FORMAT: Final = 1
DIGITS: Final = 6
INPUTS: Final[Mapping[Profile, tuple[int, ...]]] = {
    Profile.COMPAT: COMPAT_INPUTS,
    Profile.V2: tuple(range(len(NAMES))),
}


class CheckpointMissing(FileNotFoundError):
    """There is no trained network where one was asked for; nothing stands in for it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no checkpoint {name}: train it with `python -m brief_routing_env.train`")


class LayoutDiffers(ValueError):
    """A checkpoint was trained on features of another layout than these."""

    def __init__(self, found: object) -> None:
        super().__init__(f"the checkpoint's features are {found!r}, these are {VERSION!r}: train it again")


def file_name(profile: Profile) -> str:
    """Name the file of a profile's network.

    >>> file_name(Profile.V2)
    'trained_v2.json'
    """
    return f"trained_{profile}.json"


def dumped(network: Network) -> dict[str, object]:
    """Write the weights as nested lists, rounded to six significant digits."""
    return {name: _rounded(value) for name, value in network.weights.items()}


def _rounded(weights: Floats) -> object:
    if weights.ndim > 1:
        return [_rounded(row) for row in weights]
    return [float(f"{value:.{DIGITS}g}") for value in weights.tolist()]


def document(network: Network, profile: Profile, lineage: Mapping[str, object]) -> str:
    """Write a checkpoint: format, features, lineage, weights."""
    names = [NAMES[place] for place in INPUTS[profile]]
    body = {"format": FORMAT, "features": VERSION, "names": names, "lineage": lineage, "weights": dumped(network)}
    return json.dumps(body, separators=(",", ":")) + "\n"


def read(text: str, profile: Profile) -> Network:
    """Read a checkpoint.

    Raises:
        LayoutDiffers: It was trained on other features.
    """
    body = json.loads(text)
    if body["features"] != VERSION or body["names"] != [NAMES[place] for place in INPUTS[profile]]:
        raise LayoutDiffers(body["features"])
    return Network(**{name: np.array(value) for name, value in body["weights"].items()})


@cache
def shipped(profile: Profile, folder: str = FOLDER) -> Network:
    """Load the network that comes with the package.

    Raises:
        CheckpointMissing: It is not there.
    """
    place = files("brief_routing_env") / folder / file_name(profile)
    if not place.is_file():
        raise CheckpointMissing(f"{folder}/{file_name(profile)}")
    return read(place.read_text(encoding="utf-8"), profile)
