"""Erasing a tenant, or one end user, leaves nothing that leads to them, and what was learned as it was."""

import json
import subprocess
from collections.abc import Callable, Sequence

import grpc
import psycopg
import pytest

from kedge.bandit.v1 import (
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    outcome_pb2,
    policy_service_pb2,
    tenant_service_pb2,
)
from kedge_bandit.application.record import rater_hash
from kedge_bandit.domain.identifiers import TenantId
from tests.fixtures.core_app import ask, now, refusal
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust.flooding import belief
from tests.trust.searching import traces

KEPT, GONE = "keptsafe", "goneforever"
USER, OTHER = "user-4711@example.org", "user-42@example.org"


def lived(services: Services, tenant: str, episodes: Sequence[str], user: str = "") -> list[str]:
    """Decide, log and reward some episodes of a user; gives the ids of their decisions."""
    policy = f"tenants/{tenant}/policies/support"
    made = []
    for episode in episodes:
        decided = ask(services, episode, policy=policy)
        made.append(decided.decision.rpartition("/")[2])
        trajectory = episode_pb2.Trajectory(terminated=True)
        trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
        services.episodes.LogEpisode(
            episode_service_pb2.LogEpisodeRequest(
                policy=policy,
                request_id=f"log-{episode}",
                episode_id=episode,
                decision_token=decided.decision_token,
                trajectory=trajectory,
                end_user_id=user,
            )
        )
        common = {"observed_time": now(), "decision_token": decided.decision_token}
        outcomes = [
            outcome_pb2.Outcome(
                idempotency_key=f"won-{episode}", signal=outcome_pb2.SIGNAL_TASK_SUCCESS, value=1.0, **common
            ),
            outcome_pb2.Outcome(
                idempotency_key=f"thumb-{episode}",
                signal=outcome_pb2.SIGNAL_HUMAN,
                value=1.0,
                provenance=outcome_pb2.HUMAN_PROVENANCE_THUMB,
                rater_id=user,
                **common,
            ),
        ]
        request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{tenant}", outcomes=outcomes)
        services.feedback.RecordOutcomes(request)
    return made


def made_into_cases(stack: Stack, tenant: str, episodes: Sequence[str]) -> None:
    """Keep a case of the holdout made from each episode, with an answer to it, as the gate would."""
    with stack.connect() as owner:
        owner.execute("INSERT INTO holdout.version VALUES (%s, 'support', 1, 'v', false, now())", (tenant,))
        owner.execute(
            "INSERT INTO holdout.query VALUES (%s, 'support', 1, 1, 'p', .03, now(), now(), 0, 1, now(), 'PASS')",
            (tenant,),
        )
        for episode in episodes:
            content = json.dumps({"messages": [{"role": "user", "text": "Who am I?"}], "source_episode_id": episode})
            owner.execute(
                "INSERT INTO holdout.item VALUES"
                " (%s, 'support', %s, %s, 'GATE', 'EXACT', false, %s, '{}', 1, NULL, now(), NULL)",
                (tenant, f"case of {episode}", f"case of {episode}", content),
            )
            owner.execute(
                "INSERT INTO holdout.answer VALUES (%s, 'support', 1, 1, %s, 'CANDIDATE', 'me', 1, false, 0, 0, 'm')",
                (tenant, f"case of {episode}"),
            )


def settled(services: Services, tenant: str, episodes: Sequence[str]) -> None:
    policy = f"tenants/{tenant}/policies/support"
    for episode in episodes:
        request = episode_service_pb2.GetEpisodeRequest(policy=policy, episode_id=episode)

        def is_settled(request: episode_service_pb2.GetEpisodeRequest = request) -> bool:
            found = services.episodes.GetEpisode(request).episode
            return bool(found.state == episode_pb2.EPISODE_STATE_SETTLED)

        wait_for(lambda: _quietly(is_settled), f"{episode} to settle")


