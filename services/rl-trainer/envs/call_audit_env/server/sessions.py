"""Episodes by id, for callers without a socket: OpenEnv makes a new environment for every HTTP request.

Every environment that has this file has it alike, because it installs alone: `tests/envs/test_shared_files.py`.
"""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Episode = TypeVar("Episode")

MOST = 256
"""Episodes that are kept; the one that was touched least lately goes first, finished or not."""


class Sessions(Generic[Episode]):
    """The episodes of a process that were begun under an id."""

    def __init__(self) -> None:
        self._episodes: OrderedDict[str, Episode] = OrderedDict()
        self._lock = Lock()

    def keep(self, episode_id: str, episode: Episode) -> None:
        """Put an episode under its id, in place of what was there."""
        with self._lock:
            self._episodes[episode_id] = episode
            self._episodes.move_to_end(episode_id)
            while len(self._episodes) > MOST:
                self._episodes.popitem(last=False)

    def find(self, episode_id: str) -> Episode | None:
        """Give an episode that is still kept."""
        with self._lock:
            if episode_id in self._episodes:
                self._episodes.move_to_end(episode_id)
            return self._episodes.get(episode_id)

    def count(self) -> int:
        """Count what is kept."""
        with self._lock:
            return len(self._episodes)
