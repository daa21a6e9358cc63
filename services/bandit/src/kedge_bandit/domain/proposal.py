"""Take a candidate from a proposal to serving, and back. Every step is pure and yields its audit event (04 §5)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NewType

from kedge_bandit.domain.audit import AuditEvent, Fact
from kedge_bandit.domain.candidate import Candidate, Incumbent, ProposalKind, digest, incumbent_of
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, InvalidPolicy
from kedge_bandit.domain.gate import GateResult, Verdict
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal_errors import SecondPersonRequired
from kedge_bandit.domain.proposal_state import FORCEABLE, NEXT, ProposalState

ProposalId = NewType("ProposalId", str)

EXPIRY: Final = timedelta(days=14)
"""How long a proposal waits for a person, and an approved one for the end of a not-now window."""
BLOCK: Final = timedelta(days=7)
"""How long content that was reverted cannot be proposed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A request to promote a candidate.

    Attributes:
        base: the policy's spec when it was proposed; what a revert serves again.
        author: name in the audit log; `author_person` answers for it, None where nobody is known to.
        lineage: data window, run, seed, as JSON.
        supersedes: the proposal that this one improves on; empty: none.
        evaluation_hash: of the scores that an evaluator reported; empty: none.
        binding_hash: what an approval binds to, as it stood at the last step.
        because, state_because: why it was proposed, and why it is in its state.
        expire_time: while it waits.
    """

    proposal_id: ProposalId
    policy: PolicyName
    candidate: Candidate
    base: PolicySpec
    state: ProposalState
    version: int
    author: str
    author_person: Person | None
    author_is_operator: bool = False
    because: str
    state_because: str
    create_time: datetime
    update_time: datetime
    binding_hash: str
    lineage: str = ""
    supersedes: str = ""
    evaluation_hash: str = ""
    gate_result: GateResult | None = None
    approver: str = ""
    approver_person: Person | None = None
    approve_because: str = ""
    approve_time: datetime | None = None
    forced: bool = False
    expire_time: datetime | None = None

    @property
    def kind(self) -> ProposalKind:
        """What it would change."""
        return self.candidate.kind

    @property
    def candidate_hash(self) -> str:
        """Hash of the candidate as it was proposed."""
        return self.candidate.hash(self.base)

    @property
    def incumbent(self) -> Incumbent:
        """What was served in the candidate's place when it was proposed."""
        return incumbent_of(self.candidate, self.base)

    def binding(self, spec: PolicySpec) -> str:
        """Hash candidate, incumbent and evidence, the first two as they are in `spec`.

        Raises:
            InvalidPolicy: an arm that it is about is no longer there.
        """
        evidence = [None if self.gate_result is None else asdict(self.gate_result), self.lineage, self.evaluation_hash]
        return digest([self.candidate.hash(spec), incumbent_of(self.candidate, spec).hash, digest(evidence)])

    def why_void(self, spec: PolicySpec, holdout_version: str) -> str:
        """Say why an approval would not be of what is true now; empty where it is.

        Args:
            spec: the policy's, now.
            holdout_version: in force now; empty: not known, or there is none.
        """
        try:
            found = self.binding(spec)
        except InvalidPolicy as error:
            return f"an arm changed since it was proposed: {error}"
        if found != self.binding_hash:
            return "candidate, incumbent, evidence or an arm beside them is not what the gate compared"
        measured = "" if self.gate_result is None else self.gate_result.holdout_version
        if measured and holdout_version and measured != holdout_version:
            return "the holdout has another version than the one it was measured on"
        return ""


Step = tuple[Proposal, AuditEvent]


def proposal_name(tenant: TenantId, proposal: str) -> str:
    """Write the resource name of a proposal.

    >>> proposal_name(TenantId("acme"), "p1")
    'tenants/acme/proposals/p1'
    """
    return f"tenants/{tenant}/proposals/{proposal}"


