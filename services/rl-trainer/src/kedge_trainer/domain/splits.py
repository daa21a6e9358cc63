"""Seeds by split, as training may ask for them. The test split is elsewhere and has no member here."""

from enum import StrEnum

from kedge_trainer.domain.errors import SeedOutOfSplit


class TrainingSplit(StrEnum):
    """What training code can name: seeds to learn from, and seeds to choose by."""

    TRAIN = "train"
    DEV = "dev"


RANGES = {TrainingSplit.TRAIN: range(1_000_000), TrainingSplit.DEV: range(1_000_000, 1_100_000)}


def seed_of(split: TrainingSplit, index: int) -> int:
    """Give a split's seed by its index.

    Raises:
        SeedOutOfSplit: the split has no such index; it never reaches into another.

    >>> seed_of(TrainingSplit.DEV, 7)
    1000007
    """
    seeds = RANGES[split]
    if not 0 <= index < len(seeds):
        raise SeedOutOfSplit(split, index, len(seeds))
    return seeds[index]
