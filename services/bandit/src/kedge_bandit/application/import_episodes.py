"""Import episodes a platform already has: not randomised, never learned from; for reference scales and coverage."""

from dataclasses import dataclass

from kedge_bandit.application.ports import EpisodeEvent, RowWriter, Snapshot
from kedge_bandit.domain.context import Context, check_context
from kedge_bandit.domain.episode import Trajectory
from kedge_bandit.domain.errors import IdempotencyConflict
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, text_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedEpisode:
    """One episode from another log."""

    tenant: TenantId
    policy: PolicyName
    episode_id: EpisodeId
    context: Context
    trajectory: Trajectory
    source: str


@dataclass(frozen=True, slots=True)
class ImportEpisodes:
    """Store one imported episode; an episode imported before is a duplicate."""

    snapshot: Snapshot
    rows: RowWriter

    async def __call__(self, episode: ImportedEpisode) -> bool:
        """Store it; answers whether it was there already. Raises KedgeError where it is wrong."""
        serving = self.snapshot.serving(episode.tenant, episode.policy)
        check_context(episode.context, serving.policy.spec.features)
        key = f"IMPORT:{episode.policy}:{text_id(episode.episode_id, field='episode_id')}"
        status = await self.rows.episode_event(
            episode.tenant,
            EpisodeEvent(
                key=key,
                kind="IMPORT",
                policy=episode.policy,
                episode_id=episode.episode_id,
                source=episode.source,
                trajectory=episode.trajectory,
            ),
        )
        if status == "CONFLICT":
            raise IdempotencyConflict(key)
        return status == "DUPLICATE"
