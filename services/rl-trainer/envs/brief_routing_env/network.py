"""A small network that routes: two hidden tanh layers and one logit an action, with its gradient. Numpy alone."""

from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HIDDEN: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The weights: F inputs, H hidden units twice, A logits.

    Args:
        w1, b1, w2, b2: Hidden layers, [F, H], [H], [H, H], [H].
        w3, b3: The head, [H, A], [A].
    """

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats
    w3: Floats
    b3: Floats

    @classmethod
    def drawn(cls, inputs: int, actions: int, rng: np.random.Generator) -> Self:
        """Draw a network that has learned nothing and prefers nothing."""

        def layer(rows: int, columns: int, gain: float) -> Floats:
            drawn: Floats = rng.standard_normal((rows, columns)) * gain / np.sqrt(rows)
            return drawn

        return cls(
            w1=layer(inputs, HIDDEN, 1.0),
            b1=np.zeros(HIDDEN),
            w2=layer(HIDDEN, HIDDEN, 1.0),
            b2=np.zeros(HIDDEN),
            w3=layer(HIDDEN, actions, 0.1),
            b3=np.zeros(actions),
        )

    @property
    def weights(self) -> dict[str, Floats]:
        """All weights by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass over N rows, kept for the gradient: inputs, hidden layers, log-probabilities [N, A]."""

    inputs: Floats
    first: Floats
    second: Floats
    logs: Floats


def forward(network: Network, inputs: Floats) -> Pass:
    """Compute the log-probability of every action, inputs [N, F]."""
    first = np.tanh(inputs @ network.w1 + network.b1)
    second = np.tanh(first @ network.w2 + network.b2)
    logits = second @ network.w3 + network.b3
    logits = logits - logits.max(axis=1, keepdims=True)
    return Pass(
        inputs=inputs, first=first, second=second, logs=logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    )


def backward(network: Network, done: Pass, slope: Floats) -> dict[str, Floats]:
    """Carry the slope of a loss with respect to the logits, [N, A], back to the weights."""
    second = (slope @ network.w3.T) * (1.0 - done.second**2)
    first = (second @ network.w2.T) * (1.0 - done.first**2)
    return {
        "w1": done.inputs.T @ first,
        "b1": first.sum(axis=0),
        "w2": done.first.T @ second,
        "b2": second.sum(axis=0),
        "w3": done.second.T @ slope,
        "b3": slope.sum(axis=0),
    }


def sample(logs: Floats, rng: np.random.Generator) -> Ints:
    """Draw one action a row (Gumbel's maximum)."""
    return np.asarray((logs + rng.gumbel(size=logs.shape)).argmax(axis=1), np.int64)


@dataclass(slots=True)
class Adam:
    """Adam (Kingma and Ba 2015) over a network's weights, the gradient's norm cut first."""

    rate: float
    most: float
    mean: dict[str, Floats]
    square: dict[str, Floats]
    count: int = 0

    @classmethod
    def over(cls, network: Network, *, rate: float, most: float) -> Self:
        """Begin with nothing remembered; `most` is the largest norm of a gradient."""
        zeros = {name: np.zeros_like(value) for name, value in network.weights.items()}
        return cls(rate, most, zeros, dict(zeros))

    def step(self, network: Network, slopes: dict[str, Floats]) -> Network:
        """Move the weights against their slopes."""
        self.count += 1
        norm = float(np.sqrt(sum(float((slope**2).sum()) for slope in slopes.values())))
        cut = min(1.0, self.most / (norm + 1e-12))
        moved = {}
        for name, slope in slopes.items():
            self.mean[name] = 0.9 * self.mean[name] + 0.1 * cut * slope
            self.square[name] = 0.999 * self.square[name] + 0.001 * (cut * slope) ** 2
            mean, square = self.mean[name] / (1 - 0.9**self.count), self.square[name] / (1 - 0.999**self.count)
            moved[name] = network.weights[name] - self.rate * mean / (np.sqrt(square) + 1e-8)
        return replace(network, **moved)
