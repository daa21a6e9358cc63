"""Measure how soon an OFREP client that polls every 10 ms sees a freeze: plain HTTP, and a stock OpenFeature SDK."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext

from kedge.bandit.v1 import governance_service_pb2 as governance
from tests.bench.figures import Bar, Control, Report, Row, Setting
from tests.bench.http2_load import percentile
from tests.fixtures.database import open_folder
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, running_stack, wait_for

TENANT = "bench"
POLICY = f"tenants/{TENANT}/policies/support"
FLAG = "kedge.policy.support.enabled"
FLIPS = 100
ROUNDS = 5
POLL_SECONDS = 0.010
DEADLINE_SECONDS = 20.0
SOMEBODY = EvaluationContext(targeting_key="user-7")
SEEN_BAR, NONE_BAR = Bar(at_most=100.0), Bar(at_most=0)

Reader = Callable[[], bool]


@dataclass(slots=True)
class Seen:
    """How one kind of client saw its flips.

    Attributes:
        from_sent: milliseconds from sending Freeze or Unfreeze until the client had the new value; the commit is later.
        from_answered: the same from the answer, which is after the commit.
    """

    from_sent: list[float] = field(default_factory=list)
    from_answered: list[float] = field(default_factory=list)


def ofrep(setting: Setting) -> Report:
    """Freeze and unfreeze in turns, each time until the client sees it; then end the server and ask once more."""
    setting.say("starting the service")
    plain, stock, control = Seen(), Seen(), list[float]()
    with open_folder() as folder, running_stack("", folder) as stack, httpx.Client(timeout=5.0) as http:
        key = stack.tenant(TENANT)
        stack.put_policy(two_models(TENANT))
        read_stock = _stock_reader(stack, key)
        readers = ((plain, _plain_reader(stack, key, http)), (stock, read_stock))
        wait_for(read_stock, "the flag to be true")
        with stack.services() as services, ThreadPoolExecutor(max_workers=1) as pool:
            for number in range(ROUNDS):
                setting.say(f"round {number + 1} of {ROUNDS}")
                control.append(_round_trip(stack, http))
                for seen, reader in readers:
                    for _ in range(FLIPS // ROUNDS // 2):
                        _flip(services, pool, reader, seen, wanted=False)
                        _flip(services, pool, reader, seen, wanted=True)
    after = read_stock()
    api.shutdown()
    return _report(plain, stock, control, gone_says_true=after)


def _plain_reader(stack: Stack, key: str, http: httpx.Client) -> Reader:
    url = f"http://127.0.0.1:{stack.web_port}/ofrep/v1/evaluate/flags/{FLAG}"
    headers = {"authorization": f"Bearer {key}"}
    return lambda: bool(http.post(url, json={}, headers=headers).json()["value"])


def _stock_reader(stack: Stack, key: str) -> Reader:
    headers = {"Authorization": f"Bearer {key}"}
    address = f"http://127.0.0.1:{stack.web_port}"
    api.set_provider_and_wait(OFREPProvider(address, headers_factory=lambda: headers, timeout=2.0))
    client = api.get_client()
    return lambda: client.get_boolean_value(FLAG, False, SOMEBODY)


def _round_trip(stack: Stack, http: httpx.Client) -> float:
    """Milliseconds of an answer of the same process that asks nobody; median of 200."""
    found = []
    for _ in range(200):
        began = time.perf_counter()
        http.get(f"http://127.0.0.1:{stack.web_port}/healthz")
        found.append((time.perf_counter() - began) * 1e3)
    return percentile(found, 0.5)


def _flip(services: Services, pool: ThreadPoolExecutor, reader: Reader, seen: Seen, *, wanted: bool) -> None:
    """Turn the switch from another thread while this one polls, at fixed times, until it sees the new value."""
    sent = time.perf_counter()
    answered = pool.submit(_turn, services, wanted=wanted)
    polls = 0
    while reader() is not wanted:
        polls += 1
        if time.perf_counter() - sent > DEADLINE_SECONDS:
            raise RuntimeError(f"the client did not see {wanted} in {DEADLINE_SECONDS:g} s")
        time.sleep(max(0.0, sent + polls * POLL_SECONDS - time.perf_counter()))
    now = time.perf_counter()
    seen.from_sent.append((now - sent) * 1e3)
    seen.from_answered.append((now - answered.result()) * 1e3)


def _turn(services: Services, *, wanted: bool) -> float:
    if wanted:
        services.governance.Unfreeze(governance.UnfreezeRequest(name=POLICY, because="bench"))
    else:
        services.governance.Freeze(governance.FreezeRequest(name=POLICY, because="bench"))
    return time.perf_counter()


def _report(plain: Seen, stock: Seen, control: list[float], *, gone_says_true: bool) -> Report:
    rows = []
    for name, seen in (("plain HTTP", plain), ("OpenFeature SDK", stock)):
        for share in (0.5, 0.99):
            rows.append(
                Row(
                    name=f"{name}: sending the flip to the new value, p{share * 100:g}",
                    value=percentile(seen.from_sent, share),
                    bar=SEEN_BAR,
                    unit="ms",
                    timed=True,
                )
            )
            rows.append(
                Row(
                    name=f"{name}: answer of the flip to the new value, p{share * 100:g}",
                    value=percentile(seen.from_answered, share),
                    unit="ms",
                )
            )
    rows.append(Row(name="true answered after the server was gone", value=float(gone_says_true), bar=NONE_BAR))
    notes = [
        f"{FLIPS} flips by each client, Freeze and Unfreeze in turns, over gRPC on the server process; the client asks"
        f" the web process every {POLL_SECONDS * 1e3:g} ms. The commit lies between both, so the bar is on"
        " the longer time; under 0 the client saw it before the caller had its answer",
    ]
    return Report(rows=rows, controls=[Control("GET /healthz round trip, p50", control)], notes=notes)
