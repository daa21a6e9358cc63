"""The test split. An import contract lets evaluation alone read this module."""

TEST = "test"
SEEDS = range(2_000_000, 2_100_000)
