"""A tenant's own audit as one folder: `rubric.toml` with its policies and weights, and `calls.jsonl` with its calls.

A folder without calls plays our shapes by its rubric. Nothing of one tenant can be named from another's audit.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from call_audit_env.book import Book, UnusableRubric
from call_audit_env.calls import Call
from call_audit_env.episode import Episode
from call_audit_env.records import UnusableCall, call_of_record, read
from call_audit_env.scenarios import AUDIT, call_of, profile_of

RUBRIC, CALLS = "rubric.toml", "calls.jsonl"
OWN = "own"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class UnknownTenant(ValueError):
    """No folder of that name."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's rubric and calls, by the name of its folder."""

    name: str
    book: Book
    calls: tuple[Call, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder.

        Raises:
            UnknownTenant: there is no such folder, or it holds no rubric.
            UnusableRubric: its rubric cannot be played by.
            UnusableCall: one of its calls cannot be played, or belongs to another tenant.
        """
        rubric, calls = folder / RUBRIC, folder / CALLS
        if not rubric.is_file():
            raise UnknownTenant(f"{folder.name} has no {RUBRIC}")
        book = Book.read(rubric.read_text(encoding="utf-8"))
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.is_file() else []
        return cls(folder.name, book, tuple(_call(line, folder.name, book) for line in lines if line.strip()))

    def start(self, task: str, seed: int) -> Episode:
        """Begin an audit by this tenant's rubric.

        Args:
            task: `own` for its calls, in turn; any other task plays our shapes.
            seed: which one.

        Raises:
            KeyError: there is no such task.
            UnusableCall: its own calls are asked for, and it has none.
        """
        if task != OWN:
            return Episode(task, call_of(task, seed, self.book), book=self.book, profile=profile_of(task))
        if not self.calls:
            raise UnusableCall(f"{self.name} has no {CALLS}; play the task {AUDIT} by its rubric instead")
        return Episode(task, self.calls[seed % len(self.calls)], book=self.book)


def _call(line: str, tenant: str, book: Book) -> Call:
    record = read(line)
    if record.tenant != tenant:
        raise UnusableCall(f"{record.call_id} belongs to another tenant")
    return call_of_record(record, book)


def find(root: Path, name: str) -> Tenant:
    """Load a tenant by name from a folder of tenants; a name is no path.

    Raises:
        UnknownTenant: there is no such tenant.
        UnusableRubric, UnusableCall: as in `Tenant.load`.
    """
    if not _NAME.fullmatch(name):
        raise UnknownTenant(f"no tenant {name!r:.60}")
    return Tenant.load(root / name)


__all__ = ["OWN", "Tenant", "UnknownTenant", "UnusableCall", "UnusableRubric", "find"]
