"""Load the public tables that benches replay: what every action would have scored on every item, and its bucket."""

from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_demo.datasets import number_categories, read_table

WORD_CUTS = np.array([33.0, 43.0, 55.0])
ROUTING_BASELINE = "gemma-2-9b-it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One set.

    Attributes:
        scores: of every item and action in [0, 1], [items, K].
        bucket: of every item, from 0.
        baseline: index of the action that the exploitation floor serves.
    """

    name: str
    scores: FloatArray
    bucket: IntArray
    baseline: int = 0

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return int(self.bucket.max()) + 1

    @property
    def means(self) -> FloatArray:
        """Mean score by bucket and action [B, K]."""
        return np.stack([self.scores[self.bucket == place].mean(axis=0) for place in range(self.buckets)])

    @property
    def best_single(self) -> float:
        """Mean score of the action that is best over all items."""
        return float(self.scores.mean(axis=0).max())

    @property
    def best_by_bucket(self) -> float:
        """Mean score when every bucket is served its own best action."""
        return float(self.means.max(axis=1)[self.bucket].mean())


def routing() -> Replay:
    """Nine models on 6,108 questions, a bucket per task."""
    table = read_table("llmrouter9_scores.csv")
    models = [name for name in table.names if name not in ("task", "prompt_chars")]
    _, bucket = number_categories(table.texts("task"))
    return Replay(name="routing", scores=table.numbers(*models), bucket=bucket, baseline=models.index(ROUTING_BASELINE))


def arithmetic() -> Replay:
    """Two models by two depths on 1,319 problems, a bucket per length of the problem."""
    table = read_table("gsm8k_2x2.csv")
    actions = [name for name in table.names if name.startswith("correct_")]
    words = table.numbers("prompt_words")[:, 0]
    bucket = np.searchsorted(WORD_CUTS, words, side="right").astype(np.int64)
    return Replay(name="gsm8k", scores=table.numbers(*actions), bucket=bucket)


def prompting() -> Replay:
    """Two prompts on 6,511 questions, quality alone, a bucket per task."""
    table = read_table("bbh_direct_cot.csv")
    _, bucket = number_categories(table.texts("task"))
    return Replay(name="bbh", scores=table.numbers("correct_direct", "correct_cot"), bucket=bucket)
