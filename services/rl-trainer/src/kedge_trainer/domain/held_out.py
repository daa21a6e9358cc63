"""The test split. An import contract lets evaluation alone read this module."""

from kedge_trainer.domain.errors import SeedOutOfSplit

TEST = "test"
SEEDS = range(2_000_000, 2_100_000)


def held_out_seed(index: int) -> int:
    """Give a seed of the test split by its index.

    Raises:
        SeedOutOfSplit: there is no such index.

    >>> held_out_seed(3)
    2000003
    """
    if not 0 <= index < len(SEEDS):
        raise SeedOutOfSplit(TEST, index, len(SEEDS))
    return SEEDS[index]
