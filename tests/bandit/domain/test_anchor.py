"""Whatever is done to an audit chain is found, and named by the first event that is not what it was."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.anchor import Anchor, Finding
from kedge_bandit.domain.anchor import inspect as inspect_of
from kedge_bandit.domain.audit import GENESIS, Actor, AuditEvent, ChainedEvent, chain

START = datetime(2026, 3, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: text.strip() != ""
)


def event(number: int, because: str = "a reason") -> AuditEvent:
    return AuditEvent(
        time=START + timedelta(minutes=number),
        actor=Actor("key:operator"),
        verb="tenant.onboarded" if number == 1 else "policy.frozen",
        subject="tenants/acme" if number == 1 else f"tenants/acme/policies/p{number}",
        because=because,
        payload={"number": number},
    )


def chained(events: list[AuditEvent]) -> list[ChainedEvent]:
    """Chain events as the log does, which is also what somebody does who writes it anew."""
    made: list[ChainedEvent] = []
    for number, item in enumerate(events, start=1):
        made.append(chain(item, sequence=number, previous_hash=made[-1].row_hash if made else GENESIS))
    return made


def anchor(events: list[ChainedEvent], sequence: int) -> Anchor:
    row_hash = events[sequence - 1].row_hash if sequence else GENESIS
    return Anchor(tenant="acme", sequence=sequence, row_hash=row_hash, time=START + timedelta(hours=sequence))


def inspect(events: Sequence[ChainedEvent], anchors: Iterable[Anchor] = ()) -> Finding | None:
    return inspect_of(events, "acme", anchors)


TEN = chained([event(number) for number in range(1, 11)])
ANCHORS = [anchor(TEN, sequence) for sequence in (0, 4, 7, 10)]


def rewritten(place: int) -> list[ChainedEvent]:
    """Change the reason of one event and compute all hashes anew."""
    return chained([event(n, "another reason" if n == place else "a reason") for n in range(1, 11)])


def test_a_chain_that_nobody_touched_holds_and_agrees_with_its_anchors() -> None:
    assert inspect(TEN) is None
    assert inspect(TEN, ANCHORS) is None
    assert inspect([*TEN, chain(event(11), sequence=11, previous_hash=TEN[-1].row_hash)], ANCHORS) is None


@pytest.mark.parametrize("place", range(1, 11))
@pytest.mark.parametrize(
    "change",
    [
        lambda e: replace(e, because=e.because + "."),
        lambda e: replace(e, actor="key:somebody"),
        lambda e: replace(e, time=e.time + timedelta(microseconds=1)),
        lambda e: replace(e, payload=e.payload.replace("number", "Number")),
        lambda e: replace(e, payload_hash="0" + e.payload_hash[1:]),
        lambda e: replace(e, row_hash=e.row_hash[:-1] + ("0" if e.row_hash[-1] != "0" else "1")),
    ],
)
def test_one_altered_byte_is_found_at_its_event(place: int, change: Callable[[ChainedEvent], ChainedEvent]) -> None:
    touched = [*TEN]
    touched[place - 1] = change(touched[place - 1])
    found = inspect(touched, ANCHORS)
    assert found is not None
    assert (found.sequence, "altered" in found.problem) == (place, True)


@pytest.mark.parametrize("place", range(1, 10))
def test_an_event_that_was_removed_or_put_in_is_found_at_its_place(place: int) -> None:
    removed = inspect([*TEN[: place - 1], *TEN[place:]])
    put_in = inspect(
        [*TEN[:place], chain(event(99), sequence=place + 1, previous_hash=TEN[place - 1].row_hash), *TEN[place:]]
    )
    assert removed is not None
    assert removed.sequence == place
    assert put_in is not None
    assert put_in.sequence == place + 2
    assert "put in" in put_in.problem


@pytest.mark.parametrize("left", range(1, 10))
def test_a_tail_that_was_cut_is_found_by_an_anchor_and_by_nothing_else(left: int) -> None:
    assert inspect(TEN[:left]) is None
    found = inspect(TEN[:left], ANCHORS)
    assert found is not None
    assert found.sequence == left + 1
    assert "missing" in found.problem


@pytest.mark.parametrize("anchors", [[], ANCHORS])
def test_a_chain_of_another_tenant_or_of_nobody_is_not_the_one_that_was_asked_for(anchors: list[Anchor]) -> None:
    other, none = inspect_of(TEN, "globex", anchors), inspect([], anchors)
    assert other is not None
    assert (other.sequence, "it is another chain" in other.problem) == (1, True)
    assert none is not None
    assert (none.sequence, "there are no events" in none.problem) == (1, True)


@pytest.mark.parametrize("place", range(1, 11))
def test_a_chain_that_was_written_anew_is_found_by_the_first_anchor_after_the_change(place: int) -> None:
    assert inspect(rewritten(place)) is None
    found = inspect(rewritten(place), ANCHORS)
    assert found is not None
    last_agreed = max(a.sequence for a in ANCHORS if a.sequence < place)
    assert found.sequence == last_agreed + 1
    assert "rewritten" in found.problem


def test_facts_may_be_erased_and_their_hash_may_not() -> None:
    assert inspect([replace(e, payload="") for e in TEN], ANCHORS) is None


@given(st.lists(TEXT, min_size=1, max_size=8), st.data())
def test_no_other_log_of_the_same_length_agrees_with_an_anchor_of_its_head(
    reasons: list[str], data: st.DataObject
) -> None:
    true = chained([event(n, reason) for n, reason in enumerate(reasons, start=1)])
    place = data.draw(st.integers(0, len(reasons) - 1))
    other = data.draw(TEXT.filter(lambda text: text != reasons[place]))
    false = chained([event(n, other if n == place + 1 else reason) for n, reason in enumerate(reasons, start=1)])
    assert inspect(true, [anchor(true, len(true))]) is None
    assert inspect(false, [anchor(true, len(true))]) is not None
