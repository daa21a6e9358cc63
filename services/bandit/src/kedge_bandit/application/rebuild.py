"""Rebuild: fold the evidence log anew, compare with what the worker kept row by row, and replace it where asked."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.learned import ActionRecord, Changes, LearnedRecord
from kedge_bandit.application.ports import Ledgers
from kedge_bandit.application.retain import Seals, check_seal
from kedge_bandit.domain.errors import StoreUnavailable
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import policy_clock
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.usage import Usage

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild found.

    Attributes:
        cells: of bucket and action.
        max_error: largest |difference| / max(1, N) over all sums; a count that differs counts in full.
        unaccounted: logged episodes that are in no state or in two.
    """

    evidence_rows: int
    cells: int
    max_error: float
    unaccounted: int

    @property
    def agrees(self) -> bool:
        """Whether the kept state is the fold of the log, and every episode is accounted for."""
        return self.max_error <= TOLERANCE and self.unaccounted == 0


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Compare, or compare and replace."""

    ledgers: Ledgers
    seals: Seals

    async def __call__(self, tenant: TenantId, name: PolicyName, *, verify_only: bool) -> Rebuilt:
        """Rebuild one policy. The worker waits meanwhile: both want to be the one writer.

        Raises:
            StoreUnavailable: a worker is at this tenant; try again.
            PolicyNotFound, TenantDenied: there is none.
            SnapshotAltered: the log begins with a snapshot that is not what was signed.
        """
        async with self.ledgers.open(tenant) as ledger:
            learning = ledger.learning
            policy = await ledger.policies.get(name)
            point = await learning.lock(wait=True)
            if point is None:
                raise StoreUnavailable("a worker is at this tenant: try again in a moment")
            check_seal(tenant, name, await learning.snapshot(name), self.seals)
            log = await learning.evidence_log(name)
            record = (await learning.learned([name]))[name]
            baseline = policy.spec.baseline_key
            usage = await learning.usage(name, baseline, before=point.low, now=point.now)
            found = Rebuilt(
                evidence_rows=log.sequence.size,
                cells=len(log.cells),
                max_error=max(largest_error(policy, record, log), usage_error(record.policy.usage, usage, point.now)),
                unaccounted=await learning.unaccounted(name),
            )
            if not verify_only:
                clock = policy_clock(await ledger.policies.mode_changes(name))
                fold = PolicyFold(
                    policy=policy, clock=clock, mode=policy.mode, record=record, live=frozenset(policy.spec.action_keys)
                )
                fold.refold(log, as_of=clock.at(point.now))
                record.policy.half_life, fold.is_touched = policy.spec.half_life, True
                if record.policy.usage is not None:
                    record.policy.usage = usage
                changes = Changes(high=point.low, evidence_sequence=point.evidence_sequence)
                fold.write_to(changes)
                await learning.save(changes)
        return found


def largest_error(policy: Policy, record: LearnedRecord, log: EvidenceLog) -> float:
    """Find the largest difference between kept sums and the log's, each at the policy time at which it is kept."""
    half_life = record.policy.half_life or policy.spec.half_life
    cells, actions = _cell_errors(record, log, half_life), _action_errors(policy, record, log, half_life)
    return float(max([0.0, *cells, *actions]))


def usage_error(kept: Usage | None, counted: Usage, now: datetime) -> float:
    """Find by how much what is kept for the caps differs from the raw rows; 0 where nothing is kept for this baseline.

    A decision counts in full, as does a US dollar.
    """
    if kept is None or kept.baseline != counted.baseline:
        return 0.0
    left = kept.at(now.timestamp())
    differences = [0.0]
    for one, other in ((dict(left.decisions), dict(counted.decisions)), (dict(left.cost), dict(counted.cost))):
        differences += [abs(one.get(slot, 0.0) - other.get(slot, 0.0)) for slot in one.keys() | other.keys()]
    return max(differences)


def _cell_errors(record: LearnedRecord, log: EvidenceLog, half_life: timedelta) -> Iterable[float]:
    as_of = max((cell.as_of for cell in record.cells.values()), default=0.0)
    refolded = dict(zip(log.cells, zip(*log.sums(as_of=as_of, half_life=half_life), strict=True), strict=True))
    for key in record.cells.keys() | refolded.keys():
        kept = record.cells.get(key, Evidence.none(as_of)).at(as_of, half_life)
        n, s, s2 = refolded.get(key, (0.0, 0.0, 0.0))
        yield max(abs(kept.n - n), abs(kept.s - s), abs(kept.s2 - s2)) / max(1.0, n)


def _action_errors(policy: Policy, record: LearnedRecord, log: EvidenceLog, half_life: timedelta) -> Iterable[float]:
    version = policy.configuration_version
    keys = sorted({action for _, action in log.cells} | record.actions.keys())
    as_of = max((action.vetoes.as_of for action in record.actions.values()), default=0.0)
    vetoes = [log.over_actions(part, keys) for part in log.vetoes(as_of=as_of, half_life=half_life)]
    counts = [log.over_actions(part, keys) for part in log.plain(configuration_version=version)]
    for key, episodes, vetoed, number, reward in zip(keys, *vetoes, *counts, strict=True):
        kept = record.actions.get(key) or ActionRecord(vetoes=Evidence.none(as_of), configuration_version=version)
        belief = kept.vetoes.at(as_of, half_life)
        yield max(abs(belief.n - episodes), abs(belief.s - vetoed)) / max(1.0, episodes)
        current = kept.configuration_version == version
        yield abs((kept.episodes if current else 0) - float(number))
        yield abs((kept.reward_sum if current else 0.0) - reward) / max(1.0, number)
