"""Name what can go wrong with a proposal, one leaf per fact."""

from datetime import datetime
from typing import ClassVar

from kedge_bandit.domain.errors import KedgeError, VersionMismatch


class ProposalNotFound(KedgeError):
    """Say that the tenant has no such proposal."""

    reason: ClassVar[str] = "PROPOSAL_NOT_FOUND"

    def __init__(self, proposal: str) -> None:
        super().__init__(f"proposal {proposal[:80]!r} does not exist in this tenant: see `kedge proposal list`.")
        self.proposal = proposal[:80]


class ProposalRequired(KedgeError):
    """Refuse to serve what no second person has consented to."""

    reason: ClassVar[str] = "PROPOSAL_REQUIRED"

    def __init__(self, what: str, do: str) -> None:
        super().__init__(f"{what} needs a proposal that a second person approves: {do}.")
        self.what = what


class SecondPersonRequired(KedgeError):
    """Refuse what one person alone may not do."""

    reason: ClassVar[str] = "SECOND_PERSON_REQUIRED"

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: ask another person.")


class BindingMismatch(KedgeError):
    """Refuse an approval of something else than what the proposal is now."""

    reason: ClassVar[str] = "VERSION_MISMATCH"

    def __init__(self, found: str) -> None:
        super().__init__("binding_hash is not the proposal's: read it again, and approve what you then read.")
        self.found = found


class ProposalChanged(VersionMismatch):
    """Refuse a step made from an older version of a proposal: another step came first."""

    def __init__(self, proposal: str) -> None:
        super(VersionMismatch, self).__init__(
            f"proposal {proposal} took another step meanwhile: read it again and repeat the request."
        )
        self.proposal = proposal


class PolicyFrozen(KedgeError):
    """Refuse to serve something new while the kill switch is pulled."""

    reason: ClassVar[str] = "POLICY_FROZEN"

    def __init__(self, mode: str) -> None:
        super().__init__(f"the policy is {mode}: unfreeze it first; to reject or revert is possible meanwhile.")
        self.mode = mode


class RecentlyReverted(KedgeError):
    """Refuse content again that was reverted within the last 7 days."""

    reason: ClassVar[str] = "RECENTLY_REVERTED"

    def __init__(self, proposal: str, until: datetime) -> None:
        super().__init__(f"{proposal} with the same content was reverted: propose it again after {until.isoformat()}.")
        self.proposal, self.until = proposal, until
