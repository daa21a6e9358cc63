"""briefs as an OpenEnv environment: one instance a session."""

from typing import Any, Final
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from brief_routing_env.episode import Episode
from brief_routing_env.ground import NAME, SPLITS, SUMMARY, TASKS, VERSION, start, switches
from brief_routing_env.models import BriefAction, BriefObservation, BriefState
from brief_routing_env.server.messages import finite
from brief_routing_env.server.sessions import Sessions
from brief_routing_env.server.splits import Splits

SESSIONS: Final = Sessions[Episode]()
"""Of this process; a socket's own episode is kept by its socket alone."""


class BriefEnvironment(Splits, Environment):
    """One session. An episode ends with its last step; a reset begins another."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__(SPLITS, TASKS)
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
        chosen = self._task(task)
        if not isinstance(episode_id, str | None):
            raise ValueError("an episode_id is text")  # noqa: TRY004 - a sender's fault, as every other here
        switched = switches(rag=use_rag, eval_mode=eval_mode, profile=profile, tenant=tenant_id)
        self._episode = start(chosen, self._seed(seed, split, index), **switched)
        self._episode_id = episode_id or str(uuid4())
        if episode_id:
            SESSIONS.keep(episode_id, self._episode)
        return self._observation({})

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
        told |= {"grade": turn.grade, "metrics": finite(episode.metrics())} if over else {}
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
