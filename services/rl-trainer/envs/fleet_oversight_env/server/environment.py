"""Fleet oversight as an OpenEnv environment: one instance a session."""

from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from fleet_oversight_env.episode import Episode
from fleet_oversight_env.ground import NAME, SPLITS, SUMMARY, TASKS, VERSION, start
from fleet_oversight_env.models import FleetAction, FleetObservation, FleetState
from fleet_oversight_env.server.messages import finite
from fleet_oversight_env.server.splits import Splits


class FleetEnvironment(Splits, Environment):
    """One session. An episode ends with its last step; a reset begins another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__(SPLITS, TASKS)
        self._episode: Episode | None = None
        self._named: tuple[str | None, str | None] = (None, None)

    def reset(
        self,
        seed: object = None,
        episode_id: object = None,
        task: object = None,
        split: object = None,
        index: object = None,
        **_: Any,
    ) -> FleetObservation:
        """Begin an episode of a seed, or of a split's seed by index; without either, the first training seed.

        Raises:
            ValueError: The task, split or seed is none that this server plays, or the id is no text.
        """
        chosen = self._task(task)
        if not isinstance(episode_id, str | None):
            raise ValueError("an episode_id is text")  # noqa: TRY004 - a sender's fault, as every other here
        self._episode = start(chosen, self._seed(seed, split, index))
        self._named = (episode_id or str(uuid4()), chosen)
        return self._observation({})

    async def reset_async(self, **asked: Any) -> FleetObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.reset(**asked)

    async def step_async(self, action: FleetAction, **asked: Any) -> FleetObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.step(action, **asked)

    def step(self, action: FleetAction, timeout_s: float | None = None, **_: Any) -> FleetObservation:
        """Play an action.

        Raises:
            ValueError: There is no episode yet.
        """
        if self._episode is None:
            raise ValueError("reset first: a step belongs to the episode of its session")
        turn = self._episode.step(action.model_dump(exclude={"metadata"}))
        told: dict[str, Any] = {
            "terminated": turn.terminated,
            "truncated": turn.truncated,
            "signals": dict(turn.signals),
        }
        told |= {"veto": turn.veto} if turn.veto else {}
        told |= {"grade": turn.grade, "metrics": finite(self._episode.metrics())} if turn.terminated else {}
        return self._observation(told, reward=turn.reward, done=turn.terminated)

    def _observation(
        self, told: dict[str, Any], reward: float | None = None, *, done: bool = False
    ) -> FleetObservation:
        if self._episode is None:
            raise RuntimeError("reset first")
        return FleetObservation(**self._episode.observe(), reward=reward, done=done, metadata=told)

    @property
    def state(self) -> FleetState:
        """Say where the session stands."""
        episode_id, task = self._named
        if self._episode is None:
            return FleetState()
        return FleetState(
            episode_id=episode_id,
            step_count=int(self._episode.metrics()["steps"]),
            task=task,
            finished=self._episode.over,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name the environment and its version."""
        return EnvironmentMetadata(name=NAME, description=SUMMARY, version=VERSION)
