"""Call audits as an OpenEnv environment: one instance a session."""

import os
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from call_audit_env.episode import Episode
from call_audit_env.ground import NAME, SPLITS, SUMMARY, TASKS, VERSION, start
from call_audit_env.models import AuditAction, AuditObservation, AuditState
from call_audit_env.server.messages import finite
from call_audit_env.server.sessions import Sessions
from call_audit_env.server.splits import Splits
from call_audit_env.tenant import OWN, Tenant, UnknownTenant, find

TENANTS = "KEDGE_ENV_TENANTS"
"""A folder of tenants' folders; a reset may then name a tenant and audits by that rubric."""

SESSIONS: Final = Sessions[Episode]()
"""Of this process; a socket's own episode is kept by its socket alone."""


class CallAuditEnvironment(Splits, Environment):
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
        tenant: object = None,
        **_: Any,
    ) -> AuditObservation:
        """Begin an episode of a seed, or of a split's seed by index; without either, the first training seed.

        A tenant's audit goes by the tenant's rubric, and has the task `own` beside ours.

        Raises:
            ValueError: the task, split, seed or tenant is none that this server plays, or the id is no text.
        """
        whose = None if tenant is None else _tenant(tenant)
        chosen = self._task(task, *([OWN] if whose else []))
        if not isinstance(episode_id, str | None):
            raise ValueError("an episode_id is text")  # noqa: TRY004 - a sender's fault, as every other here
        self._episode = (whose.start if whose else start)(chosen, self._seed(seed, split, index))
        self._episode_id = episode_id or str(uuid4())
        if episode_id:
            SESSIONS.keep(episode_id, self._episode)
        return self._observation({})

    async def reset_async(self, **asked: Any) -> AuditObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.reset(**asked)

    async def step_async(self, action: AuditAction, **asked: Any) -> AuditObservation:
        """Do it on the event loop: it takes less than handing it to a thread."""
        return self.step(action, **asked)

    def step(
        self, action: AuditAction, timeout_s: float | None = None, episode_id: str | None = None, **_: Any
    ) -> AuditObservation:
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
    ) -> AuditObservation:
        if self._episode is None:
            raise RuntimeError("reset first")
        return AuditObservation(**self._episode.observe(), reward=reward, done=done, metadata=told)

    @property
    def state(self) -> AuditState:
        """Say where the session stands."""
        if self._episode is None:
            return AuditState()
        return AuditState(
            episode_id=self._episode_id,
            step_count=self._episode.world.steps,
            task=self._episode.task,
            finished=self._episode.over,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name the environment and its version."""
        return EnvironmentMetadata(name=NAME, description=SUMMARY, version=VERSION)


def _tenant(name: object) -> Tenant:
    """Load a tenant by name; without a folder of tenants there is none."""
    root = os.environ.get(TENANTS)
    if not root or not isinstance(name, str):
        raise UnknownTenant(f"no tenant {name!r:.60} here")
    return find(Path(root), name)
