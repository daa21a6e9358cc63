"""Decision tokens: the same decision back, or nothing."""

import hmac
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.adapters.tokens import HmacTokens
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.errors import InvalidToken
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, decision_id
from kedge_bandit.domain.mode import Mode

ACME = TenantId("acme")
TOKENS = HmacTokens({1: b"x" * 32, 2: b"y" * 32})


def decisions() -> st.SearchStrategy[Decision]:
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
    return st.builds(
        Decision,
        decision_id=st.integers(0, 2**74 - 1).map(lambda n: decision_id(1_700_000_000_000, n)),
        tenant=st.just(ACME),
        policy=st.just(PolicyName("support")),
        episode_id=text.map(EpisodeId),
        request_id=text,
        time=st.integers(0, 4 * 10**15).map(lambda us: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)),
        context=st.none(),
        bucket=text,
        available=st.none() | st.lists(text, max_size=3).map(tuple),
        action=text,
        propensity=st.floats(1e-12, 1.0),
        policy_version=st.integers(1, 2**40),
        allocation_version=st.integers(0, 2**40),
        seed_epoch=st.integers(0, 2**40),
        mode=st.sampled_from(Mode),
        reason=st.sampled_from(Reason),
        is_randomised=st.booleans(),
        judge_requested=st.booleans(),
        judge_rate=st.floats(0, 1),
        shadow_action=st.none() | text,
    )


@given(decisions())
def test_a_token_gives_back_the_decision_bit_for_bit(decision: Decision) -> None:
    assert TOKENS.read(TOKENS.sign(decision), tenant=ACME) == decision


@given(decisions(), st.data())
def test_no_altered_token_is_read(decision: Decision, data: st.DataObject) -> None:
    token = bytearray(TOKENS.sign(decision))
    place = data.draw(st.integers(0, len(token) - 1))
    token[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidToken):
        TOKENS.read(bytes(token), tenant=ACME)


@given(st.binary(max_size=64))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.read(garbage, tenant=ACME)


@given(decisions())
def test_another_tenants_token_is_refused(decision: Decision) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.read(TOKENS.sign(decision), tenant=TenantId("other"))


@given(decisions())
def test_a_rotated_key_still_reads_and_a_removed_one_does_not(decision: Decision) -> None:
    old = HmacTokens({1: b"x" * 32}).sign(decision)
    assert TOKENS.read(old, tenant=ACME) == decision
    with pytest.raises(InvalidToken):
        HmacTokens({2: b"y" * 32}).read(old, tenant=ACME)


@given(decisions(), st.binary(min_size=32, max_size=100))
def test_the_signature_is_hmac_sha256_as_the_standard_library_computes_it(decision: Decision, secret: bytes) -> None:
    token = HmacTokens({1: secret}).sign(decision)
    assert token[2:18] == hmac.digest(secret, token[:2] + token[18:], "sha256")[:16]


@given(decisions())
def test_the_context_is_in_the_token_by_its_digest_only(decision: Decision) -> None:
    with_context = replace(decision, context=Context({"diagnosis": "a secret word"}))
    token = TOKENS.sign(with_context)
    assert b"a secret word" not in token
    assert TOKENS.read(token, tenant=ACME) == decision
