"""Watch a policy from the moment on that its holdout can be asked for its lift."""

from datetime import datetime

from kedge_bandit.application.holdout_ports import AnswererPart, HoldoutRecord
from kedge_bandit.domain.divergence import LEAST_CASES
from kedge_bandit.domain.holdout import Part
from kedge_bandit.domain.identifiers import PolicyName


async def watch_if_answered(record: HoldoutRecord, policy: PolicyName, at: datetime) -> None:
    """Begin where there are cases enough and somebody who answers them; it never ends, or nobody would see its end."""
    if await record.answerers.get(policy, AnswererPart.ANSWERER) is None:
        return
    cases = sum(count for (_, part, _), count in (await record.cases.kinds(policy)).items() if part is Part.SENSOR)
    if cases >= 2 * LEAST_CASES:
        async with record.tenant() as ledger:
            await ledger.divergence.begin(policy, at)