def submit(
    proposal_id: ProposalId,
    policy: PolicyName,
    spec: PolicySpec,
    candidate: Candidate,
    change: Change,
    *,
    person: Person | None,
    lineage: str = "",
    supersedes: str = "",
) -> Step:
    """Propose a candidate to a policy as it is.

    Raises:
        IllegalTransition: it is served already.
        InvalidPolicy: the policy has nothing that it could take the place of.
    """
    new = Proposal(
        proposal_id=proposal_id,
        policy=policy,
        candidate=candidate,
        base=replace(spec, arms=tuple(arm for arm in spec.arms if not arm.retired)),
        state=ProposalState.SUBMITTED,
        version=1,
        author=change.actor.name,
        author_person=person,
        author_is_operator=change.actor.is_operator,
        because=change.because,
        state_because=change.because,
        create_time=change.at,
        update_time=change.at,
        binding_hash="",
        lineage=lineage,
        supersedes=supersedes,
    )
    if candidate.arm is None and candidate.content_hash(new.base) == new.incumbent.hash:
        raise IllegalTransition("the candidate is what is in force already: nothing to propose")
    new = replace(new, binding_hash=new.binding(spec))
    return new, _event(new, change, "submitted", {"author": new.author})


def start_gate(proposal: Proposal, change: Change) -> Step:
    """Hand it to the gate. Raises IllegalTransition."""
    return _step(proposal, ProposalState.GATE_RUNNING, change, "gate_started")


def conclude_gate(proposal: Proposal, result: GateResult, change: Change) -> Step:
    """Take the gate's verdict; the binding hash holds it from now on. Raises IllegalTransition."""
    state = {
        Verdict.PASS: ProposalState.AWAITING_APPROVAL,
        Verdict.FAIL: ProposalState.GATE_FAILED,
        Verdict.INCONCLUSIVE: ProposalState.INCONCLUSIVE,
    }[result.verdict]
    judged = _bound(replace(proposal, gate_result=result, expire_time=_expiry(state, change)))
    facts: dict[str, Fact] = {
        "verdict": result.verdict,
        "inconclusive_reason": result.inconclusive_reason,
        "cases": result.cases,
        "query": result.query,
        "holdout_version": result.holdout_version,
    }
    return _step(judged, state, change, "gate_concluded", facts)


def waive_gate(proposal: Proposal, change: Change) -> Step:
    """Let what changes no arm wait for a person without a query. Raises IllegalTransition for any other."""
    if proposal.kind.needs_query:
        raise IllegalTransition(f"a proposal of kind {proposal.kind} needs the gate's verdict")
    state = ProposalState.AWAITING_APPROVAL
    return _step(replace(proposal, expire_time=change.at + EXPIRY), state, change, "gate_waived")


def report_evaluation(proposal: Proposal, scores_hash: str, change: Change, *, cases: int) -> Step:
    """Attach what a platform's own harness measured. Raises IllegalTransition once there is a verdict to rely on."""
    if proposal.state not in (ProposalState.SUBMITTED, ProposalState.GATE_RUNNING, ProposalState.INCONCLUSIVE):
        raise IllegalTransition(f"it is {proposal.state}: scores are taken before the gate has concluded")
    told = _bound(replace(proposal, evaluation_hash=scores_hash, version=proposal.version + 1, update_time=change.at))
    return told, _event(told, change, "evaluated", {"cases": cases, "scores_hash": scores_hash})


