"""Measure what a tenant notices of another that floods: Decide at a steady rate, quiet and beside ten times a quota."""

import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2

from kedge.bandit.v1 import decision_pb2, feedback_service_pb2, outcome_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import Headers, Measured, fixed_rate, percentile
from tests.fixtures.database import open_folder
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, running_stack, wait_for
from tests.trust.flooding import belief, set_quota

FLOODS, QUIET = "floods", "quiet"
QUOTA = 50.0
TIMES = 10
RATE, CALLS = 50.0, 400
ROUNDS = 5
DECIDE, RECORD = "/kedge.bandit.v1.DecisionService/Decide", "/kedge.bandit.v1.FeedbackService/RecordOutcomes"
ECHO = "/grpc.health.v1.Health/Check"
OVER = decision_pb2.DECISION_REASON_OVER_QUOTA
NOTICED, ALL, NONE = Bar(at_most=5.0), Bar(at_least=1.0), Bar(at_most=0.0)


@dataclass(slots=True)
class Found:
    """Figures of all rounds, seconds."""

    quiet: list[float] = field(default_factory=list)
    flooded: list[float] = field(default_factory=list)
    echo: list[float] = field(default_factory=list)
    reasons: Counter[int] = field(default_factory=Counter)
    drawn: int = 0
    over: int = 0
    written: int = 0
    refused: int = 0
    allowed: float = 0.0


@dataclass(frozen=True, slots=True)
class Poured:
    """What became of one round's flood."""

    drawn: int
    over: int
    written: int
    refused: int
    seconds: float


def flood(setting: Setting) -> Report:
    """Play rounds of quiet, echo and flood; the quiet tenant's p99 and belief are judged."""
    setting.say("starting the service")
    found = Found()
    with open_folder() as folder, running_stack("", folder) as stack:
        keys = {tenant: stack.tenant(tenant) for tenant in (FLOODS, QUIET)}
        for tenant in keys:
            stack.put_policy(two_models(tenant))
        address = ("127.0.0.1", stack.port)
        with stack.services() as services:
            set_quota(services, FLOODS, decisions=QUOTA, rows=QUOTA)
            wait_for(lambda: _pour(address, keys[FLOODS], -1, 1.0).over > 0, "the quota to reach the server")
            before = belief(services, QUIET)
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                for number in range(ROUNDS):
                    setting.say(f"round {number + 1} of {ROUNDS}")
                    _round(stack, keys, pool, number, found)
            moved = float(belief(services, QUIET) != before)
    return _report(found, moved)


def _round(stack: Stack, keys: dict[str, str], pool: ProcessPoolExecutor, number: int, found: Found) -> None:
    address = ("127.0.0.1", stack.port)
    check = [health_pb2.HealthCheckRequest().SerializeToString()] * CALLS
    echo = fixed_rate(address, Headers(ECHO, {}), check, rate=RATE, connections=4)
    found.echo.append(percentile(echo.latencies, 0.5))
    found.quiet.append(_p99(_steady(address, keys[QUIET], 2 * number), found))
    pouring = pool.submit(_pour, address, keys[FLOODS], number, CALLS / RATE + 2.0)
    time.sleep(1.0)
    found.flooded.append(_p99(_steady(address, keys[QUIET], 2 * number + 1), found))
    poured = pouring.result()
    found.drawn += poured.drawn
    found.over += poured.over
    found.written += poured.written
    found.refused += poured.refused
    found.allowed += QUOTA * (poured.seconds + 1.0) + 1.0


def _steady(address: tuple[str, int], key: str, number: int) -> Measured:
    headers = Headers(DECIDE, {"authorization": f"Bearer {key}"})
    bodies = [_decide(QUIET, f"quiet-{number}-{n}") for n in range(CALLS)]
    return fixed_rate(address, headers, bodies, rate=RATE, connections=4)


def _p99(measured: Measured, found: Found) -> float:
    found.reasons.update(pb.DecideResponse.FromString(answer).reason for answer in measured.answers)
    found.reasons[-1] += len(measured.failures)
    return percentile(measured.latencies, 0.99)


def _decide(tenant: str, episode: str) -> bytes:
    context = decision_pb2.Context(categories={"task": "math"})
    policy = f"tenants/{tenant}/policies/support"
    return pb.DecideRequest(policy=policy, request_id=episode, episode_id=episode, context=context).SerializeToString()


def _outcome(episode: str) -> bytes:
    now = Timestamp()
    now.GetCurrentTime()
    outcome = outcome_pb2.Outcome(
        idempotency_key=episode,
        episode=outcome_pb2.EpisodeRef(policy=f"tenants/{FLOODS}/policies/support", episode_id=episode),
        signal=outcome_pb2.SIGNAL_JUDGE,
        value=0.5,
        observed_time=now,
    )
    request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{FLOODS}", outcomes=[outcome])
    return request.SerializeToString()


def _pour(address: tuple[str, int], key: str, number: int, seconds: float) -> Poured:
    """Send Decide, then RecordOutcomes, in turns of a fifth of a second, each at ten times its quota on average."""
    drawn = over = written = refused = 0
    began, turn = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        names = [f"flood-{number}-{turn}-{n}" for n in range(int(QUOTA * TIMES * 0.4))]
        for path, bodies in ((DECIDE, [_decide(FLOODS, n) for n in names]), (RECORD, [_outcome(n) for n in names])):
            headers = Headers(path, {"authorization": f"Bearer {key}"})
            measured = fixed_rate(address, headers, bodies, rate=QUOTA * TIMES * 2, connections=8)
            if path == DECIDE:
                reasons = Counter(pb.DecideResponse.FromString(answer).reason for answer in measured.answers)
                over += reasons[OVER]
                drawn += reasons.total() - reasons[OVER]
            else:
                written += len(measured.latencies)
                refused += len(measured.failures)
        turn += 1
    return Poured(drawn, over, written, refused, time.monotonic() - began)


def _report(found: Found, moved: float) -> Report:
    more = [(after - before) * 1e3 for before, after in zip(found.quiet, found.flooded, strict=True)]
    total = found.reasons.total()
    rows = [
        Row.of_rounds("the quiet tenant's Decide p99, flooded less quiet", more, NOTICED, "ms"),
        Row.of_rounds("its p99 while it is quiet", [p * 1e3 for p in found.quiet], unit="ms"),
        Row.of_rounds("its p99 beside the flood", [p * 1e3 for p in found.flooded], unit="ms"),
        Row(
            name="share of its decisions that were drawn",
            value=found.reasons[decision_pb2.DECISION_REASON_DRAWN] / total,
            bar=ALL,
        ),
        Row(name="its belief moved", value=moved, bar=NONE),
        Row(
            name="decisions drawn for the flood above its quota", value=max(0.0, found.drawn - found.allowed), bar=NONE
        ),
        Row(name="rows written for the flood above its quota", value=max(0.0, found.written - found.allowed), bar=NONE),
        Row(name="decisions of the flood answered over its quota", value=float(found.over)),
        Row(name="rows of the flood refused", value=float(found.refused)),
    ]
    notes = [
        f"{ROUNDS} rounds on one server: {CALLS} decisions at {RATE:g} a second alone, then as many beside a tenant"
        f" with a quota of {QUOTA:g} decisions and {QUOTA:g} rows a second that sends {TIMES} times as much of each",
    ]
    return Report(rows=rows, controls=[Control("health check at the same rate, p50", found.echo)], notes=notes)
