"""Keep the holdout: import and rotate cases, remember what may be trained on. All of it audited."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from kedge_bandit.application.answer_ports import Connect
from kedge_bandit.application.claim_query import running_queries
from kedge_bandit.application.govern import Order
from kedge_bandit.application.holdout_ports import HoldoutRecord, Holdouts, Version
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.watch_if_answered import watch_if_answered
from kedge_bandit.domain.audit import Fact
from kedge_bandit.domain.change import Change, subject_of
from kedge_bandit.domain.errors import BatchTooLarge, IllegalTransition, KedgeError
from kedge_bandit.domain.holdout import MAX_CASE_BYTES, MAX_IMPORT, HoldoutCase, Part, near_any, sequences, version_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.peek import MAX_ROTATIONS
from kedge_bandit.domain.rotation import leaving

YEAR: Final = timedelta(days=365)


class Refusal(StrEnum):
    """Why a case is not taken."""

    NEAR_DUPLICATE = "NEAR_DUPLICATE"
    REPEATED = "REPEATED"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A case that was not taken, by its place in the request."""

    position: int
    reason: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of an import."""

    imported: int
    refused: Sequence[RefusedCase]


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """What a rotation takes, and what has to be imported before the gate part is as large as it was."""

    leaving: int
    leaving_opened: int
    staying: int
    to_import: int


@dataclass(frozen=True, slots=True)
class ImportCases:
    """Add cases as a new version; refuse each that resembles what may be trained on, and say so in the audit log."""

    holdouts: Holdouts
    connect: Connect
    clock: Clock

    async def __call__(
        self, tenant: TenantId, policy: PolicyName, cases: Sequence[HoldoutCase | KedgeError], order: Order
    ) -> Imported:
        """Import them.

        Args:
            cases: in the order of the request; an error stands for one that could not be read.

        Raises:
            BatchTooLarge: over 1,000 cases, or none.
            IllegalTransition: a query of the holdout runs.
            PolicyNotFound, ReasonRequired, IdempotencyConflict, TenantDenied.
        """
        if not 1 <= len(cases) <= MAX_IMPORT:
            raise BatchTooLarge(f"{len(cases)} cases: send 1 to {MAX_IMPORT:,} at once")
        change = order.change(tenant, self.clock)
        async with self.holdouts.open(tenant) as record:
            if not await _begin(record, policy, order):
                return Imported(0, ())
            newest = await record.cases.newest(policy)
            taken, refused = await self._sorted(record, policy, cases)
            if taken:
                held = {case.case_hash for case in await record.cases.held(policy)}
                hashes = held | {case.case_hash for case in taken}
                number, since = (newest.number + 1, newest.since) if newest else (1, 1)
                digest = version_of(hashes)
                actor = order.actor.name
                version = Version(number=number, digest=digest, since=since, create_time=change.at, actor=actor)
                await record.cases.add(policy, version, taken, ())
                await _announce(record, policy, version)
                await watch_if_answered(record, policy, change.at)
            near = sum(one.reason is Refusal.NEAR_DUPLICATE for one in refused)
            facts = {"imported": len(taken), "refused": len(refused), "near_duplicates": near}
            await _audit(record, change, policy, "holdout.cases_imported", facts)
        return Imported(len(taken), refused)

    async def _sorted(
        self, record: HoldoutRecord, policy: PolicyName, cases: Sequence[HoldoutCase | KedgeError]
    ) -> tuple[list[HoldoutCase], list[RefusedCase]]:
        """Part what is taken from what is refused, each by itself."""
        words = [frozenset[int]() if isinstance(case, KedgeError) else sequences(case.text) for case in cases]
        near = near_any(words, await record.cases.training_like(policy, frozenset[int]().union(*words)))
        known = set(await record.cases.ids(policy))
        taken: list[HoldoutCase] = []
        refused: list[RefusedCase] = []
        for position, case in enumerate(cases):
            why = self._refusal(case, known, is_near=near[position])
            if why is not None:
                refused.append(RefusedCase(position, *why))
            elif not isinstance(case, KedgeError):
                taken.append(case)
                known |= {case.name, case.case_hash}
        return taken, refused

    def _refusal(
        self, case: HoldoutCase | KedgeError, known: Collection[str], *, is_near: bool
    ) -> tuple[Refusal, str] | None:
        if isinstance(case, KedgeError):
            return Refusal.INVALID, str(case)
        if case.case_hash in known or case.name in known:
            return Refusal.REPEATED, "a case of this content or id is or was there: leave it out, or rename it"
        if is_near:
            return Refusal.NEAR_DUPLICATE, "it resembles what may be trained on: write another one"
        try:
            self.connect.check(case)
        except KedgeError as error:
            return Refusal.INVALID, str(error)
        return None


@dataclass(frozen=True, slots=True)
class RotateHoldout:
    """Take the oldest cases and every opened one out; from then on the peek ledger counts anew."""

    holdouts: Holdouts
    clock: Clock

    async def plan(self, tenant: TenantId, policy: PolicyName) -> RotationPlan:
        """Say what would go. Raises IllegalTransition where there is no holdout."""
        async with self.holdouts.open(tenant) as record:
            _, _, plan = await _planned(record, policy)
        return plan

    async def __call__(self, tenant: TenantId, policy: PolicyName, order: Order) -> RotationPlan:
        """Rotate.

        Raises:
            IllegalTransition: there is no holdout, a query of it runs, or it was rotated four times within a year.
            ReasonRequired, IdempotencyConflict, TenantDenied.
        """
        change = order.change(tenant, self.clock)
        async with self.holdouts.open(tenant) as record:
            is_first = await _begin(record, policy, order)
            newest, gone, plan = await _planned(record, policy)
            if not is_first:
                return plan
            if await record.cases.rotations(policy, change.at - YEAR) >= MAX_ROTATIONS:
                raise IllegalTransition(
                    f"it was rotated {MAX_ROTATIONS} times within a year: more would spend more error than is stated"
                )
            kept = {case.case_hash for case in await record.cases.held(policy)} - set(gone)
            number = newest.number + 1
            digest, actor = version_of(kept), order.actor.name
            version = Version(number=number, digest=digest, since=number, create_time=change.at, actor=actor)
            await record.cases.add(policy, version, (), gone)
            await _announce(record, policy, version)
            facts = {"leaving": plan.leaving, "leaving_opened": plan.leaving_opened, "staying": plan.staying}
            await _audit(record, change, policy, "holdout.rotated", facts)
        return plan


@dataclass(frozen=True, slots=True)
class RecordTraining:
    """Remember what may be trained on; cases like it leave first as the holdout renews itself."""

    holdouts: Holdouts
    clock: Clock

    async def __call__(self, tenant: TenantId, policy: PolicyName, texts: Sequence[str], order: Order) -> int:
        """Remember texts; gives how many were new. Raises BatchTooLarge, PolicyNotFound, ReasonRequired."""
        if not 1 <= len(texts) <= MAX_IMPORT or any(len(text.encode()) > MAX_CASE_BYTES for text in texts):
            raise BatchTooLarge(f"{len(texts)} texts: send 1 to {MAX_IMPORT:,}, each of at most {MAX_CASE_BYTES} bytes")
        change = order.change(tenant, self.clock)
        async with self.holdouts.open(tenant) as record:
            if not await _begin(record, policy, order, may_run=True):
                return 0
            words = {hashlib.sha256(text.encode()).hexdigest(): sequences(text) for text in texts}
            fresh = await record.cases.add_training(policy, words, change.at)
            await _audit(record, change, policy, "holdout.training_recorded", {"texts": fresh})
        return fresh


async def _begin(record: HoldoutRecord, policy: PolicyName, order: Order, *, may_run: bool = False) -> bool:
    """Take the policy's holdout for oneself; False where this very request was made before.

    Raises:
        IllegalTransition: a query runs, and may not.
    """
    await record.cases.lock(policy)
    if not may_run and await running_queries(record, policy):
        raise IllegalTransition("a query of this holdout runs: repeat the request when it has ended")
    async with record.tenant() as ledger:
        await ledger.policies.get(policy)
        return await ledger.policies.is_first(order.write)


async def _planned(record: HoldoutRecord, policy: PolicyName) -> tuple[Version, list[str], RotationPlan]:
    newest = await record.cases.newest(policy)
    if newest is None:
        raise IllegalTransition("this policy has no holdout: import cases first (`kedge holdout import`)")
    held = await record.cases.held(policy)
    gone = leaving(held)
    going = [case for case in held if case.case_hash in set(gone)]
    plan = RotationPlan(
        leaving=len(gone),
        leaving_opened=sum(case.is_opened for case in going),
        staying=len(held) - len(gone),
        to_import=sum(case.part == Part.GATE for case in going),
    )
    return newest, gone, plan


async def _announce(record: HoldoutRecord, policy: PolicyName, version: Version) -> None:
    """Tell the tenant's record which version is in force: approvals bind to it."""
    async with record.tenant() as ledger:
        await ledger.proposals.put_holdout_version(policy, version.digest, version.create_time)


async def _audit(
    record: HoldoutRecord, change: Change, policy: PolicyName, verb: str, facts: "dict[str, Fact] | dict[str, int]"
) -> None:
    event = change.event(verb, subject_of(change.tenant, policy), dict(facts))
    async with record.tenant() as ledger:
        await ledger.audit.append(event)
