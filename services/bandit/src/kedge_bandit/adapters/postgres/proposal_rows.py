"""Turn a proposal into its row and back. What is read is checked again: a row that was tampered with is no proposal."""

from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from sqlalchemy import Row

from kedge_bandit.adapters.postgres.governance import spec_from_json, spec_to_json
from kedge_bandit.domain.candidate import Candidate
from kedge_bandit.domain.gate import GateResult
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.principal import Person
from kedge_bandit.domain.proposal import Proposal, ProposalId
from kedge_bandit.domain.proposal_state import ProposalState

_CANDIDATE: Final = TypeAdapter(Candidate)
_RESULT: Final = TypeAdapter(GateResult)

_WHO: Final = (
    "author",
    "author_issuer",
    "author_subject",
    "author_is_operator",
    "because",
    "lineage",
    "supersedes",
    "create_time",
)
FIXED: Final = frozenset(("proposal_id", "policy", "kind", "candidate", "base", "content_hash", *_WHO))
"""Columns that no step changes, and that the tenant's role cannot."""


def row_of(proposal: Proposal) -> dict[str, object]:
    """Write a proposal as its row, without the place of its newest step in the audit chain."""
    author, approver = proposal.author_person, proposal.approver_person
    return {
        "proposal_id": proposal.proposal_id,
        "policy": proposal.policy,
        "kind": proposal.kind.value,
        "candidate": _CANDIDATE.dump_python(proposal.candidate, mode="json"),
        "base": spec_to_json(proposal.base),
        "content_hash": proposal.candidate.content_hash(proposal.base),
        "author": proposal.author,
        "author_issuer": None if author is None else author.issuer,
        "author_subject": None if author is None else author.subject,
        "author_is_operator": proposal.author_is_operator,
        "because": proposal.because,
        "lineage": proposal.lineage,
        "supersedes": proposal.supersedes,
        "create_time": proposal.create_time,
        "state": proposal.state.value,
        "version": proposal.version,
        "state_because": proposal.state_because,
        "binding_hash": proposal.binding_hash,
        "evaluation_hash": proposal.evaluation_hash,
        "gate_result": None if proposal.gate_result is None else _RESULT.dump_python(proposal.gate_result, mode="json"),
        "approver": proposal.approver,
        "approver_issuer": None if approver is None else approver.issuer,
        "approver_subject": None if approver is None else approver.subject,
        "approve_because": proposal.approve_because,
        "approve_time": proposal.approve_time,
        "forced": proposal.forced,
        "expire_time": proposal.expire_time,
        "update_time": proposal.update_time,
    }


def proposal_of(row: Row[Any]) -> Proposal:
    """Read a proposal from its row."""
    return Proposal(
        proposal_id=ProposalId(row.proposal_id),
        policy=PolicyName(row.policy),
        candidate=_CANDIDATE.validate_json(orjson.dumps(row.candidate)),
        base=spec_from_json(row.base),
        state=ProposalState(row.state),
        version=row.version,
        author=row.author,
        author_person=_person(row.author_issuer, row.author_subject),
        author_is_operator=row.author_is_operator,
        because=row.because,
        state_because=row.state_because,
        create_time=row.create_time,
        update_time=row.update_time,
        binding_hash=row.binding_hash,
        lineage=row.lineage,
        supersedes=row.supersedes,
        evaluation_hash=row.evaluation_hash,
        gate_result=None if row.gate_result is None else _RESULT.validate_json(orjson.dumps(row.gate_result)),
        approver=row.approver,
        approver_person=_person(row.approver_issuer, row.approver_subject),
        approve_because=row.approve_because,
        approve_time=row.approve_time,
        forced=row.forced,
        expire_time=row.expire_time,
    )


def _person(issuer: str | None, subject: str | None) -> Person | None:
    return None if issuer is None or subject is None else Person(issuer, subject)
