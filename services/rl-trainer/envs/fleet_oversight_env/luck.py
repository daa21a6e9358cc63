"""Hold every random number of an episode: fixed places in one stream, drawn whatever is done or hidden.

A number's place is (worker, signal) for the start and (step, worker, signal) for telemetry. So a replay is exact, a
batch equals its episodes one by one, and a change of what is hidden shifts no other draw.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleet_oversight_env.laws import FLEET, OVERSIGHT_STEPS

# The start, per worker: is it faulty (a rank), fault kind, activation, delay, glitch or not, glitch start, budget.
RANK, KIND, ACTIVATION, DELAY, GLITCHES, GLITCH_FROM, BUDGET = range(7)
# The telemetry, per step and worker.
RESULT, BURN, JUMP, FLAG, ZERO, QUALITY = range(6)
# The scenario: how many faults, and four numbers that vary a training profile.
HOW_MANY, PROFILE_KIND, PROFILE_DENSITY, PROFILE_VOCABULARY, PROFILE_DOCUMENTS = range(5)

_SCENARIO: Final = 5
_START: Final = 7 * FLEET
_UNIFORMS: Final = 5 * FLEET * OVERSIGHT_STEPS
_NORMALS: Final = FLEET * OVERSIGHT_STEPS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Luck:
    """The random numbers of one episode, uniform on [0, 1) but for QUALITY, which is standard normal.

    Args:
        scenario: Shape [5].
        start: Shape [workers][7].
        telemetry: Shape [steps][workers][6].
    """

    scenario: list[float]
    start: list[list[float]]
    telemetry: list[list[list[float]]]


def luck_arrays(seed: int) -> tuple[Floats, Floats, Floats]:
    """Draw an episode's numbers from the Philox stream that `seed` (0 to 2**128 - 1) keys."""
    stream = np.random.Generator(np.random.Philox(key=seed))
    uniforms = stream.random(_SCENARIO + _START + _UNIFORMS)
    telemetry = np.empty((OVERSIGHT_STEPS, FLEET, 6))
    telemetry[:, :, :5] = uniforms[_SCENARIO + _START :].reshape(OVERSIGHT_STEPS, FLEET, 5)
    telemetry[:, :, QUALITY] = stream.standard_normal(_NORMALS).reshape(OVERSIGHT_STEPS, FLEET)
    return uniforms[:_SCENARIO], uniforms[_SCENARIO : _SCENARIO + _START].reshape(FLEET, 7), telemetry


def luck_of(seed: int) -> Luck:
    """Draw an episode's numbers as plain lists, which a scalar world reads fastest.

    >>> luck_of(7) == luck_of(7)
    True
    """
    scenario, start, telemetry = luck_arrays(seed)
    return Luck(scenario.tolist(), start.tolist(), telemetry.tolist())
