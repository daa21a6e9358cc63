"""What divergence checks need of the open ledger."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from kedge_bandit.domain.divergence_check import DivergenceCheck, OnlineSide, Watch
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.policy import Policy


class Divergences(Protocol):
    """The checks of the open tenant, and when its policies are checked; only the gate's login adds a check."""

    async def watch(self, policy: PolicyName) -> Watch | None:
        """Read how a policy is checked; None where it is not."""

    async def watched(self) -> Sequence[Watch]:
        """Read how all are."""

    async def begin(self, policy: PolicyName, at: datetime) -> None:
        """Check a policy from now on; nothing where it is already."""

    async def ask(self, policy: PolicyName, actor: str, at: datetime) -> bool:
        """Want a check at once; False where the policy is not checked."""

    async def put_off(self, policy: PolicyName, due: datetime) -> None:
        """Look again later, unless somebody asked meanwhile."""

    async def claim(self, policy: PolicyName, at: datetime, lease: timedelta) -> bool:
        """Make the check that is due; False where another process does."""

    async def release(self, policy: PolicyName, due: datetime, *, sees: bool) -> None:
        """End one's claim; a check that succeeded also ends blindness."""

    async def be_blind(self, policy: PolicyName, blind: int) -> bool:
        """Say how far blindness went; False where that is known already."""

    async def newest(self, policy: PolicyName, *, succeeded: bool = False) -> DivergenceCheck | None:
        """Read the newest check, or the newest that succeeded."""

    async def list(self, policy: PolicyName, *, before: int | None, limit: int) -> Sequence[DivergenceCheck]:
        """Read checks newest first, those before a number."""

    async def spent(self, policy: PolicyName, since: datetime) -> float:
        """Add up what checks cost since a time, US dollars."""

    async def online(self, policy: Policy, after: int) -> OnlineSide:
        """Measure what was learned from since a place in the evidence log."""
