"""Say who had a part in what a policy serves, and so does not decide alone that all is well with it."""

from collections.abc import Iterable

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.incident import Incident, IncidentOpen, IncidentState, name_of
from kedge_bandit.domain.principal import Person, person_in
from kedge_bandit.domain.proposal import Proposal
from kedge_bandit.domain.proposal_errors import SecondPersonRequired


def is_author(proposal: Proposal, actor: Actor, person: Person | None) -> bool:
    """Say whether somebody proposed it: the same person, also through a program of theirs, or the same program."""
    return person == proposal.author_person if proposal.author_person else actor.name == proposal.author


def check_advancer(serving: Iterable[Proposal], actor: Actor) -> None:
    """Refuse that a ramp goes on by the word of who proposed what is served. Raises SecondPersonRequired."""
    if any(_is_one(actor, proposal.author) for proposal in serving):
        raise SecondPersonRequired(f"{actor.name} proposed what is served, and does not let its ramp go on")


def check_closer(serving: Iterable[Proposal], actor: Actor) -> None:
    """Refuse that an incident is closed by who proposed or approved what is served, or by nobody known.

    Raises:
        SecondPersonRequired: the actor is neither a person without a part in it, nor the operator.
    """
    if actor.is_operator:
        return
    if not person_in(actor.name):
        raise SecondPersonRequired("nobody is known to answer for this program: closing an incident takes a person")
    if any(_is_one(actor, name) for proposal in serving for name in (proposal.author, proposal.approver)):
        raise SecondPersonRequired(f"{actor.name} proposed or approved what is served, and does not close its incident")


def check_resumer(tenant: TenantId, alarms: Iterable[Incident], actor: Actor) -> None:
    """Refuse to let a policy go on that alarms stopped, before they are acknowledged, or by who acknowledged them.

    Raises:
        IncidentOpen: nobody has looked at one yet.
        SecondPersonRequired: the actor acknowledged one, or is nobody known, and not the operator.
    """
    for alarm in alarms:
        if alarm.state is IncidentState.OPEN:
            raise IncidentOpen(name_of(tenant, alarm.number))
        if not actor.is_operator and (not person_in(actor.name) or _is_one(actor, alarm.owner)):
            raise SecondPersonRequired(
                f"{alarm.owner} acknowledged {name_of(tenant, alarm.number)}: letting the policy go on takes a second "
                "person, or the operator"
            )


def _is_one(actor: Actor, name: str) -> bool:
    """Say whether an actor is who did something: the same program, or the same person, also through a program."""
    person = person_in(actor.name)
    return actor.name == name or bool(person and person == person_in(name))
