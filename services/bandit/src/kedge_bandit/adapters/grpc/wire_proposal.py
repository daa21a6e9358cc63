"""Map proposals, their candidates and verdicts between the wire and the domain."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Final

from kedge.bandit.v1 import policy_pb2
from kedge.bandit.v1 import proposal_pb2 as pb
from kedge.bandit.v1 import proposal_service_pb2 as service_pb
from kedge_bandit.adapters.grpc.wire import moment, timestamp
from kedge_bandit.adapters.grpc.wire_policy import ACTION_FIELD, arm_message, arm_of, policy_message, spec_of
from kedge_bandit.application.proposal_ports import Comment, Reported, StepTaken, Wanted, Window
from kedge_bandit.domain.candidate import Candidate, ProposalKind
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.errors import InvalidName, InvalidValue
from kedge_bandit.domain.gate import AskedOf, Difference, GateResult
from kedge_bandit.domain.identifiers import PolicyName, TenantId, parse_policy, tenant_id, text_id
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy, PolicySpec
from kedge_bandit.domain.preview import Preview
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import Proposal, ProposalId, proposal_name
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.rescore import Rescored

STATE: Final = {state: pb.Proposal.State.Value(f"STATE_{state}") for state in ProposalState}
KIND: Final = {kind: pb.ProposalKind.Value(f"PROPOSAL_KIND_{kind}") for kind in ProposalKind}
_STATE_OF: Final[dict[int, ProposalState]] = {int(number): state for state, number in STATE.items()}
_KIND_OF: Final[dict[int, ProposalKind]] = {int(number): kind for kind, number in KIND.items()}
_DIFFERENCES: Final = ("quality", "cost_usd", "latency_ms")
_NUMBERS: Final = (
    "candidate_score",
    "incumbent_score",
    "margin",
    "lower_bound",
    "lift_needed",
    "detectable_lift",
    "vetoes",
    "adversarial_cases",
    "holdout_version",
    "answerer_kind",
)


# From the wire ------------------------------------------------------------------------------------------------------


def parse_proposal(name: str) -> tuple[TenantId, ProposalId]:
    """Read `tenants/{tenant}/proposals/{proposal}`.

    >>> parse_proposal("tenants/acme/proposals/p1")
    ('acme', 'p1')

    Raises:
        InvalidName: it is something else.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "proposals":
        raise InvalidName("name", name[:80], "tenants/{tenant}/proposals/{proposal}")
    return tenant_id(parts[1]), ProposalId(text_id(parts[3], field="proposal"))


def policy_within(name: str, tenant: TenantId) -> PolicyName:
    """Read a policy's name that has to be one of a tenant. Raises InvalidName."""
    found, policy = parse_policy(name)
    if found != tenant:
        raise InvalidName("policy", name[:80], f"tenants/{tenant}/policies/{{policy}}")
    return policy


def proposal_within(name: str, tenant: TenantId) -> ProposalId | None:
    """Read a proposal's name that has to be one of a tenant; empty: none. Raises InvalidName."""
    if not name:
        return None
    found, proposal = parse_proposal(name)
    if found != tenant:
        raise InvalidName("proposal", name[:80], f"tenants/{tenant}/proposals/{{proposal}}")
    return proposal


def candidate_of(message: pb.Proposal) -> Candidate:
    """Read what is proposed. Raises InvalidValue, and what the candidate's own parts raise."""
    kind = _KIND_OF.get(message.kind)
    if kind is None:
        raise InvalidValue("kind", str(message.kind), f"one of {', '.join(ProposalKind)}")
    stage = message.floor_stage if message.HasField("floor_stage") else None
    return Candidate(
        kind=kind,
        arm=replace(arm_of(message.arm), retired=False) if message.HasField("arm") else None,
        baseline=_baseline_of(message.baseline) if message.HasField("baseline") else None,
        configuration=spec_of(message.configuration) if message.HasField("configuration") else None,
        floor=None if stage is None else stage.exploitation_floor,
        uniform_slice=stage.uniform_slice if stage is not None and stage.HasField("uniform_slice") else None,
    )


