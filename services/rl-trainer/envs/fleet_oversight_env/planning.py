"""Score a worker's configuration against the data it will work on, and find the best one by looking at all of them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

CHUNK_STRATEGIES: Final = ("fixed", "sentence", "paragraph", "semantic")
CHUNK_SIZES: Final = (128, 256, 384, 512, 768, 1024)
EMBEDDING_MODELS: Final = ("mini", "base", "multilingual")
TOP_KS: Final = (3, 5, 8, 12)

_STRATEGY_COST: Final = {"fixed": 1, "sentence": 2, "paragraph": 2, "semantic": 3}
_MODEL_COST: Final = {"mini": 1, "base": 2, "multilingual": 3}
_TOP_K_COST: Final = {3: 1, 5: 1, 8: 2, 12: 3}
CAPACITIES: Final = (5, 7, 7, 6, 6)
# What matters to each worker: chunk size, embedding model, top-k.
WEIGHTS: Final = ((0.6, 0.2, 0.2), (0.8, 0.1, 0.1), (0.2, 0.7, 0.1), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3))
# How well a chunk strategy suits low, middle and high text density.
GATES: Final = {
    "fixed": (1.0, 0.5, 0.05),
    "sentence": (0.9, 0.8, 0.5),
    "paragraph": (0.8, 1.0, 0.7),
    "semantic": (0.7, 0.9, 1.0),
}
_MODEL_SCORE: Final = (1.0, 0.5, 0.2)
_TOP_K_SCORE: Final = (1.0, 0.6, 0.3, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the planner is told about the data.

    Args:
        label: The business domain, as the observation names it.
        document_count, vocabulary_size: Counts, at least 1.
        text_density: 0 (loose) to 1 (dense).
        missing_rate, duplicate_rate, inconsistency_rate, outlier_rate: Shares of the records; they score nothing.
        complexity, chunk_hint: Words about the texts; they score nothing.
    """

    label: str
    document_count: int
    vocabulary_size: int
    text_density: float
    missing_rate: float
    duplicate_rate: float
    inconsistency_rate: float
    outlier_rate: float
    complexity: str
    chunk_hint: str

    @property
    def needs(self) -> tuple[int, int, int]:
        """The three classes that scores depend on: density 0..2, vocabulary 0..2, document count 0..3."""
        density = (self.text_density >= 0.35) + (self.text_density > 0.65)
        vocabulary = (self.vocabulary_size >= 10_000) + (self.vocabulary_size > 25_000)
        documents = (self.document_count >= 300) + (self.document_count > 1500) + (self.document_count > 4000)
        return density, vocabulary, documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How one worker is set up; each value from its list above.

    >>> Config(chunk_strategy="semantic", chunk_size=256, embedding_model="base", top_k=8).cost
    7
    """

    chunk_strategy: str
    chunk_size: int
    embedding_model: str
    top_k: int

    def __post_init__(self) -> None:
        """Refuse a value that is on no list.

        Raises:
            ValueError: Says which field, and what may stand there.
        """
        lists = (CHUNK_STRATEGIES, CHUNK_SIZES, EMBEDDING_MODELS, TOP_KS)
        names = ("chunk_strategy", "chunk_size", "embedding_model", "top_k")
        values = (self.chunk_strategy, self.chunk_size, self.embedding_model, self.top_k)
        for name, value, allowed in zip(names, values, lists, strict=True):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}")

    @property
    def cost(self) -> int:
        """What the configuration takes of the worker's capacity."""
        return _STRATEGY_COST[self.chunk_strategy] + _MODEL_COST[self.embedding_model] + _TOP_K_COST[self.top_k]


DEFAULT: Final = Config(chunk_strategy="fixed", chunk_size=512, embedding_model="mini", top_k=5)


def alignment(config: Config, worker: int, needs: tuple[int, int, int]) -> float:
    """Score how well `config` suits data of these `needs` for worker 0..4, from 0 to 1.

    >>> alignment(DEFAULT, 0, (0, 0, 1))
    1.0
    """
    density, vocabulary, documents = needs
    best_size = (512, 384, 256)[density]
    size = max(0.0, 1.0 - abs(math.log2(config.chunk_size / best_size)))
    model = _MODEL_SCORE[abs(EMBEDDING_MODELS.index(config.embedding_model) - vocabulary)]
    top_k = _TOP_K_SCORE[abs(TOP_KS.index(config.top_k) - documents)]
    chunk_weight, model_weight, top_k_weight = WEIGHTS[worker]
    return GATES[config.chunk_strategy][density] * (chunk_weight * size + model_weight * model + top_k_weight * top_k)


def all_configs() -> Iterator[Config]:
    """List the 288 configurations there are."""
    for strategy in CHUNK_STRATEGIES:
        for size in CHUNK_SIZES:
            for model in EMBEDDING_MODELS:
                for top_k in TOP_KS:
                    yield Config(chunk_strategy=strategy, chunk_size=size, embedding_model=model, top_k=top_k)


@cache
def best_plan(needs: tuple[int, int, int]) -> tuple[Config, ...]:
    """Find each worker's best affordable configuration by trying all; of equals, the cheapest and first.

    >>> best_plan((0, 0, 1))[0] == DEFAULT
    True
    """
    return tuple(
        min(
            (config for config in all_configs() if config.cost <= capacity),
            key=lambda config: (-alignment(config, worker, needs), config.cost),
        )
        for worker, capacity in enumerate(CAPACITIES)
    )
