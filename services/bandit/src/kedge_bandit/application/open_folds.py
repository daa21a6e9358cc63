"""Open the folds of a pass: configuration, clock, mode and everything learned, as they stand in this transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.hold import note
from kedge_bandit.application.known_changes import note_changes
from kedge_bandit.application.learned import Changes
from kedge_bandit.application.learning_port import FoldPoint
from kedge_bandit.application.ports import Ledger
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, ModeChange, most_restrictive, policy_clock
from kedge_bandit.domain.policy import Policy

_REVALUED = "a known change makes older evidence worth less, or gives it to a successor"


@dataclass(slots=True)
class FoldOpener:
    """Open folds in one ledger.

    Attributes:
        policies: configurations that the worker remembers, by tenant and name.
        modes: changes of mode that it remembers, with what they can be told by.
    """

    ledger: Ledger
    policies: dict[tuple[TenantId, PolicyName], Policy]
    modes: dict[tuple[TenantId, PolicyName], tuple[str, Sequence[ModeChange]]]
    point: FoldPoint
    override: Callable[[TenantId, PolicyName], Mode]

    async def open(self, touched: Collection[PolicyName]) -> dict[PolicyName, PolicyFold]:
        """Open the fold of every policy with news, and of those that want a look anyway."""
        learning = self.ledger.learning
        heads = {head.name: head for head in await learning.heads()}
        names = [name for name, head in heads.items() if name in touched or head.wants_attention]
        records = await learning.learned(names) if names else {}
        folds: dict[PolicyName, PolicyFold] = {}
        for name, record in records.items():
            policy = await self._policy(name, heads[name].version)
            changes = await self._modes(name)
            levels = {change.level: change.mode for change in changes}
            folds[name] = PolicyFold(
                policy=policy,
                clock=policy_clock(changes),
                mode=most_restrictive([policy.mode, *levels.values()]),
                record=record,
                live=frozenset(policy.spec.action_keys),
                is_put_off=self.override(self.ledger.tenant, name).stops_time,
            )
        return folds

    async def revalue(self, folds: Mapping[PolicyName, PolicyFold], tasks: Sequence[Task], changes: Changes) -> None:
        """Fold anew where something makes older evidence worth more or less: a half-life, a known change, an heir."""
        for name, fold in folds.items():
            record, version = fold.record.policy, fold.policy.version
            earlier = None
            if 0 < record.policy_version < version:
                earlier = await self.ledger.policies.at_version(name, record.policy_version)
            noted = note_changes(fold, earlier, tasks, changes, now=self.point.now)
            for cause in noted:
                await note(self.ledger, fold, "evidence.revalued", because=_REVALUED, reason=cause, now=self.point.now)
            if noted or record.half_life != fold.policy.spec.half_life:
                log = await self.ledger.learning.evidence_log(name)
                fold.refold(log.with_changes(fold.record.changes), as_of=fold.clock.at(self.point.now))
                record.half_life, fold.is_touched = fold.policy.spec.half_life, True

    async def _policy(self, name: PolicyName, version: int) -> Policy:
        known = self.policies.get((self.ledger.tenant, name))
        if known is None or known.version != version:
            known = self.policies[self.ledger.tenant, name] = await self.ledger.policies.get(name)
        return known

    async def _modes(self, name: PolicyName) -> Sequence[ModeChange]:
        stamp, known = self.modes.get((self.ledger.tenant, name), ("", ()))
        if stamp and stamp == self.point.modes:
            return known
        changes = await self.ledger.policies.mode_changes(name)
        if self.point.modes:
            self.modes[self.ledger.tenant, name] = self.point.modes, changes
        return changes
