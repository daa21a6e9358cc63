"""The splits, seeds and tasks that a server plays, and OpenEnv's questions about them.

Every environment that has this file has it alike, because it installs alone: `tests/envs/test_shared_files.py`.
"""

import os
from collections.abc import Mapping
from typing import Any

HELD_OUT = "KEDGE_ENV_HELD_OUT"
"""Set to 1 for a server that may also play the test split; a trainer's server is started without."""


class Splits:
    """What a session may reset to; stands before OpenEnv's class among the parents of an environment."""

    def __init__(self, splits: Mapping[str, range], tasks: Mapping[str, str]) -> None:
        super().__init__()
        held_out = os.environ.get(HELD_OUT) == "1"
        self._splits = {name: seeds for name, seeds in splits.items() if held_out or name != "test"}
        self._tasks = tasks

    def _task(self, task: object, *more: str) -> str:
        """Read a task's name, of one's own or of `more`; the first one's unless told otherwise."""
        chosen = next(iter(self._tasks)) if task is None else task
        if not isinstance(chosen, str) or chosen not in (*self._tasks, *more):
            raise ValueError(f"no task {chosen!r:.60}; there are {', '.join(self._tasks)}")
        return chosen

    def _seed(self, seed: object, split: object, index: object) -> int:
        """Read a seed, given as such or as a split's by index."""
        if split is not None:
            return self._of_split(split, 0 if index is None else index)
        found = 0 if seed is None else seed
        if not isinstance(found, int) or not any(found in seeds for seeds in self._splits.values()):
            raise ValueError(f"seed {found!r:.60} is in no split of this server: {', '.join(self._splits)}")
        return found

    def _of_split(self, split: object, index: object) -> int:
        seeds = self._seeds(split)
        if not isinstance(index, int) or not 0 <= index < len(seeds):
            raise ValueError(f"split {split} has seeds 0 to {len(seeds) - 1} by index, not {index!r:.60}")
        return seeds[index]

    def _seeds(self, split: object) -> range:
        if not isinstance(split, str) or split not in self._splits:
            raise ValueError(f"no split {split!r:.60} here; there are {', '.join(self._splits)}")
        return self._splits[split]

    def list_splits(self) -> list[str]:
        """List the splits that this server plays."""
        return list(self._splits)

    def num_tasks(self, split: str) -> int:
        """Count the seeds of a split.

        Raises:
            ValueError: the server does not play that split.
        """
        return len(self._seeds(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """List the first hundred; the others are theirs by index."""
        return [self.get_task(split, index) for index in range(min(100, self.num_tasks(split)))]

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Give one seed of a split.

        Raises:
            ValueError: this server does not play that split, or the split has no such index.
        """
        seed = self._of_split(split, index)
        return {"id": f"{split}-{index}", "index": index, "seed": seed, "tasks": list(self._tasks)}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Give a slice of a split, a thousand at most."""
        chosen = range(*slice(start, stop).indices(self.num_tasks(split)))[:1000]
        return [self.get_task(split, index) for index in chosen]