def _quietly(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except grpc.RpcError:  # not there yet
        return False


def verified(services: Services, tenant: str) -> bool:
    """Say whether what serves is the fold of the log, and the audit chain holds."""
    policy = f"tenants/{tenant}/policies/support"
    rebuilt = services.policies.RebuildPolicy(policy_service_pb2.RebuildPolicyRequest(name=policy, verify_only=True))
    chain = services.governance.VerifyAudit(governance_service_pb2.VerifyAuditRequest(parent=f"tenants/{tenant}"))
    return bool(rebuilt.agrees and chain.intact)


@pytest.fixture(scope="module")
def two(stack: Stack) -> tuple[str, str]:
    keys = stack.tenant(KEPT), stack.tenant(GONE)
    for tenant in (KEPT, GONE):
        stack.put_policy(two_models(tenant))
    return keys


def erased(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_an_end_user_is_erased_and_what_was_learned_stays(stack: Stack, two: tuple[str, str]) -> None:
    with stack.services(two[0]) as services:
        theirs = [f"theirs-{n}" for n in range(4)]
        decisions = lived(services, KEPT, theirs, USER)
        others = lived(services, KEPT, [f"others-{n}" for n in range(4)], OTHER)
        settled(services, KEPT, [*theirs, "others-3"])
        made_into_cases(stack, KEPT, ["theirs-0", "others-0"])
        before = {cell[:2]: cell[2:4] for cell in belief(services, KEPT)}
        hashed = rater_hash(TenantId(KEPT), USER)
        words = [*theirs, *decisions, hashed, USER]
        assert {trace.rpartition(": ")[2] for trace in traces(stack.database_url, words)} >= {*theirs, hashed}

        first = erased(stack.kedge("erase-user", KEPT, USER, "--because", "they asked for it"))
        assert traces(stack.database_url, words) == []
        assert "erased: 0 rows" in erased(stack.kedge("erase-user", KEPT, USER, "--because", "once more"))
        assert first.strip() != "erased: 0 rows"

        after = {cell[:2]: cell[2:4] for cell in belief(services, KEPT)}
        assert after.keys() == before.keys()
        for cell, (weight, reward) in before.items():
            assert after[cell] == pytest.approx((weight, reward), rel=1e-3)  # as of a moment later
        assert verified(services, KEPT)
        assert traces(stack.database_url, [others[0]]) != []
        kept = traces(stack.database_url, ["case of others-0"])
        assert kept == ["holdout.answer: case of others-0", "holdout.item: case of others-0"]


@pytest.mark.parametrize("user", ['"', "a", "role", "1", "ADMIN", "core-app", "APPLY", "%", "support"])
def test_an_id_that_stands_in_every_fact_by_chance_erases_none(stack: Stack, two: tuple[str, str], user: str) -> None:
    facts = f"SELECT payload_hash FROM t_{KEPT}.audit_payload"
    with stack.connect() as owner, stack.services(two[0]) as services:
        before = set(owner.execute(facts).fetchall())
        request = tenant_service_pb2.EraseTenantRequest(
            name=f"tenants/{KEPT}", end_user_id=user, because="on their own wish"
        )
        assert services.tenants.EraseTenant(request).rows_erased == 0
        assert before <= set(owner.execute(facts).fetchall())


def test_facts_that_hold_the_id_go_and_those_that_hold_it_in_a_longer_text_stay(
    stack: Stack, two: tuple[str, str]
) -> None:
    assert two
    user, hashed = 'Zoë "Z"', rater_hash(TenantId(KEPT), 'Zoë "Z"')
    gone = ({"who": user}, {"seen": {"by": ["nobody", user]}}, {"rater": hashed})
    stay = ({"who": f"not {user}"}, {user: "as a name"})
    with stack.connect() as owner, owner.transaction(force_rollback=True):
        for payload in (*gone, *stay):
            owner.execute(f"INSERT INTO t_{KEPT}.audit_payload VALUES (%s, %s)", (f"of {payload}", json.dumps(payload)))
        found = owner.execute("SELECT control.erase_user(%s, %s, %s)", (KEPT, hashed, user)).fetchone()
        assert found == (len(gone),)
        left = owner.execute(f"SELECT payload_hash FROM t_{KEPT}.audit_payload WHERE payload_hash LIKE 'of %'")
        assert set(left.fetchall()) == {(f"of {payload}",) for payload in stay}


def test_a_reason_that_names_whom_it_erases_is_refused_since_it_stays(stack: Stack, two: tuple[str, str]) -> None:
    assert two
    with stack.services() as services:
        for tenant, user, because in ((KEPT, USER, f"{USER} asked"), (KEPT, "", f"{KEPT} left us"), (KEPT, "", " ")):
            request = tenant_service_pb2.EraseTenantRequest(
                name=f"tenants/{tenant}", end_user_id=user, because=because, confirm=tenant
            )
            answer = refusal(lambda request=request: services.tenants.EraseTenant(request))
            assert answer in ("INVALID_VALUE", "REASON_REQUIRED")


def test_a_tenant_is_erased_once_named_twice_and_leaves_hashes_only(stack: Stack, two: tuple[str, str]) -> None:
    with stack.services(two[1]) as services:
        lived(services, GONE, ["last-1", "last-2"], USER)
        settled(services, GONE, ["last-1", "last-2"])
        audit = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{GONE}", page_size=100)
        chain = [
            (one.sequence, one.previous_hash, one.row_hash) for one in services.governance.ListAuditEvents(audit).events
        ]
    with stack.services(two[0]) as services:
        before = belief(services, KEPT)

    refused = stack.kedge("tenant", "erase", GONE, "--because", "the contract is over")
    assert refused.returncode == 1
    assert "ILLEGAL_TRANSITION" in refused.stderr
    one = erased(stack.kedge("tenant", "erase", GONE, "--yes", GONE, "--because", "the contract is over"))
    words = [GONE, "last-1", "log-last-2"]
    assert traces(stack.database_url, words) == []
    assert erased(stack.kedge("tenant", "erase", GONE, "--yes", GONE, "--because", "the contract is over")) == one
    # Logs name tenants; so do anchors, which are chained and signed, so that no line can leave them.
    files = [path for path in stack.data_dir.rglob("*") if path.is_file() and path.suffix not in (".log", ".jsonl")]
    assert [path for path in files if GONE.encode() in path.read_bytes()] == []

    with stack.connect() as connection:
        kept = connection.execute(
            "SELECT audit_sequence, previous_hash, row_hash FROM control.erased_audit ORDER BY 1 DESC"
        ).fetchall()
        who = connection.execute("SELECT actor, because FROM control.erased_tenant").fetchall()
    assert kept == chain
    assert [link[2] for link in kept[1:]] == [link[1] for link in kept[:-1]]
    assert who == [("key:operator", "the contract is over")]
    with stack.services(two[0]) as services:
        assert {cell[:2] for cell in belief(services, KEPT)} == {cell[:2] for cell in before}
        assert verified(services, KEPT)
    again = stack.kedge("tenant", "onboard", GONE)
    assert "TENANT_EXISTS" in again.stderr
    nobody = stack.kedge("tenant", "erase", "nobody", "--yes", "nobody", "--because", "never was")
    assert "TENANT_DENIED" in nobody.stderr


def test_an_erasure_that_breaks_off_has_erased_nothing(stack: Stack, two: tuple[str, str]) -> None:
    """One transaction: whatever ends it before its commit, everything is there and it can be asked for again."""
    assert two
    with stack.connect() as connection:
        before = connection.execute(f"SELECT count(*) FROM t_{KEPT}.outcome").fetchone()
        with connection.transaction(force_rollback=True):
            gone = connection.execute("SELECT control.erase_tenant(%s, 'key:operator', 'to try')", (KEPT,)).fetchone()
            assert gone is not None
            assert gone[0] > 0
            assert connection.execute("SELECT to_regclass(%s)", (f"t_{KEPT}.outcome",)).fetchone() == (None,)
        assert connection.execute(f"SELECT count(*) FROM t_{KEPT}.outcome").fetchone() == before


def test_an_erasure_that_must_wait_gives_up_and_can_be_asked_for_again(stack: Stack, two: tuple[str, str]) -> None:
    """Somebody reads the tenant for as long as they like; nobody else's learning may wait for them."""
    with stack.connect() as reader, stack.services(two[0]) as services:
        with reader.transaction():
            reader.execute(f"SELECT 1 FROM t_{KEPT}.decision").fetchall()
            request = tenant_service_pb2.EraseTenantRequest(name=f"tenants/{KEPT}", because="to try", confirm=KEPT)
            assert refusal(lambda: services.tenants.EraseTenant(request)) == "STORE_UNAVAILABLE"
        assert verified(services, KEPT)
    with stack.connect() as owner, owner.transaction(force_rollback=True):
        assert owner.execute("SELECT control.erase_tenant(%s, 'key:operator', 'to try')", (KEPT,)).fetchone()


@pytest.mark.parametrize(
    ("held", "call"),
    [
        (
            f"SELECT pg_advisory_xact_lock(hashtext('kedge.create_tenant'), hashtext('t_{KEPT}'))",
            f"SELECT control.erase_tenant('{KEPT}', 'key:operator', 'to try')",
        ),
        (f"LOCK TABLE t_{KEPT}.decision", f"SELECT control.erase_tenant('{KEPT}', 'key:operator', 'to try')"),
        (f"LOCK TABLE t_{KEPT}.decision", f"SELECT control.erase_user('{KEPT}', 'hash', 'nobody')"),
        (f"SELECT 1 FROM t_{KEPT}.fold_state FOR UPDATE", f"SELECT control.erase_user('{KEPT}', 'hash', 'nobody')"),
    ],
)
def test_what_waits_for_a_writer_has_no_transaction_number_yet(
    stack: Stack, two: tuple[str, str], held: str, call: str
) -> None:
    """Rows are folded up to the oldest transaction that has a number, those of all tenants."""
    assert two
    with stack.connect() as writer, stack.connect() as eraser, writer.transaction(), eraser.transaction():
        writer.execute(held)
        with pytest.raises(psycopg.errors.LockNotAvailable), eraser.transaction():
            eraser.execute(call)
        assert eraser.execute("SELECT pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_no_function_that_erases_or_divides_waits_long(stack: Stack, two: tuple[str, str]) -> None:
    assert two
    with stack.connect() as owner:
        found = owner.execute(
            "SELECT proname::text FROM pg_proc WHERE pronamespace = 'control'::regnamespace"
            " AND 'lock_timeout=500ms' = ANY (proconfig) ORDER BY 1"
        ).fetchall()
    assert found == [("divide_by_month",), ("drop_month",), ("erase_tenant",), ("erase_user",)]
