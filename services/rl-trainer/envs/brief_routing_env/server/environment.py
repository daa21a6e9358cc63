"""briefs as an OpenEnv environment: one instance a session."""

import os
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from brief_routing_env.episode import Episode
from brief_routing_env.ground import NAME, SPLITS, SUMMARY, TASKS, VERSION, start, switches
from brief_routing_env.models import BriefAction, BriefObservation, BriefState
from brief_routing_env.server.sessions import SESSIONS

HELD_OUT = "KEDGE_ENV_HELD_OUT"
"""Set to 1 for a server that may also play the test split; a trainer's server is started without."""


class BriefEnvironment(Environment):
    """One session. An episode ends with its last step; a reset begins another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        held_out = os.environ.get(HELD_OUT) == "1"
        self._splits = {name: seeds for name, seeds in SPLITS.items() if held_out or name != "test"}
        self._episode: Episode | None = None
        self._episode_id: str | None = None

    def reset(
        self,
        seed: object = None,
        episode_id: object = None,
        task: object = None,
        split: object = None,
        index: object = None,
        use_rag: object = None,
        eval_mode: object = None,
        profile: object = None,
        tenant_id: object = None,
        **_: Any,
    ) -> BriefObservation:
        """Begin an episode of a seed, or of a split's seed by index; without either, the first training seed.

        What is switched besides wins over the task's name.

        Raises:
            ValueError: the task, split, seed or switch is none that this server plays, or the id is no text.
        """
        chosen = next(iter(TASKS)) if task is None else task
        if not isinstance(chosen, str) or chosen not in TASKS:
            raise ValueError(f"no task {chosen!r:.60}; there are {', '.join(TASKS)}")
        if not isinstance(episode_id, str | None):
            raise ValueError("an episode_id is text")  # noqa: TRY004 - a sender's fault, as every other here
        switched = switches(rag=use_rag, eval_mode=eval_mode, profile=profile, tenant=tenant_id)
        self._episode = start(chosen, self._seed(seed, split, index), **switched)
        self._episode_id = episode_id or str(uuid4())
        if episode_id:
            SESSIONS.keep(episode_id, self._episode)
        return self._observation({})

    def _seed(self, seed: object, split: object, index: object) -> int:
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

    async def reset_async(self, **asked: Any) -> BriefObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.reset(**asked)

    async def step_async(self, action: BriefAction, **asked: Any) -> BriefObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.step(action, **asked)

    def step(
        self, action: BriefAction, timeout_s: float | None = None, episode_id: str | None = None, **_: Any
    ) -> BriefObservation:
        """Play an action in the session's episode, or in the one that was begun under an id.

        Raises:
            ValueError: there is no episode yet, or none is kept under that id.
        """
        episode = self._episode if episode_id is None else SESSIONS.find(str(episode_id))
        if episode is None:
            raise ValueError("reset first: a step belongs to the episode of its session, or of an episode_id")
        self._episode = episode
        turn = episode.step(action.model_dump(exclude={"metadata"}))
        over = turn.terminated or turn.truncated
        told: dict[str, Any] = {
            "terminated": turn.terminated,
            "truncated": turn.truncated,
            "signals": dict(turn.signals),
        }
        told |= {"veto": turn.veto} if turn.veto else {}
        told |= {"grade": turn.grade, "metrics": _finite(episode.metrics())} if over else {}
        return self._observation(told, reward=turn.reward, done=over)

    def _observation(
        self, told: dict[str, Any], reward: float | None = None, *, done: bool = False
    ) -> BriefObservation:
        if self._episode is None:
            raise RuntimeError("reset first")
        return BriefObservation(**self._episode.observe(), reward=reward, done=done, metadata=told)

    @property
    def state(self) -> BriefState:
        """Say where the session stands."""
        if self._episode is None:
            return BriefState()
        return BriefState(
            episode_id=self._episode_id,
            step_count=self._episode.world.steps,
            task=self._episode.task,
            finished=self._episode.over,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name the environment and its version."""
        return EnvironmentMetadata(name=NAME, description=SUMMARY, version=VERSION)

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
        return {"id": f"{split}-{index}", "index": index, "seed": self._of_split(split, index), "tasks": list(TASKS)}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Give a slice of a split, a thousand at most."""
        chosen = range(*slice(start, stop).indices(self.num_tasks(split)))[:1000]
        return [self.get_task(split, index) for index in chosen]


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    """Leave out what was not measured: JSON has no NaN."""
    return {name: value for name, value in metrics.items() if value == value}
