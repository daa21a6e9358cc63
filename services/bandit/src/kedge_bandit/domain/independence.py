"""Keep evidence and consent apart: who made what a verdict rests on does not consent to it."""

from kedge_bandit.domain.gate import GateResult
from kedge_bandit.domain.principal import Person, person_in
from kedge_bandit.domain.proposal_errors import SecondPersonRequired


def check_independent(result: GateResult | None, person: Person | None) -> None:
    """Refuse a person who reported the scores, or imported cases after the ledger period before began to be asked.

    Raises:
        SecondPersonRequired: naming what the person made.

    >>> from datetime import UTC, datetime
    >>> from kedge_bandit.domain.gate import Inconclusive, Verdict
    >>> alice, bob = Person("https://login.example", "alice"), Person("https://login.example", "bob")
    >>> found = GateResult(verdict=Verdict.INCONCLUSIVE, inconclusive_reason=Inconclusive.CRASHED,
    ...                    gate_time=datetime(2026, 1, 1, tzinfo=UTC), imported_by=(f"{alice} by key:curator",))
    >>> check_independent(found, bob)
    >>> try:
    ...     check_independent(found, alice)
    ... except SecondPersonRequired as error:
    ...     print(error)
    who imported cases for it cannot approve it: ask another person.
    """
    if result is None or person is None:
        return
    if person_in(result.reported_by) == str(person):
        raise SecondPersonRequired("who reported its scores cannot approve it")
    if str(person) in (person_in(one.set_by) for one in result.answerers):
        raise SecondPersonRequired("who set the answerer or the judge that measured it cannot approve it")
    if str(person) in map(person_in, result.imported_by):
        raise SecondPersonRequired("who imported cases for it cannot approve it")
