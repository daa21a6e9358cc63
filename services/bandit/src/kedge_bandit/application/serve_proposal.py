"""Serve what a second person consented to, or end it because its ground changed; at once, or when its time comes."""

from dataclasses import replace

from kedge_bandit.application.floor_stages import begin_arm_ramp, take_floor_stage
from kedge_bandit.application.proposal_ports import ProposingLedger
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import ExplorationRefused, IllegalTransition, InvalidPolicy
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mode import most_restrictive
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.promotion import promote
from kedge_bandit.domain.proposal import Proposal, expire, proposal_name, serve, supersede, void
from kedge_bandit.domain.proposal_errors import PolicyFrozen
from kedge_bandit.domain.proposal_state import FORCEABLE, ProposalState


async def end_if_over(ledger: ProposingLedger, found: Proposal, change: Change) -> Proposal | None:
    """Expire or void a proposal whose time is over or whose ground changed; None where it stands."""
    if found.expire_time is not None and change.at >= found.expire_time:
        step = expire(found, because_of(change, "nobody decided, or no time to serve it came, within 14 days"))
    else:
        policy = await ledger.policies.get(found.policy)
        why = found.why_void(policy.spec, await ledger.proposals.holdout_version(found.policy))
        if found.evaluation_hash and not await ledger.notes.evaluation(found.proposal_id, found.evaluation_hash):
            why = why or "the scores that were reported are not there as they were"
        if not why:
            return None
        if found.state in FORCEABLE:
            raise IllegalTransition(f"{why}: propose it again")
        step = void(found, because_of(change, why))
    await ledger.proposals.put(*step)
    return step[0]


async def serve_approved(ledger: ProposingLedger, policy: Policy, approved: Proposal, change: Change) -> Proposal:
    """Serve an approved candidate, in the place of what another proposal brought there; VOIDED where it cannot be."""
    try:
        await _put(ledger, policy, approved, change)
    except (IllegalTransition, InvalidPolicy, ExplorationRefused) as error:
        step = void(approved, because_of(change, f"it cannot be served any more: {error}"))
        await ledger.proposals.put(*step)
        return step[0]
    serving = serve(approved, change)
    await ledger.proposals.put(*serving)
    for old in await ledger.proposals.in_state(approved.policy, frozenset({ProposalState.SERVING})):
        if old.proposal_id != approved.proposal_id and replaces(approved, old):
            await ledger.proposals.put(*supersede(old, approved.proposal_id, change))
    return serving[0]


async def _put(ledger: ProposingLedger, policy: Policy, approved: Proposal, change: Change) -> None:
    """Change the policy, and begin the ramp of what has one; nothing is written where it raises."""
    name, candidate = proposal_name(change.tenant, approved.proposal_id), approved.candidate
    if candidate.floor is not None:
        await take_floor_stage(
            ledger, policy, change, floor=candidate.floor, uniform_slice=candidate.uniform_slice, proposal=name
        )
        return
    promoted, event = promote(policy, candidate, change)
    await ledger.policies.put(promoted, event)
    if candidate.arm is not None:
        await begin_arm_ramp(ledger, promoted, change, arm_id=candidate.arm.arm_id, proposal=name)


def replaces(new: Proposal, old: Proposal) -> bool:
    """Say whether what one proposal serves takes the place of what another served."""
    if old.proposal_id == new.supersedes:
        return True
    one, other = new.candidate.arm, old.candidate.arm
    if one is not None and other is not None:
        return (one.dimension, one.name) == (other.dimension, other.name)
    return one is None and other is None and new.kind is old.kind


async def running_policy(ledger: ProposingLedger, name: PolicyName) -> Policy:
    """Read a policy to serve something new. Raises PolicyFrozen: a stop is no time for it."""
    policy = await ledger.policies.get(name)
    mode = most_restrictive((policy.mode, await ledger.policies.tenant_mode(), await ledger.policies.global_mode()))
    if mode.stops_time:
        raise PolicyFrozen(mode)
    return policy


async def is_not_now(ledger: ProposingLedger, policy: PolicyName, change: Change) -> bool:
    """Say whether a window is open in which nothing of the policy starts to serve."""
    windows = await ledger.notes.windows()
    return any(w.policy in (None, policy) and w.start <= change.at < w.end for w in windows)


def because_of(change: Change, why: str) -> Change:
    """Give the change another reason, no longer than one may be."""
    return replace(change, because=why[:1000])
