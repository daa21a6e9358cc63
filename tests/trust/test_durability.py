"""Say the same thing twice, late, too early, at once on two replicas or under a wrong clock: once counted, never lost.

Every counter is read where an operator would: at /metrics of the servers and of the worker.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from prometheus_client.parser import text_string_to_metric_families

from kedge.bandit.v1 import decision_service_pb2, episode_pb2, error_reason_pb2, feedback_service_pb2, outcome_pb2
from kedge_bandit.adapters.tokens import HmacTokens
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, decision_id
from tests.fixtures.core_app import TENANT, ask, episode_of, log, now, success
from tests.fixtures.decisions import decision
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, free_port, free_ports, running_stack, wait_for

REPLICAS = 2
TIMES = 8
SLOW = f"tenants/{TENANT}/policies/slow"
Status = outcome_pb2.OutcomeStatus


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    """Give the first server's and the worker's port of /metrics."""
    return free_ports(REPLICAS), free_port()


@pytest.fixture(scope="module")
def pair(fresh_database: str, tmp_path_factory: pytest.TempPathFactory, ports: tuple[int, int]) -> Iterator[Stack]:
    servers, worker = ports
    settings = {"KEDGE_METRICS_PORT": str(servers), "KEDGE_WORKER_METRICS_PORT": str(worker)}
    folder = tmp_path_factory.mktemp("kedge")
    with running_stack(fresh_database, folder, KEDGE_REPLICAS=str(REPLICAS), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def replicas(pair: Stack) -> Iterator[list[Services]]:
    key = pair.tenant(TENANT)
    pair.put_policy(two_models(TENANT))
    pair.put_policy(two_models(TENANT, name="slow", windows=600.0))
    with ExitStack() as exits:
        yield [exits.enter_context(pair.services(key, replica=number)) for number in range(REPLICAS)]


def at_once(replicas: list[Services], *calls: Any) -> list[Any]:
    """Make calls at the same moment, in turn on each replica."""
    with ThreadPoolExecutor(len(calls)) as threads:
        made = [threads.submit(call, replicas[number % len(replicas)]) for number, call in enumerate(calls)]
        return [one.result() for one in made]


def statuses(answers: list[Any]) -> Counter[str]:
    return Counter(Status.Name(answer.status).removeprefix("OUTCOME_STATUS_") for answer in answers)


def stored(pair: Stack, question: str, *facts: object) -> list[tuple[Any, ...]]:
    with pair.connect() as connection:
        return connection.execute(question.encode(), facts).fetchall()


def metrics(ports: tuple[int, int]) -> defaultdict[tuple[str, ...], float]:
    """Read every counter with the values of its labels, summed over the servers, and the worker's."""
    servers, worker = ports
    found: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for port in (*range(servers, servers + REPLICAS), worker):
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name, *(value for _, value in sorted(sample.labels.items()))] += sample.value
    return found


def test_one_outcome_said_at_once_on_every_replica_is_recorded_once(pair: Stack, replicas: list[Services]) -> None:
    decided = ask(replicas[0], "race")
    seen = now()
    tell = partial(told, key="race", value=1.0, seen=seen, token=decided.decision_token)
    assert statuses(at_once(replicas, *[tell] * TIMES)) == {"RECORDED": 1, "DUPLICATE": TIMES - 1}
    assert stored(pair, f"SELECT count(*) FROM t_{TENANT}.outcome WHERE key = 'race'") == [(1,)]


def told(services: Services, *, key: str, value: float, seen: Timestamp, token: bytes) -> Any:
    """Say one outcome."""
    outcome = outcome_pb2.Outcome(
        idempotency_key=key,
        signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
        value=value,
        observed_time=seen,
        decision_token=token,
    )
    request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=[outcome])
    return services.feedback.RecordOutcomes(request).results[0]


def test_of_different_outcomes_under_one_key_one_is_recorded_and_the_others_conflict(
    pair: Stack, replicas: list[Services]
) -> None:
    decided = ask(replicas[0], "clash")
    values = [number / TIMES for number in range(TIMES)]
    common = {"key": "clash", "seen": now(), "token": decided.decision_token}
    answers = at_once(replicas, *[partial(told, value=value, **common) for value in values])
    assert statuses(answers) == {"RECORDED": 1, "CONFLICT": TIMES - 1}
    [winner] = [
        value for value, one in zip(values, answers, strict=True) if one.status == Status.OUTCOME_STATUS_RECORDED
    ]
    question = f"SELECT (payload ->> 'value')::float FROM t_{TENANT}.outcome WHERE key = 'clash'"
    assert stored(pair, question) == [(winner,)]


def test_one_log_said_at_once_on_every_replica_is_recorded_once(pair: Stack, replicas: list[Services]) -> None:
    decided = ask(replicas[0], "logged")
    answers = at_once(replicas, *[partial(log, decided=decided, episode="logged")] * TIMES)
    assert Counter(answer.duplicate for answer in answers) == {False: 1, True: TIMES - 1}
    assert stored(pair, f"SELECT count(*) FROM t_{TENANT}.episode_event WHERE key = 'logged'") == [(1,)]


