"""Step ramps: the worker gives the next stage, pauses, or takes a stage back, each audited as the service's own act."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kedge_bandit.application.administration_ports import GovernedLedger, GovernedLedgers
from kedge_bandit.application.floor_stages import ramps_of
from kedge_bandit.application.ramps import Seen, is_applied, look, settle
from kedge_bandit.domain.audit import KEDGE, Fact
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.incident import Incident
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.ramp import Move, Ramp, advance, complete, pause, roll_back
from kedge_bandit.domain.ramp_metrics import Metric, MetricRole
from kedge_bandit.domain.ramp_step import Due, Step, due_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StepRamps:
    """Look at the ramps of a tenant that may have to move.

    Attributes:
        override: a mode of a policy from outside the database; while it is not APPLY, the ramp stands.
    """

    ledgers: GovernedLedgers
    override: Callable[[TenantId, PolicyName], Mode] = lambda _tenant, _policy: Mode.APPLY

    async def __call__(self, tenant: TenantId) -> dict[PolicyName, list[Step]]:
        """Take every step that is due; gives what was done, by policy.

        A policy whose step is refused, because a cap does not fit its stage, is logged and left where it is.

        Raises:
            TenantDenied, StoreUnavailable.
        """
        async with self.ledgers.open(tenant) as ledger:
            due = await ledger.ramps.due()
        done: dict[PolicyName, list[Step]] = {}
        for name in due:
            try:
                async with self.ledgers.open(tenant) as ledger:
                    taken = await self._step(ledger, tenant, name)
            except KedgeError as error:
                log.warning("ramp.not_moved", tenant=tenant, policy=name, reason=error.reason)
                continue
            if taken:
                done[name] = taken
        return done

    async def _step(self, ledger: GovernedLedger, tenant: TenantId, name: PolicyName) -> list[Step]:
        policy = await ledger.policies.get(name)
        applied = await is_applied(ledger, policy, self.override(tenant, name))
        taken: list[Step] = []
        for ramp in await ramps_of(ledger, policy):
            seen = await look(ledger, policy, ramp, is_applied=applied)
            due = due_of(ramp, seen.judged, seen.looked)
            if due.step is Step.STAY:
                continue
            change = Change(tenant=tenant, actor=KEDGE, because=due.because, at=seen.looked.now)
            policy = await settle(ledger, policy, ramp, _move(seen, due, change), change)
            if due.breach is not None and due.breach.role is MetricRole.GUARDRAIL:
                await ledger.incidents.open(_incident(ramp, due.breach, change), change)
            log.info("ramp.moved", tenant=tenant, policy=name, kind=ramp.kind.value, arm=ramp.arm_id, step=due.step)
            taken.append(due.step)
        return taken


def _move(seen: Seen, due: Due, change: Change) -> Move:
    match due.step:
        case Step.ADVANCE:
            return advance(seen.ramp, change, seen.judged)
        case Step.PAUSE:
            return pause(seen.ramp, change)
        case Step.ROLL_BACK:
            breach = due.breach
            facts: dict[str, Fact] = {} if breach is None else {"metric": breach.name, "learned": breach.learned}
            return roll_back(seen.ramp, change, facts)
        case Step.COMPLETE:
            return complete(seen.ramp, change)
        case Step.STAY:
            raise ValueError(due.step)


def _incident(ramp: Ramp, breach: Metric, change: Change) -> Incident:
    about = f"arm {ramp.arm_id}" if ramp.arm_id else f"floor {ramp.stage.value:g}"
    return Incident(
        policy=ramp.policy,
        detector=f"ramp.{breach.name}",
        statistic=breach.upper if breach.over_cap is None else breach.over_cap,
        evidence=f"{about}: {breach.learned:.4g} against the baseline's {breach.baseline:.4g}; {breach.rule}",
        open_time=change.at,
    )
