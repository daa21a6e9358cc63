"""Decisions that a client says it made: what is true is recorded, what is not is refused, each by itself."""

from collections.abc import Callable, Iterator

import pytest

from kedge.bandit.v1 import decision_pb2, governance_service_pb2
from kedge_client.question import Wish
from tests.fixtures.core_app import TENANT, ask, refusal
from tests.fixtures.local_client import Client, Decision, at, changed
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for


@pytest.fixture(scope="module")
def services(stack: Stack) -> Iterator[Services]:
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT, judge_rate=0.5))
    with stack.services(key) as connected:
        yield connected


CALENDAR_END_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


@pytest.fixture
def client(services: Services) -> Client:
    return Client(services)


def other_key(client: Client, message: Decision) -> str:
    keys: list[str] = [share.action_key for share in ask(client.services, "keys").distribution]
    return next(key for key in keys if key != message.action_key)


FORGERIES: dict[str, Callable[[Client, Decision], Decision]] = {
    "ACTION_DIFFERS": lambda c, m: changed(m, action_key=other_key(c, m)),
    "PROPENSITY_DIFFERS": lambda _, m: changed(m, propensity=m.propensity * 0.999),
    "BUCKET_DIFFERS": lambda _, m: changed(m, bucket="task=code"),
    "VERSION_DIFFERS": lambda _, m: changed(m, policy_version=m.policy_version + 1),
    "VERSION_UNKNOWN": lambda _, m: changed(m, allocation_version=m.allocation_version + 1_000),
    "RANDOMISED_DIFFERS": lambda _, m: changed(m, is_randomised=not m.is_randomised),
    "REASON_DIFFERS": lambda _, m: changed(m, reason=decision_pb2.DECISION_REASON_BUDGET),
    "JUDGE_DIFFERS": lambda _, m: changed(m, judge_requested=not m.judge_requested),
    "SHADOW_DIFFERS": lambda _, m: changed(m, shadow_action_key=m.action_key),
    "UNDECLARED_FEATURE": lambda _, m: in_context(m, colour="red"),
    "INVALID_NAME": lambda _, m: changed(m, name=m.name[:-1] + "x"),
    "TIME_OUT_OF_RANGE": lambda _, m: at(m, m.decision_time.ToMilliseconds() + 60_000),
    "TIME_OUT_OF_RANGE at the calendar's end": lambda _, m: at(m, CALENDAR_END_MS),
    "TIME_OUT_OF_RANGE long ago": lambda _, m: at(m, 1_000),
}


def in_context(message: Decision, **categories: str) -> Decision:
    message.context.categories.update(categories)
    return message


@pytest.mark.parametrize("why", FORGERIES)
def test_a_forged_decision_is_refused_and_a_true_one_beside_it_is_not(client: Client, why: str) -> None:
    forged = FORGERIES[why](client, client.decide(f"forged-{why}"))
    true = client.decide(f"true-{why}")

    answer = client.report(forged, true)

    assert list(answer.refusals) == [why.partition(" ")[0], ""]
    assert client.stored(true).is_local
    assert refusal(lambda: client.stored(forged)) in ("DECISION_NOT_FOUND", "INVALID_NAME")


def test_a_decision_for_another_episode_under_the_same_draw_is_refused(client: Client) -> None:
    """A client cannot carry a draw that it likes over to another episode."""
    drawn = [client.decide(f"carried-{i}") for i in range(40)]
    large = next(message for message in drawn if message.propensity < 0.5)
    small = next(message for message in drawn if message.propensity > 0.5)

    answer = client.report(changed(large, episode_id=small.episode_id))

    assert answer.refusals[0] in ("ACTION_DIFFERS", "JUDGE_DIFFERS")


def test_what_is_asked_for_beside_a_context_is_recomputed_as_well(client: Client) -> None:
    small, large = (
        key.action_key for key in sorted(ask(client.services, "k").distribution, key=lambda k: -k.propensity)
    )
    made = [
        client.decide("w-1", wish=Wish(available=(small,))),
        client.decide("w-2", wish=Wish(available=(large,))),
        client.decide("w-3", wish=Wish(pinned=large)),
        client.decide("w-4", wish=Wish(no_exploration=True)),
        client.decide("w-5", wish=Wish(in_tool_loop=True)),
        client.decide("w-6", task="poetry"),
    ]

    answer = client.report(*made)

    assert set(answer.refusals) == {""}
    assert [client.stored(message).reason for message in made] == [message.reason for message in made]
    assert list(client.stored(made[1]).available_action_keys) == [large]