def test_an_outcome_that_comes_before_its_decision_is_joined(replicas: list[Services]) -> None:
    """The token goes to the other replica at once, before the row of the decision is written."""
    decided = ask(replicas[0], "early")
    assert success(replicas[1], "early", decision_token=decided.decision_token).status == Status.OUTCOME_STATUS_RECORDED
    log(replicas[1], decided, "early")
    wait_for(lambda: episode_of(replicas[0], "early").state == episode_pb2.EPISODE_STATE_SETTLED, "it to settle")


def test_an_outcome_of_a_decision_that_never_comes_is_kept_and_counted(
    replicas: list[Services], ports: tuple[int, int]
) -> None:
    made = decision_id(now().ToMilliseconds(), 7)
    name = f"tenants/{TENANT}/decisions/{made}"
    assert success(replicas[0], "orphan", decision=name).status == Status.OUTCOME_STATUS_RECORDED
    wait_for(lambda: metrics(ports)["kedge_episodes", "unmatched", "", TENANT] == 1, "it to be counted")


@pytest.mark.parametrize("shift", [timedelta(minutes=6), timedelta(minutes=-6)], ids=["ahead", "before its decision"])
def test_an_outcome_under_a_wrong_clock_is_refused_and_nothing_is_stored(
    pair: Stack, replicas: list[Services], shift: timedelta
) -> None:
    decided = ask(replicas[0], f"skewed-{shift.total_seconds()}")
    seen = Timestamp()
    seen.FromDatetime(datetime.now(UTC) + shift)
    key = f"skewed-{shift.total_seconds()}"
    answer = told(replicas[0], key=key, value=1.0, seen=seen, token=decided.decision_token)
    assert (statuses([answer]), answer.error_reason) == (
        {"REJECTED": 1},
        error_reason_pb2.ERROR_REASON_TIME_OUT_OF_RANGE,
    )
    assert stored(pair, f"SELECT count(*) FROM t_{TENANT}.outcome WHERE key = %s", key) == [(0,)]


def test_an_outcome_of_last_month_is_kept_and_said_to_be_late(
    pair: Stack, replicas: list[Services], ports: tuple[int, int]
) -> None:
    [(key_id, secret)] = stored(pair, "SELECT key_id, secret FROM control.token_key")
    old = datetime.now(UTC) - timedelta(days=31)
    made = decision(
        decision_id=decision_id(int(old.timestamp() * 1000), Random(1).getrandbits(74)),
        tenant=TenantId(TENANT),
        policy=PolicyName("support"),
        episode_id=EpisodeId("last-month"),
        time=old,
    )
    token = HmacTokens({key_id: bytes(secret)}).sign(made)
    answer = told(replicas[0], key="late", value=1.0, seen=now(), token=token)
    assert statuses([answer]) == {"LATE": 1}
    assert stored(pair, f"SELECT count(*) FROM t_{TENANT}.outcome WHERE key = 'late'") == [(1,)]


def test_every_counter_is_at_the_metrics_and_adds_up(
    pair: Stack, replicas: list[Services], ports: tuple[int, int]
) -> None:
    tripped = episode_pb2.Trajectory(terminated=True)
    tripped.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=True)
    one = replicas[0]
    log(one, ask(one, "vetoed"), "vetoed", trajectory=tripped)
    log(one, ask(one, "unscored"), "unscored")
    silent = ask(one, "silent")
    success(one, "silent", decision_token=silent.decision_token)
    log(one, silent, "silent", trajectory=episode_pb2.Trajectory(terminated=True))
    cancelled = ask(one, "cancelled")
    one.decisions.Cancel(
        decision_service_pb2.CancelRequest(decision=cancelled.decision, decision_token=cancelled.decision_token)
    )
    log(one, cancelled, "cancelled")
    waiting = ask(one, "waiting", policy=SLOW)
    log(one, waiting, "waiting", policy=SLOW)

    def counted() -> bool:
        found = metrics(ports)
        return all(found["kedge_episodes", name, policy, TENANT] for name, policy in names)

    names = [(name, "support") for name in ("SETTLED", "VETOED", "UNSCORED", "CANCELLED", "no_safety_verdict")]
    names += [("PENDING", "slow"), ("unmatched", "")]
    wait_for(counted, "every count of the worker")
    found = metrics(ports)
    logged = stored(
        pair, f"SELECT count(DISTINCT (policy, episode_id)) FROM t_{TENANT}.episode_event WHERE kind = 'LOG'"
    )
    states = ("SETTLED", "VETOED", "UNSCORED", "CANCELLED", "PENDING")
    assert (
        sum(found["kedge_episodes", state, policy, TENANT] for state in states for policy in ("support", "slow"))
        == (logged[0][0])
    )
    assert {status: found["kedge_outcomes_total", status, TENANT] for status in ("LATE", "REJECTED", "CONFLICT")} == {
        "LATE": 1,
        "REJECTED": 2,
        "CONFLICT": TIMES - 1,
    }
    assert found["kedge_outcomes_total", "DUPLICATE", TENANT] == TIMES - 1
    assert found["kedge_episodes_logged_total", "DUPLICATE", TENANT] == TIMES - 1
