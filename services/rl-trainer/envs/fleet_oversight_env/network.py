"""Choose moves with one small tanh network that all workers share, and give its gradient. Numpy, single precision.

Each worker's features pass two hidden layers and end in four logits (monitor, intervene, escalate, hold); the mean of
the last hidden layer gives the logit of waiting. Impossible moves are masked before the softmax.
"""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fleet_oversight_env.view import Bools, Ints

Singles = NDArray[np.float32]
IMPOSSIBLE = np.float32(-1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The weights: F features, H hidden units, four logits a worker and one for waiting.

    Args:
        centre, scale: What features are shifted and divided by first, [F]; set once, not trained.
        w1, b1, w2, b2: Hidden layers, [F, H], [H], [H, H], [H].
        w3, b3: Logits of a worker, [H, 4], [4].
        w4, b4: Logit of waiting, [H], [1].
    """

    centre: Singles
    scale: Singles
    w1: Singles
    b1: Singles
    w2: Singles
    b2: Singles
    w3: Singles
    b3: Singles
    w4: Singles
    b4: Singles

    @classmethod
    def drawn(cls, centre: Singles, scale: Singles, hidden: int, rng: np.random.Generator) -> Self:
        """Draw small random weights for features with this centre and scale."""

        def layer(rows: int, columns: int, gain: float) -> Singles:
            drawn = rng.standard_normal((rows, columns)) * gain / np.sqrt(rows)
            return np.asarray(drawn, np.float32)

        return cls(
            centre=centre,
            scale=scale,
            w1=layer(len(centre), hidden, 1.0),
            b1=np.zeros(hidden, np.float32),
            w2=layer(hidden, hidden, 1.0),
            b2=np.zeros(hidden, np.float32),
            w3=layer(hidden, 4, 0.1),
            b3=np.array([0.0, -1.0, -1.0, 0.0], np.float32),
            w4=layer(hidden, 1, 0.1)[:, 0],
            b4=np.zeros(1, np.float32),
        )

    @property
    def trained(self) -> dict[str, Singles]:
        """The weights that training changes, by name."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in {"centre", "scale"}
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One forward pass over N rows, kept for the gradient: inputs, hidden layers and log-probabilities [N, 21]."""

    inputs: Singles
    first: Singles
    second: Singles
    log_probabilities: Singles


def forward(network: Network, features: Singles, possible: Bools) -> Pass:
    """Compute the log-probability of every move.

    Args:
        features: [N, 5, F]. possible: [N, 21].
    """
    inputs = (features - network.centre) / network.scale
    first = np.tanh(inputs @ network.w1 + network.b1)
    second = np.tanh(first @ network.w2 + network.b2)
    workers = second @ network.w3 + network.b3
    waiting = second.mean(axis=1) @ network.w4 + network.b4
    logits = np.concatenate([workers.reshape(len(features), -1), waiting[:, None]], axis=1)
    logits = np.where(possible, logits, IMPOSSIBLE)
    logits = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return Pass(inputs=inputs, first=first, second=second, log_probabilities=log_probabilities)


def backward(network: Network, done: Pass, slope: Singles) -> dict[str, Singles]:
    """Carry the slope of a loss with respect to the logits, [N, 21], back to the trained weights."""
    rows, hidden = len(slope), network.w2.shape[0]
    workers, waiting = slope[:, :-1].reshape(rows, 5, 4), slope[:, -1]
    second = workers @ network.w3.T + (waiting[:, None] * network.w4)[:, None, :] / np.float32(5.0)
    second *= 1.0 - done.second * done.second
    first = (second @ network.w2.T) * (1.0 - done.first * done.first)
    flat_second, flat_first = second.reshape(-1, hidden), first.reshape(-1, hidden)
    return {
        "w1": done.inputs.reshape(-1, done.inputs.shape[2]).T @ flat_first,
        "b1": flat_first.sum(axis=0),
        "w2": done.first.reshape(-1, hidden).T @ flat_second,
        "b2": flat_second.sum(axis=0),
        "w3": done.second.reshape(-1, hidden).T @ workers.reshape(-1, 4),
        "b3": workers.reshape(-1, 4).sum(axis=0),
        "w4": done.second.mean(axis=1).T @ waiting,
        "b4": waiting.sum(keepdims=True),
    }


def sample(log_probabilities: Singles, rng: np.random.Generator) -> Ints:
    """Draw one move per row (Gumbel's maximum)."""
    noise = -np.log(-np.log(rng.random(log_probabilities.shape) + 1e-12) + 1e-12)
    return np.asarray((log_probabilities + noise).argmax(axis=1))
