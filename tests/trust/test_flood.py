"""One tenant floods at many times its quota: it gets what it may have, and the other one notices nothing.

How fast the other one is answered meanwhile is measured by `make bench ONLY=flood`.
"""

import time
from functools import partial

from kedge.bandit.v1 import decision_pb2
from tests.fixtures.core_app import ask
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust import size
from tests.trust.flooding import belief, flooding, set_quota

FLOODS, QUIET = "floods", "quiet"
DECISIONS, ROWS = 20.0, 10.0


def over(services: Services, number: int) -> bool:
    """Say whether a replica has the quota, by asking more than it allows."""
    policy = f"tenants/{FLOODS}/policies/support"
    answers = [ask(services, f"probe-{number}-{n}", policy=policy).reason for n in range(int(DECISIONS) * 3)]
    return decision_pb2.DECISION_REASON_OVER_QUOTA in answers


def test_a_flood_gets_its_quota_and_the_other_tenant_all_it_asks(stack: Stack) -> None:
    key, quiet_key = stack.tenant(FLOODS), stack.tenant(QUIET)
    for tenant in (FLOODS, QUIET):
        stack.put_policy(two_models(tenant))
    with stack.services() as operator, stack.services(key) as flooder, stack.services(quiet_key) as quiet:
        assert set_quota(operator, FLOODS, decisions=DECISIONS, rows=ROWS).tenant.rows_per_second == ROWS
        numbers = iter(range(10_000))
        wait_for(lambda: over(flooder, next(numbers)), "the quota to reach the replica")
        before = belief(quiet, QUIET)
        began = time.monotonic()
        with flooding(stack, key, FLOODS) as flood:
            reasons = set()
            for number in range(size.of(100, 2000)):
                decided = ask(quiet, f"quiet-{number}", policy=f"tenants/{QUIET}/policies/support")
                reasons.add(decision_pb2.DecisionReason.Name(decided.reason).removeprefix("DECISION_REASON_"))
            wait_for(lambda: flood.decided["OVER_QUOTA"] > 20 and flood.written["QUOTA_EXHAUSTED"] > 20, "the flood")
        elapsed = time.monotonic() - began
        assert belief(quiet, QUIET) == before
        print(f"\nflood: {dict(flood.decided)}, rows {dict(flood.written)} in {elapsed:.1f} s; the other: {reasons}")
    assert reasons == {"DRAWN"}
    assert set(flood.decided) == {"DRAWN", "OVER_QUOTA"}
    assert set(flood.written) == {"OK", "QUOTA_EXHAUSTED"}
    # A bucket holds a second's worth at most when the flood begins, and fills at the rate while it lasts.
    assert flood.decided["DRAWN"] <= DECISIONS * (elapsed + 1) + 1
    assert flood.written["OK"] <= ROWS * (elapsed + 1) + 1


def test_an_episode_under_way_keeps_its_action_over_the_quota(stack: Stack) -> None:
    policy = f"tenants/{FLOODS}/policies/support"
    with stack.services() as services:
        answered = partial(ask, services, policy=policy)
        first = None
        for number in range(2000):
            first = answered(f"under-way-{number}")
            if first.reason == decision_pb2.DECISION_REASON_DRAWN:
                break
        assert first is not None
        name = f"under-way-{number}"
        while answered(f"fill-{time.monotonic_ns()}").reason != decision_pb2.DECISION_REASON_OVER_QUOTA:
            pass
        again = answered(name)
        assert (again.decision, again.action_key, again.reused) == (first.decision, first.action_key, True)
        token = answered(name, decision_token=first.decision_token)
        assert (token.action_key, token.reused) == (first.action_key, True)
        over = answered(f"over-{time.monotonic_ns()}")
        if over.reason == decision_pb2.DECISION_REASON_OVER_QUOTA:
            assert (over.propensity, over.is_randomised) == (1.0, False)
    with stack.connect() as connection:
        count = connection.execute(f"SELECT count(*) FROM t_{FLOODS}.decision WHERE reason = 'OVER_QUOTA'").fetchone()
    assert count == (0,)