def approve(proposal: Proposal, person: Person | None, change: Change, *, force: bool = False) -> Step:
    """Consent as a second person.

    Args:
        person: who consents.
        force: an admin's consent without a PASS.

    Raises:
        SecondPersonRequired: no person consents, or the one who proposed it.
        IllegalTransition: it does not await approval, or vetoes were found, which no force overrides.
    """
    author = proposal.author_person
    if person is None or person == author:
        raise SecondPersonRequired("only a person can approve" if person is None else "who proposed it cannot approve")
    if force and author is None and not proposal.author_is_operator:
        raise SecondPersonRequired("nobody is known to answer for the program that proposed it: force is not for it")
    forced = force and proposal.state in FORCEABLE
    if forced and proposal.gate_result is not None and proposal.gate_result.vetoes:
        raise IllegalTransition("the gate found vetoes on adversarial cases: no force overrides them, propose another")
    consented = replace(
        proposal,
        state=ProposalState.AWAITING_APPROVAL if forced else proposal.state,
        approver=change.actor.name,
        approver_person=person,
        approve_because=change.because,
        approve_time=change.at,
        forced=force,
        expire_time=change.at + EXPIRY,
    )
    facts: dict[str, Fact] = {"forced": force, "state_before": proposal.state, "binding_hash": proposal.binding_hash}
    return _step(consented, ProposalState.APPROVED, change, "forced" if forced else "approved", facts)


def serve(proposal: Proposal, change: Change) -> Step:
    """Say that the candidate is served. Raises IllegalTransition."""
    facts: dict[str, Fact] = {"candidate_hash": proposal.candidate_hash, "approver": proposal.approver}
    return _step(replace(proposal, expire_time=None), ProposalState.SERVING, change, "served", facts)


def reject(proposal: Proposal, change: Change) -> Step:
    """Refuse it; one that is approved, but not served yet, is voided. Raises IllegalTransition."""
    if proposal.state is ProposalState.APPROVED:
        return void(proposal, change)
    return _step(proposal, ProposalState.REJECTED, change, "rejected")


def withdraw(proposal: Proposal, change: Change) -> Step:
    """Take it back. Raises IllegalTransition."""
    return _step(proposal, ProposalState.WITHDRAWN, change, "withdrawn")


def void(proposal: Proposal, change: Change) -> Step:
    """End it because what it is about changed. Raises IllegalTransition."""
    return _step(proposal, ProposalState.VOIDED, change, "voided")


def expire(proposal: Proposal, change: Change) -> Step:
    """End it because nobody decided, or no time to serve it came. Raises IllegalTransition, also before its time."""
    if proposal.expire_time is None or change.at < proposal.expire_time:
        raise IllegalTransition("it has not expired")
    return _step(proposal, ProposalState.EXPIRED, change, "expired")


def revert(proposal: Proposal, change: Change) -> Step:
    """Say that its predecessor is served again. Raises IllegalTransition."""
    return _step(proposal, ProposalState.REVERTED, change, "reverted", {"candidate_hash": proposal.candidate_hash})


def supersede(proposal: Proposal, by: ProposalId, change: Change) -> Step:
    """Say that another proposal's candidate is served in its place. Raises IllegalTransition."""
    return _step(proposal, ProposalState.SUPERSEDED, change, "superseded", {"by": by})


def _step(
    proposal: Proposal, state: ProposalState, change: Change, verb: str, facts: Mapping[str, Fact] | None = None
) -> Step:
    if state not in NEXT.get(proposal.state, ()):
        possible = ", ".join(sorted(NEXT.get(proposal.state, ()))) or "nothing: it is final"
        raise IllegalTransition(f"the proposal is {proposal.state}, from where leads {possible}; not {state}")
    moved = replace(
        proposal, state=state, version=proposal.version + 1, state_because=change.because, update_time=change.at
    )
    return moved, _event(moved, change, verb, facts or {})


def _expiry(state: ProposalState, change: Change) -> datetime | None:
    return change.at + EXPIRY if state is ProposalState.AWAITING_APPROVAL else None


def _bound(proposal: Proposal) -> Proposal:
    return replace(proposal, binding_hash=proposal.binding(proposal.base))


def _event(proposal: Proposal, change: Change, verb: str, facts: Mapping[str, Fact]) -> AuditEvent:
    known: dict[str, Fact] = {"policy": proposal.policy, "kind": proposal.kind, "state": proposal.state}
    subject = proposal_name(change.tenant, proposal.proposal_id)
    return change.event(f"proposal.{verb}", subject, {**known, **facts})