def wanted_of(request: service_pb.ListProposalsRequest, tenant: TenantId, person: Person | None) -> Wanted:
    """Read which proposals to list. Raises InvalidValue, InvalidName."""
    if not (set(request.states) <= _STATE_OF.keys() and set(request.kinds) <= _KIND_OF.keys()):
        raise InvalidValue("states or kinds", "not known", "those of the API")
    if request.mine_to_approve and person is None:
        raise InvalidValue("mine_to_approve", "true", "false: a program approves nothing")
    return Wanted(
        policy=policy_within(request.policy, tenant) if request.policy else None,
        states=frozenset(_STATE_OF[number] for number in request.states),
        kinds=frozenset(_KIND_OF[number] for number in request.kinds),
        approvable_by=person if request.mine_to_approve else None,
    )


def scores_of(messages: Iterable[service_pb.CaseScore]) -> list[Reported]:
    """Read scores of cases. Raises InvalidName."""
    return [
        Reported(
            case_id=text_id(one.case_id, field="case_id"),
            candidate_score=one.candidate_score if one.HasField("candidate_score") else None,
            incumbent_score=one.incumbent_score if one.HasField("incumbent_score") else None,
            candidate_vetoed=one.candidate_vetoed,
            adversarial=one.adversarial,
            slice=one.slice,
        )
        for one in messages
    ]


def window_of(message: service_pb.NotNowWindow, tenant: TenantId) -> Window:
    """Read a not-now window. Raises InvalidValue, InvalidName."""
    start, end = moment(message.start_time, field="start_time"), moment(message.end_time, field="end_time")
    if end <= start:
        raise InvalidValue("end_time", end.isoformat(), "a time after start_time")
    if not 1 <= len(message.because.strip()) <= 1000 or "\0" in message.because:
        raise InvalidValue("because", f"{len(message.because)} characters", "1 to 1,000 characters")
    return Window(policy_within(message.policy, tenant) if message.policy else None, start, end, message.because)


# Onto the wire ------------------------------------------------------------------------------------------------------


def proposal_message(tenant: TenantId, proposal: Proposal, *, shows_all: bool) -> pb.Proposal:
    """Put a proposal on the wire.

    Args:
        tenant: whose it is.
        shows_all: the caller may see how sure the verdict is; who proposes learns the verdict and a rounded lift.
    """
    incumbent = proposal.incumbent
    message = pb.Proposal(
        name=proposal_name(tenant, proposal.proposal_id),
        policy=f"tenants/{tenant}/policies/{proposal.policy}",
        kind=KIND[proposal.kind],
        state=STATE[proposal.state],
        author=proposal.author,
        author_person=_person_message(proposal.author_person),
        candidate=proposal.candidate.text(proposal.base),
        candidate_hash=proposal.candidate_hash,
        incumbent=incumbent.text,
        incumbent_name=incumbent.name,
        incumbent_hash=incumbent.hash,
        binding_hash=proposal.binding_hash,
        supersedes=proposal_name(tenant, proposal.supersedes) if proposal.supersedes else "",
        lineage_json=proposal.lineage,
        create_time=timestamp(proposal.create_time),
        update_time=timestamp(proposal.update_time),
        because=proposal.because,
        state_because=proposal.state_because,
        version=proposal.version,
        approver=proposal.approver,
        approver_person=_person_message(proposal.approver_person),
        approve_because=proposal.approve_because,
        forced=proposal.forced,
    )
    _put_candidate(message, tenant, proposal)
    if proposal.gate_result is not None:
        message.gate_result.CopyFrom(result_message(proposal.gate_result, shows_all=shows_all))
    if proposal.expire_time is not None:
        message.expire_time.FromDatetime(proposal.expire_time)
    if proposal.approve_time is not None:
        message.approve_time.FromDatetime(proposal.approve_time)
    return message


