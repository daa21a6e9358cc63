"""Where a proposal stands, and where that leads (04 §5)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ProposalState(StrEnum):
    """Where a proposal stands."""

    SUBMITTED = "SUBMITTED"
    GATE_RUNNING = "GATE_RUNNING"
    GATE_FAILED = "GATE_FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"
    VOIDED = "VOIDED"
    SERVING = "SERVING"
    REVERTED = "REVERTED"
    SUPERSEDED = "SUPERSEDED"


_S = ProposalState
NEXT: Final[Mapping[ProposalState, frozenset[ProposalState]]] = {
    _S.SUBMITTED: frozenset({_S.GATE_RUNNING, _S.WITHDRAWN}),
    _S.GATE_RUNNING: frozenset({_S.GATE_FAILED, _S.INCONCLUSIVE, _S.AWAITING_APPROVAL, _S.WITHDRAWN}),
    _S.INCONCLUSIVE: frozenset({_S.GATE_RUNNING, _S.WITHDRAWN}),
    _S.AWAITING_APPROVAL: frozenset({_S.APPROVED, _S.REJECTED, _S.EXPIRED, _S.WITHDRAWN, _S.VOIDED}),
    _S.APPROVED: frozenset({_S.SERVING, _S.VOIDED, _S.EXPIRED}),
    _S.SERVING: frozenset({_S.REVERTED, _S.SUPERSEDED}),
}
"""The state table; what is not named here is final. Force alone leaves it: see `approve`."""
FORCEABLE: Final = frozenset({_S.SUBMITTED, _S.INCONCLUSIVE, _S.GATE_FAILED})
WAITING: Final = frozenset({_S.AWAITING_APPROVAL, _S.APPROVED})
"""States that end when a person decides, or the time comes."""
OPEN: Final = frozenset(NEXT) - {_S.SERVING}
"""States in which a proposal can still come to serve."""
