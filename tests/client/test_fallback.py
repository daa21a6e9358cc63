"""Whatever the server or the network does, `decide` answers; what the calling code does wrong, it says."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from kedge.bandit.v1.decision_service_pb2 import DecideResponse
from kedge_client import LOCAL_FALLBACK, BreakerState, Choice, Kedge, Listener
from tests.client.stand_in import BASELINE, SERVED, Answer, Fail, Hang, Running, StandIn

Connect = Callable[..., Kedge]


def assert_is_the_local_baseline(choice: Choice, *, failure: str) -> None:
    assert choice.fallback
    assert choice.reason == LOCAL_FALLBACK
    assert choice.failure == failure
    assert (choice.model_route, choice.reasoning_depth, choice.prompt_variant) == ("small", None, "direct")
    assert choice.action_key == BASELINE.action.key
    assert (choice.propensity, choice.is_randomised, choice.judge_requested) == (1.0, False, False)
    assert (choice.token, choice.decision) == (b"", "")


async def test_a_healthy_answer_is_read_as_it_was_sent(kedge: Kedge) -> None:
    choice = await kedge.decide("support", episode_id="turn-1", categories={"task": "refund"}, numbers={"words": 12})

    assert (choice.model_route, choice.reasoning_depth, choice.prompt_variant) == ("large", None, "direct")
    assert choice.action == SERVED.action
    assert choice.action_key == SERVED.action.key
    assert (choice.propensity, choice.is_randomised, choice.judge_requested) == (0.25, True, True)
    assert (choice.token, choice.decision) == (b"token-turn-1", "tenants/acme/decisions/turn-1")
    assert (choice.reason, choice.fallback, choice.failure) == ("DRAWN", False, "")


async def test_the_question_carries_key_ids_context_and_the_hash_of_the_local_baseline(
    kedge: Kedge, stand_in: StandIn
) -> None:
    await kedge.decide(
        "support",
        episode_id="turn-1",
        request_id="ask-1",
        categories={"task": "refund"},
        numbers={"words": 12},
        available=[SERVED.action.key],
        pinned=SERVED.action.key,
        continues_episode=True,
        in_tool_loop=True,
        no_exploration=True,
        token=b"earlier",
    )

    asked = stand_in.received["Decide"]
    assert stand_in.authorization == {"Bearer kdg_secret"}
    assert (asked.policy, asked.request_id, asked.episode_id) == ("tenants/acme/policies/support", "ask-1", "turn-1")
    assert (dict(asked.context.categories), dict(asked.context.numbers)) == ({"task": "refund"}, {"words": 12.0})
    assert (list(asked.available_action_keys), asked.pinned_action_key) == ([SERVED.action.key], SERVED.action.key)
    assert (asked.continues_episode, asked.in_tool_loop, asked.no_exploration) == (True, True, True)
    assert (asked.decision_token, asked.baseline_hash) == (b"earlier", BASELINE.hash)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_every_status_code_ends_in_the_local_baseline(
    kedge: Kedge, stand_in: StandIn, code: grpc.StatusCode
) -> None:
    stand_in.always["Decide"] = Fail(code=code)

    assert_is_the_local_baseline(await kedge.decide("support", episode_id="turn-1"), failure=code.name)


async def test_a_refusal_is_named_by_its_reason(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["Decide"] = Fail(code=grpc.StatusCode.INVALID_ARGUMENT, reason="ERROR_REASON_UNDECLARED_FEATURE")

    choice = await kedge.decide("support", episode_id="turn-1", numbers={"surprise": float("nan")})

    assert_is_the_local_baseline(choice, failure="UNDECLARED_FEATURE")


async def test_an_answer_after_the_deadline_is_not_waited_for(connect: Connect, stand_in: StandIn) -> None:
    hang = Hang()
    stand_in.always["Decide"] = hang

    choice = await connect(decide_deadline_s=0.05).decide("support", episode_id="turn-1")

    hang.released.set()
    assert_is_the_local_baseline(choice, failure="DEADLINE_EXCEEDED")


async def test_nobody_listening_is_no_exception(connect: Connect) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        client = connect(address=f"127.0.0.1:{unused.getsockname()[1]}")
        assert_is_the_local_baseline(await client.decide("support", episode_id="turn-1"), failure="UNAVAILABLE")


@pytest.mark.parametrize(
    "spoil",
    [{"action_key": ""}, {"decision": ""}, {"propensity": 0.0}, {"propensity": 1.5}, {"propensity": float("nan")}],
)
async def test_an_answer_that_cannot_be_served_is_a_failure(
    kedge: Kedge, stand_in: StandIn, spoil: dict[str, Any]
) -> None:
    answer = stand_in.decided("turn-1")
    for field, value in spoil.items():
        setattr(answer, field, value)
    stand_in.always["Decide"] = Answer(answer)

    assert_is_the_local_baseline(await kedge.decide("support", episode_id="turn-1"), failure="UNUSABLE_ANSWER")


async def test_bytes_that_are_no_answer_are_a_failure(connect: Connect) -> None:
    async def nonsense(request: bytes, context: object) -> bytes:
        return b"\xff\xff\xff"

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(nonsense)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("kedge.bandit.v1.DecisionService", {"Decide": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()

    choice = await connect(address=f"127.0.0.1:{port}").decide("support", episode_id="turn-1")

    await server.stop(None)
    assert_is_the_local_baseline(choice, failure="UNUSABLE_ANSWER")


async def test_a_reason_this_client_does_not_know_is_no_failure(kedge: Kedge, stand_in: StandIn) -> None:
    answer = DecideResponse.FromString(stand_in.decided("turn-1").SerializeToString() + b"\x68\x63")
    stand_in.always["Decide"] = Answer(answer)

    choice = await kedge.decide("support", episode_id="turn-1")

    assert (choice.reason, choice.fallback) == ("REASON_99", False)


async def test_closing_the_client_answers_the_decisions_that_still_wait(kedge: Kedge, stand_in: StandIn) -> None:
    hang = Hang()
    stand_in.always["Decide"] = hang
    waiting = asyncio.create_task(kedge.decide("support", episode_id="turn-1"))
    await hang.entered.wait()

    await kedge.close()

    hang.released.set()
    assert_is_the_local_baseline(await waiting, failure="CLIENT_CLOSED")
    assert_is_the_local_baseline(await kedge.decide("support", episode_id="turn-2"), failure="CLIENT_CLOSED")


async def test_a_caller_that_is_cancelled_stays_cancelled(kedge: Kedge, stand_in: StandIn) -> None:
    hang = Hang()
    stand_in.always["Decide"] = hang
    waiting = asyncio.create_task(kedge.decide("support", episode_id="turn-1"))
    await hang.entered.wait()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    hang.released.set()


async def test_best_action_falls_back_like_decide(kedge: Kedge, stand_in: StandIn) -> None:
    best = await kedge.best_action("support", episode_id="turn-1")
    stand_in.always["BestAction"] = Fail(code=grpc.StatusCode.UNAVAILABLE)

    assert (best.reason, best.mean, best.is_randomised) == ("BEST_ACTION", 0.5, False)
    assert_is_the_local_baseline(await kedge.best_action("support", episode_id="turn-2"), failure="UNAVAILABLE")


async def test_what_was_served_after_a_failure_travels_with_the_episode(kedge: Kedge, stand_in: StandIn) -> None:
    stand_in.always["Decide"] = Fail(code=grpc.StatusCode.DEADLINE_EXCEEDED)

    handle = (await kedge.decide("support", episode_id="turn-1")).handle

    assert handle.served_action_key == BASELINE.action.key
    assert kedge.about(handle).accepted().served_action_key == BASELINE.action.key


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"episode_id": ""}, "episode_id"),
        ({"episode_id": "x" * 129}, "episode_id"),
        ({"episode_id": "a\0b"}, "episode_id"),
        ({"episode_id": 7}, "episode_id"),
        ({"request_id": ""}, "request_id"),
        ({"categories": {"task": 3}}, "categories"),
        ({"categories": {"": "refund"}}, "feature names"),
        ({"numbers": {"words": "twelve"}}, "numbers"),
        ({"numbers": {"words": True}}, "numbers"),
        ({"numbers": {"words": 10**400}}, "context"),
        ({"available": "small@993b57396811"}, "available"),
        ({"available": [""]}, "available"),
        ({"pinned": 3}, "Decide"),
        ({"token": "text"}, "Decide"),
        ({"policy": "unknown"}, "baselines"),
        ({"policy": "tenants/acme/policies/support"}, "bare id"),
        ({"policy": ""}, "policy"),
    ],
)
async def test_a_mistake_in_the_calling_code_is_a_value_error(
    kedge: Kedge, stand_in: StandIn, arguments: dict[str, Any], hint: str
) -> None:
    with pytest.raises(ValueError, match=hint):
        await kedge.decide(**{"policy": "support", "episode_id": "turn-1", **arguments})
    assert stand_in.calls["Decide"] == 0


async def test_metrics_that_raise_do_not_reach_the_decision(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Listener):
        def decided(self, choice: Choice, *, seconds: float, breaker: BreakerState) -> None:
            raise RuntimeError("metrics are down")

    choice = await connect(listener=Broken()).decide("support", episode_id="turn-1")

    assert not choice.fallback
    assert "listener.failed" in caplog.text


async def test_the_listener_hears_of_every_choice(connect: Connect, stand_in: StandIn) -> None:
    class Heard(Listener):
        def __init__(self) -> None:
            self.failures: list[str] = []

        def decided(self, choice: Choice, *, seconds: float, breaker: BreakerState) -> None:
            self.failures.append(choice.failure)

    heard = Heard()
    client = connect(listener=heard)
    stand_in.script["Decide"].append(Fail(code=grpc.StatusCode.UNAVAILABLE))

    await client.decide("support", episode_id="turn-1")
    await client.decide("support", episode_id="turn-2")

    assert heard.failures == ["UNAVAILABLE", ""]


async def test_a_client_is_ready_once_its_server_listens(running: Running, connect: Connect) -> None:
    assert await connect().ready()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert not await connect(address=f"127.0.0.1:{unused.getsockname()[1]}").ready(timeout_s=0.05)