def result_message(result: GateResult, *, shows_all: bool) -> pb.GateResult:
    """Put a verdict on the wire, whole or as far as a proposer may see it."""
    message = pb.GateResult(
        verdict=pb.GateVerdict.Value(f"GATE_VERDICT_{result.verdict}"),
        inconclusive_reason=result.inconclusive_reason or "",
        cases=result.cases,
        query=result.query,
        alpha=result.alpha,
        rounded_lift=result.rounded_lift,
        gate_time=timestamp(result.gate_time),
    )
    if not shows_all:
        return message
    for field in _NUMBERS:
        setattr(message, field, getattr(result, field))
    for field in _DIFFERENCES:
        difference: Difference | None = getattr(result, field)
        if difference is not None:
            getattr(message, field).CopyFrom(pb.Difference(**asdict(difference)))
    message.slices.extend(
        pb.SliceResult(name=one.name, cases=one.cases, quality=pb.Difference(**asdict(one.quality)))
        for one in result.slices
    )
    message.reasons.extend(result.reasons)
    message.answerers.extend(_asked_message(one) for one in result.answerers)
    return message


def _asked_message(asked: AskedOf) -> pb.AskedOf:
    known = asdict(asked) | {"set_time": timestamp(asked.set_time)}
    return pb.AskedOf(**known)


def step_message(step: StepTaken) -> pb.ProposalStep:
    """Put a step on the wire."""
    return pb.ProposalStep(
        state=STATE[step.state], actor=step.actor, because=step.because, step_time=timestamp(step.time)
    )


def preview_message(preview: Preview) -> pb.AllocationPreview:
    """Put a preview on the wire."""
    return pb.AllocationPreview(
        bucket=preview.bucket or "*", action_keys=preview.actions, before=preview.before, after=preview.after
    )


def reward_preview_message(one: Rescored) -> pb.RewardPreview:
    """Put what an action would have earned on the wire."""
    return pb.RewardPreview(
        action_key=one.action,
        episodes=one.episodes,
        learned_before=one.learned_before,
        learned_after=one.learned_after,
        before=one.before,
        after=one.after,
    )


def comment_message(comment: Comment) -> pb.ProposalComment:
    """Put a comment on the wire."""
    return pb.ProposalComment(author=comment.author, text=comment.text, create_time=timestamp(comment.time))


def window_message(tenant: TenantId, window: Window) -> service_pb.NotNowWindow:
    """Put a not-now window on the wire."""
    return service_pb.NotNowWindow(
        policy=f"tenants/{tenant}/policies/{window.policy}" if window.policy else "",
        start_time=timestamp(window.start),
        end_time=timestamp(window.end),
        because=window.because,
    )


def _put_candidate(message: pb.Proposal, tenant: TenantId, proposal: Proposal) -> None:
    candidate = proposal.candidate
    if candidate.arm is not None:
        message.arm.CopyFrom(arm_message(candidate.arm))
    if candidate.baseline is not None:
        for dimension, name in candidate.baseline.items():
            getattr(message.baseline, ACTION_FIELD[dimension]).name = name
    if candidate.configuration is not None:
        message.configuration.CopyFrom(_configuration_message(tenant, proposal, candidate.configuration))
    if candidate.floor is not None:
        message.floor_stage.exploitation_floor = candidate.floor
        if candidate.uniform_slice is not None:
            message.floor_stage.uniform_slice = candidate.uniform_slice


def _configuration_message(tenant: TenantId, proposal: Proposal, spec: PolicySpec) -> policy_pb2.Policy:
    """Write a configuration as the policy that it would be of, without what only a policy has."""
    would_be = Policy(
        name=proposal.policy,
        version=1,
        configuration_version=1,
        mode=Mode.APPLY,
        seed_epoch=1,
        spec=spec,
        create_time=proposal.create_time,
        update_time=proposal.create_time,
    )
    message = policy_message(tenant, would_be)
    for field in ("mode", "policy_version", "create_time", "update_time", "seed_epoch"):
        message.ClearField(field)
    return message


def _baseline_of(message: policy_pb2.Action) -> dict[Dimension, str]:
    named = {dimension: getattr(message, field) for dimension, field in ACTION_FIELD.items()}
    return {dimension: reference.name for dimension, reference in named.items() if reference.name}


def _person_message(person: Person | None) -> pb.ProposalPerson | None:
    return None if person is None else pb.ProposalPerson(issuer=person.issuer, subject=person.subject)