def test_the_same_report_twice_has_one_effect_and_the_same_id_for_another_is_a_conflict(client: Client) -> None:
    made = client.decide("twice")

    assert list(client.report(made, made).refusals) == ["", ""]
    assert list(client.report(made).refusals) == [""]
    assert list(client.report(changed(made, request_id="other")).refusals) == ["IDEMPOTENCY_CONFLICT"]


def test_the_first_of_two_decisions_of_an_episode_stands(client: Client, services: Services) -> None:
    first = client.decide("two")
    second = Client(services).decide("two")
    second = at(second, second.decision_time.ToMilliseconds() + 3)

    assert list(client.report(first).refusals) == [""]
    assert list(client.report(second).refusals) == ["CONFLICT"]
    assert list(client.report(second).refusals) == ["CONFLICT"]
    assert (client.stored(first).superseded, client.stored(second).superseded) == (False, True)


def test_a_batch_that_is_empty_or_too_large_is_refused_as_a_whole(client: Client) -> None:
    made = client.decide("large batch")

    assert refusal(lambda: client.report(*[made] * 501)) == "BATCH_TOO_LARGE"
    assert refusal(client.report) == "BATCH_TOO_LARGE"


def test_a_version_older_than_sixty_seconds_is_stored_but_not_learned_from(stack: Stack) -> None:
    """An outcome has a newer allocation published; then the clock is put forward by dating publications back."""
    stack.put_policy(two_models(TENANT, name="ageing"))
    policy = f"tenants/{TENANT}/policies/ageing"
    with stack.services() as services, stack.connect() as database:
        client = Client(services, policy)
        old, held = client.decide("old"), client.decide("held")
        client.report(first := client.decide("first"))
        client.finish(first)
        version = f"SELECT count(*) FROM t_{TENANT}.allocation WHERE policy = 'ageing' AND bucket = 'task=math'"
        wait_for(lambda: database.execute(version).fetchone() == (1,), "an allocation of the bucket's own")

        def published(seconds_ago: float) -> None:
            database.execute(
                f"UPDATE t_{TENANT}.allocation SET publish_time = now() - make_interval(secs => %s)"
                " WHERE policy = 'ageing' AND bucket = 'task=math'",
                [seconds_ago],
            )

        published(50)
        assert (list(client.report(held).refusals), list(client.report(held).set_aside)) == ([""], [""])
        published(70)
        answer = client.report(old)
        assert (list(answer.refusals), list(answer.set_aside)) == ([""], ["OUTDATED"])
        client.finish(old)
        wait_for(lambda: client.verdict(old).weight_reason == "OUTDATED", "the episode to settle")
        assert client.verdict(old).weight == 0
        client.finish(held)
        wait_for(lambda: client.verdict(held).weight == 1, "the fresh one to be learned from")


def test_a_decision_made_while_frozen_is_not_learned_from_and_long_after_it_is_refused(stack: Stack) -> None:
    stack.put_policy(two_models(TENANT, name="frozen"))
    policy = f"tenants/{TENANT}/policies/frozen"
    with stack.services() as services, stack.connect() as database:
        client = Client(services, policy)
        services.governance.Freeze(governance_service_pb2.FreezeRequest(name=policy, because="test"))
        unaware = client.decide("unaware")
        answer = client.report(unaware)
        assert (list(answer.refusals), list(answer.set_aside)) == ([""], ["FROZEN"])

        late = client.decide("late")
        database.execute(
            f"UPDATE t_{TENANT}.mode_change SET change_time = change_time - interval '12 s' WHERE policy = 'frozen'"
        )
        assert list(client.report(late).refusals) == ["MODE_DIFFERS"]
        client.news()
        aware = client.decide("aware")
        assert aware.reason == decision_pb2.DECISION_REASON_FROZEN
        assert list(client.report(aware).refusals) == [""]


def test_a_baseline_served_after_the_lease_is_recorded_as_such(client: Client) -> None:
    client.local._lease_end = 0.0
    stale = client.decide("stale")
    assert (stale.reason, stale.propensity, stale.is_randomised) == (decision_pb2.DECISION_REASON_STALE, 1.0, False)

    assert list(client.report(stale).refusals) == [""]
    assert list(client.report(changed(stale, action_key=other_key(client, stale))).refusals) != [""]
    assert client.stored(stale).reason == decision_pb2.DECISION_REASON_STALE
