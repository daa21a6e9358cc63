"""Read the public tables of the demo, numbers only; `data/README.md` says where they come from."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Hold one CSV file by column, as text."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def texts(self, name: str) -> list[str]:
        """Take one column as it stands in the file."""
        column = self.names.index(name)
        return [row[column] for row in self.rows]

    def numbers(self, *names: str) -> Floats:
        """Take columns as numbers, one row per row of the file: shape (rows, names)."""
        columns = [self.names.index(name) for name in names]
        return np.array([[float(row[column]) for column in columns] for row in self.rows], dtype=np.float64)


def read_table(name: str) -> Table:
    """Read a file of the package's data folder.

    >>> read_table("llmrouter9_prices.csv").names
    ('model', 'input_price_usd_per_mtok', 'output_price_usd_per_mtok', 'size')
    """
    text = (files("kedge_demo") / "data" / name).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return Table(names=tuple(header), rows=tuple(tuple(row) for row in rows))


def number_categories(values: Sequence[str]) -> tuple[tuple[str, ...], Integers]:
    """Number the distinct values in sorted order, and give each row its number.

    >>> names, index = number_categories(["b", "a", "b"])
    >>> names, index.tolist()
    (('a', 'b'), [1, 0, 1])
    """
    names = tuple(sorted(set(values)))
    place = {name: number for number, name in enumerate(names)}
    return names, np.array([place[value] for value in values], dtype=np.int64)
