"""A running worker tells a webhook within seconds of what somebody did on the command line."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.policies import two_models
from tests.fixtures.receiver import Receiver, receiving
from tests.fixtures.stack import Stack, wait_for


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def ran(stack: Stack, *arguments: str) -> Any:
    done = stack.kedge_here(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def types(receiver: Receiver) -> list[str]:
    return [json.loads(message.body)["type"] for message in list(receiver.received)]


def test_a_freeze_reaches_the_receiver_and_the_log_says_so(stack: Stack, receiver: Receiver) -> None:
    stack.tenant("told")
    stack.put_policy(two_models("told"))
    made = ran(
        stack, "webhook", "put", "told", "chat", "--url", receiver.url, "--on", "policy.*", "--because", "a test"
    )
    assert made["secret"].startswith("whsec_")
    assert "secret" not in json.dumps(ran(stack, "webhook", "list", "told"))

    ran(stack, "freeze", "told", "support", "--because", "to be told")
    wait_for(lambda: "policy.frozen" in types(receiver), "the message")
    ran(stack, "webhook", "test", "told", "chat")
    wait_for(lambda: "webhook.test" in types(receiver), "the test")

    wait_for(lambda: {one["state"] for one in log(stack)} == {"DELIVERED"}, "the log to say so")
    [frozen] = [one for one in log(stack) if one["audit_sequence"]]
    ran(stack, "webhook", "redeliver", "told", "chat", str(frozen["number"]))
    wait_for(lambda: types(receiver).count("policy.frozen") == 2, "the message again")
    assert stack.kedge_here(
        "webhook", "put", "told", "x", "--url", "http://h.example", "--on", "*", "--because", "x"
    ).exit_code
    ran(stack, "webhook", "delete", "told", "chat", "--because", "done")
    assert ran(stack, "webhook", "list", "told") == []


def log(stack: Stack) -> list[dict[str, Any]]:
    return list(ran(stack, "webhook", "list", "told", "chat"))
