"""Send hostile messages to every RPC of the running service, and log real episodes beside them.

Seeded: the same messages in every run. The table and build/trust/fuzz_rpcs.json say how many went to each RPC and how
they were answered.
"""

import asyncio
import itertools
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, outcome_pb2, policy_pb2, policy_service_pb2
from kedge_bandit.adapters.rest.comments import comments_of
from tests.e2e.test_every_rpc import SERVICES
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, wait_for
from tests.trust.fuzz_messages import NOW, Messages
from tests.trust.size import of
from tests.trust.steady_client import SteadyClient

ROOT = Path(__file__).parents[2]
COUNT = of(2_000, 100_000)
CALLERS = 32
STEADY = "steady"
FUZZED = "fuzzed"
FAULTS = ("INTERNAL", "UNKNOWN", "UNAVAILABLE", "DATA_LOSS", "DEADLINE_EXCEEDED")
SERVED = [rpc for service in SERVICES if service.name != "AnswerService" for rpc in service.methods]
MOST_GROWTH_MIB = 512
STREAMED = 30
WATCHED_SECONDS = 0.3


@dataclass(slots=True)
class Answers:
    """What came back."""

    codes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    faults: list[tuple[str, str, str, str]] = field(default_factory=list)

    def note(self, rpc: MethodDescriptor, error: Any, sent: bytes) -> None:
        code = "OK" if error is None else error.code().name
        name = f"{rpc.containing_service.name}.{rpc.name}"
        self.codes[name][code] += 1
        if error is not None and code in FAULTS:
            self.faults.append((name, code, str(error.details()), sent[:400].hex()))

    def table(self) -> str:
        lines = [
            f"{name:40} {counts.total():7} " + " ".join(f"{code}={count}" for code, count in counts.most_common())
            for name, counts in sorted(self.codes.items())
        ]
        total = sum((counts for counts in self.codes.values()), Counter[str]())
        return "\n".join([*lines, f"{'all':40} {total.total():7} {dict(total.most_common())}"])


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """Calls RPCs with bytes.

    Attributes:
        channel: for single requests.
        threaded: for streams of requests; the library's asynchronous client gives INTERNAL of its own in the place of
            the server's answer where that comes before the last request is sent (grpc/grpc#36066).
    """

    channel: grpc.aio.Channel
    threaded: grpc.Channel
    key: str
    messages: Messages
    answers: Answers

    async def send(self, rpc: MethodDescriptor, sent: list[bytes], *, cut: bool) -> None:
        """Send messages to an RPC; a stream may be cut in the middle."""
        error: grpc.RpcError | None = None
        try:
            if rpc.client_streaming:
                await asyncio.to_thread(self._stream, rpc, sent, cut=cut)
            elif rpc.server_streaming:
                await self._read(self._call(self.channel, rpc, sent[0]), cut=cut)
            else:
                await self._call(self.channel, rpc, sent[0])
        except grpc.RpcError as raised:
            is_over = rpc.name.startswith("Watch") and raised.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            error = None if is_over else raised
        for part in sent:
            self.answers.note(rpc, error, part)

    def _call(self, channel: Any, rpc: MethodDescriptor, request: Any) -> Any:
        ways = ("stream" if rpc.client_streaming else "unary", "stream" if rpc.server_streaming else "unary")
        method: Any = getattr(channel, "_".join(ways))(f"/{rpc.containing_service.full_name}/{rpc.name}")
        timeout = WATCHED_SECONDS if rpc.name.startswith("Watch") else 60.0
        return method(request, metadata=(("authorization", f"Bearer {self.key}"),), timeout=timeout)

    def _stream(self, rpc: MethodDescriptor, sent: list[bytes], *, cut: bool) -> None:
        if not rpc.server_streaming:
            self._call(self.threaded, rpc, iter(sent))
            return
        call = self._call(self.threaded, rpc, iter(sent))
        for _ in call:
            if cut:
                call.cancel()
                return

    async def _read(self, call: Any, *, cut: bool) -> None:
        read = 0
        async for _ in call:
            read += 1
            if read >= (1 if cut else STREAMED):
                call.cancel()
                return

    async def caller(self, turns: "itertools.count[int]", rpcs: list[MethodDescriptor]) -> None:
        """Take turns until the count is reached."""
        while (turn := next(turns)) < COUNT:
            rpc = rpcs[turn % len(rpcs)]
            parts = self.messages.random.randint(1, 6) if rpc.client_streaming else 1
            sent = [self.messages.wire(rpc.input_type) for _ in range(parts)]
            await self.send(rpc, sent, cut=self.messages.random.random() < 0.2)


def known_values(stack: Stack, key: str) -> dict[str, list[Any]]:
    """Make decisions of the fuzzed tenant, so that their names, tokens and keys exist."""
    policies = [f"tenants/{FUZZED}/policies/{name}" for name in ("support", "second")]
    with stack.services(key) as services:
        decided = [
            services.decisions.Decide(
                decision_service_pb2.DecideRequest(
                    policy=policies[number % 2],
                    request_id=f"known-{number}",
                    episode_id=f"known-{number}",
                    context=decision_pb2.Context(categories={"task": "math"}),
                )
            )
            for number in range(60)
        ]
        listed = [
            services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=name)).policy for name in policies
        ]
    hashes = [arm.content_hash for policy in listed for arm in policy.arms]
    keys = [key for policy in listed for key in policy.action_keys]
    ids = [f"known-{number}" for number in range(60)] + [f"new-{number}" for number in range(500)]
    return {
        "kedge.bandit.v1.EraseTenantRequest.name": ["tenants/spare"],
        "tenants/{tenant}/policies/{policy}": policies,
        "tenants/{tenant}/decisions/{decision}": [answer.decision for answer in decided],
        "tenants/{tenant}; the last part": [f"tenants/{FUZZED}", "tenants/spare"],
        "tenants/{tenant}": [f"tenants/{FUZZED}"],
        '"global"': [f"tenants/{FUZZED}", *policies],
        "decision_token": [answer.decision_token for answer in decided],
        "content_hash": hashes,
        "served_action_key": ["", *keys],
        "available_action_keys": keys,
        "pinned_action_key": ["", "", *keys],
        "action_key": keys,
        "episode_id": ids,
        "request_id": [f"asked-{number}" for number in range(5000)],
        "idempotency_key": [f"seen-{number}" for number in range(5000)],
        "because": ["the fuzzer says so"],
        "expected_version": [0],
        "page_size": [0, 1, 10, 1000],
        "page_token": ["", "1"],
        "end_user_id": ["user-1"],
        "confirm": ["spare"],
        "decisions_per_second": [0.0],
        "rows_per_second": [0.0],
        "after_sequence": [0, 3],
    }


