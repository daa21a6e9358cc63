"""Hold: learning stops reaching anybody while the draws do not fit the record, or the safety verdicts stay away.

An alarm of the self-check holds until a person clears it; missing safety verdicts hold while they are more than 1 % of
the last 1,000 learnable episodes. Held, evidence is appended and folded as ever, so that the record stays one fold of
one log; what stops is that it renews an allocation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from kedge_bandit.application.allocation_memory import AllocationMemory
from kedge_bandit.application.check_draws import check_draws
from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.learning_port import DecisionRow
from kedge_bandit.application.ports import Ledger
from kedge_bandit.domain.audit import KEDGE, AuditEvent
from kedge_bandit.domain.identifiers import PolicyName

SELF_CHECK, NO_SAFETY_VERDICT = "SELF_CHECK", "NO_SAFETY_VERDICT"
_WHY = {
    SELF_CHECK: "the actions that were drawn do not fit the published probabilities",
    NO_SAFETY_VERDICT: "more than 1 % of the last 1,000 learnable episodes carry no safety verdict",
}

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Holds:
    """Look at the policies of one pass.

    Attributes:
        p_values: of the self-checks that were looked at.
    """

    ledger: Ledger
    memory: AllocationMemory
    now: datetime
    p_values: dict[PolicyName, float] = field(default_factory=dict)

    async def look(self, fold: PolicyFold, draws: Sequence[DecisionRow]) -> None:
        """Compare new draws of a policy with its allocations, and hold or resume its learning."""
        record, alarm = fold.record.policy, False
        if draws:
            check, finding = await check_draws(record.self_check, draws, self.ledger, self.memory)
            record.self_check, fold.is_touched = check, True
            if finding is not None:
                self.p_values[fold.policy.name] = finding.p_value
                alarm = finding.alarm
        held = record.learning_held
        if alarm:
            held = SELF_CHECK
        elif held != SELF_CHECK:
            held = NO_SAFETY_VERDICT if fold.lacks_safety else None
        if held != record.learning_held:
            await self._change(fold, held)

    async def _change(self, fold: PolicyFold, held: str | None) -> None:
        reason = held or fold.record.policy.learning_held or ""
        fold.record.policy.learning_held, fold.is_touched = held, True
        verb = "learning.resumed" if held is None else "learning.held"
        log.warning(verb, tenant=self.ledger.tenant, policy=fold.policy.name, reason=reason)
        await note(self.ledger, fold, verb, because=_WHY[reason], reason=reason, now=self.now)


async def note(ledger: Ledger, fold: PolicyFold, verb: str, *, because: str, reason: str, now: datetime) -> None:
    """Write down what the service itself decided about a policy."""
    subject = f"tenants/{ledger.tenant}/policies/{fold.policy.name}"
    event = AuditEvent(time=now, actor=KEDGE, verb=verb, subject=subject, because=because, payload={"reason": reason})
    await ledger.audit.append(event)