def seeds() -> dict[str, list[Any]]:
    """Give messages that are right as a whole, where chance would never find one."""
    policies = [two_models(FUZZED, name=name) for name in ("support", "second")]
    arm = policy_pb2.Arm(dimension=policy_pb2.DIMENSION_MODEL_ROUTE, name="small", content="small-model")
    seen = Timestamp(seconds=NOW)
    trajectory = episode_pb2.Trajectory(terminated=True, start_time=seen, end_time=seen)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII)
    trajectory.llm_calls.add(model_id="small-model", prompt_tokens=10, completion_tokens=5, cost_usd=0.01)
    outcome = outcome_pb2.Outcome(
        idempotency_key="seed",
        episode=outcome_pb2.EpisodeRef(policy=policies[0].name, episode_id="known-1"),
        signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
        value=0.5,
    )
    context = decision_pb2.Context(categories={"task": "code"})
    found = [*policies, arm, trajectory, outcome, context]
    by_type: dict[str, list[Any]] = defaultdict(list)
    for message in found:
        by_type[message.DESCRIPTOR.full_name].append(message)
    return by_type


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


async def fuzz(stack: Stack, keys: dict[str, str], messages: Messages) -> tuple[Answers, SteadyClient]:
    """Run the fuzzer's callers, and the steady client beside them until they end."""
    answers, turns = Answers(), itertools.count()
    rpcs = [*SERVED]
    messages.random.shuffle(rpcs)
    async with (
        grpc.aio.insecure_channel(stack.address) as channel,
        grpc.aio.insecure_channel(stack.address) as own,
    ):
        steady = SteadyClient(own, keys[STEADY], STEADY)
        running = asyncio.create_task(steady.run())
        with grpc.insecure_channel(stack.address) as threaded:
            callers = [
                Fuzzer(channel, threaded, keys[who], messages, answers).caller(turns, rpcs)
                for who, _ in zip(itertools.cycle((FUZZED, FUZZED, FUZZED, "operator")), range(CALLERS), strict=False)
            ]
            await asyncio.gather(*callers)
        steady.stop()
        await running
    return answers, steady


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_no_message_brings_an_rpc_down_and_a_good_client_beside_them_loses_nothing(stack: Stack) -> None:
    keys = {name: stack.tenant(name) for name in (FUZZED, STEADY)} | {"operator": stack.operator_key}
    for policy in (two_models(FUZZED), two_models(FUZZED, name="second"), two_models(STEADY)):
        stack.put_policy(policy)
    image = FileDescriptorSet.FromString((ROOT / "proto" / "gen" / "kedge.binpb").read_bytes())
    messages = Messages(Random(6), comments_of(image), known_values(stack, keys[FUZZED]), seeds())
    pids = {name: stack.pid(name) for name in ("server", "worker", "web")}
    before = {name: resident_mib(pid) for name, pid in pids.items()}
    began = time.monotonic()
    answers, steady = asyncio.run(fuzz(stack, keys, messages))
    seconds = time.monotonic() - began
    after = {name: resident_mib(pid) for name, pid in pids.items()}
    print(f"\n{answers.table()}\n{seconds:.0f} s; MiB before {before}, after {after}")
    print(f"the steady client was acknowledged {dict(steady.acknowledged)}")
    report(answers, before, after, steady)
    log = (stack.data_dir / "serve.log").read_text(encoding="utf-8", errors="replace").splitlines()
    assert not answers.faults, answers.faults[:20]
    assert pids == {name: stack.pid(name) for name in pids}, "a process was restarted"
    assert all(after[name] - before[name] < MOST_GROWTH_MIB for name in pids)
    assert not [line for line in log if is_fault(line)][:5]
    wait_for(partial(steady.is_stored, stack), "what the steady client was acknowledged to be folded")
    assert steady.lost(stack) == set()


def is_fault(line: str) -> bool:
    """Say whether a line of the log is an error; a durable tenant's Decide that got no commit in time is none."""
    is_late = '"decide.failed"' in line and line.rstrip().endswith('TimeoutError"}')
    return ('"level":"error"' in line or "Traceback" in line) and not is_late


def report(answers: Answers, before: dict[str, float], after: dict[str, float], steady: SteadyClient) -> None:
    """Write the table for the docs."""
    folder = ROOT / "build" / "trust"
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "messages": sum(counts.total() for counts in answers.codes.values()),
        "rpcs": {name: dict(counts) for name, counts in sorted(answers.codes.items())},
        "faults": answers.faults[:200],
        "resident_mib": {"before": before, "after": after},
        "steady": dict(steady.acknowledged),
    }
    (folder / "fuzz_rpcs.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
