"""Every answerer keeps the same contract: an endpoint, a program, the core application, and the one that tests use."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from kedge.bandit.v1 import answer_service_pb2, answer_service_pb2_grpc, episode_pb2
from kedge_bandit.adapters.holdout.connect import LOOPBACK, Connections
from kedge_bandit.application.answer_ports import AnswerFailed, FetchAnswer
from kedge_bandit.application.holdout_ports import Answer, AnswererKind, AnswererSettings
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.holdout import EpisodeCheck, ExactCheck, HoldoutCase, Message
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from tests.fixtures.chat_server import chat_server

ACME, SUPPORT = TenantId("acme"), PolicyName("support")
SECRET = bytes(range(32))
ARMS = (
    Arm(dimension=Dimension.MODEL_ROUTE, name="small", content="small-model"),
    Arm(dimension=Dimension.PROMPT_VARIANT, name="plain", content="Answer as {who}.", template_variables=("who",)),
)
CASE = HoldoutCase(
    messages=(Message("user", "What is 2 + 2?"),), check=ExactCheck("4"), categories={"who": "a clerk"}, case_id="sum"
)


@dataclass(frozen=True)
class FakeAnswers:
    """Answer in memory, for tests of what uses answerers; it is held to the contract like the real ones."""

    said: Callable[[HoldoutCase, Sequence[Arm]], str]

    async def __call__(
        self, _tenant: TenantId, _policy: PolicyName, case: HoldoutCase, arms: Sequence[Arm], /
    ) -> Answer:
        """Answer what the test says; "FAIL" stands for a failure, "TRIP" for a guardrail's verdict."""
        said = self.said(case, arms)
        if said == "FAIL":
            raise AnswerFailed("the fake could not answer")
        return Answer(output=said, cost_usd=0.001, latency_ms=1.0, model_id="small-model")


def said(text: str, prompt: str) -> str:
    """The script that all of them follow."""
    if "fail" in text:
        return "FAIL"
    return f"{prompt}|{text}"


PROGRAM = """#!{python}
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    prompt = next(arm["content"] for arm in asked["arms"] if arm["dimension"] == "PROMPT_VARIANT")
    prompt = prompt.replace("{{who}}", asked["context"]["categories"].get("who", "?"))
    text = asked["messages"][-1]["text"]
    told = {{"id": asked["id"], "output": prompt + "|" + text, "cost_usd": 0.001, "model_id": "small-model"}}
    if "fail" in text:
        told = {{"id": asked["id"], "error": "no"}}
    if "seed" in asked:
        told = {{"id": asked["id"], "output": str(asked["seed"]), "score": 0.25}}
    print(json.dumps(told), flush=True)
"""


class CoreApp(answer_service_pb2_grpc.AnswerServiceServicer):
    """A core application that answers with the content of the arms, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[answer_service_pb2.AnswerRequest] = []
        self.metadata: list[dict[str, Any]] = []

    async def Answer(
        self, request: answer_service_pb2.AnswerRequest, context: Any
    ) -> answer_service_pb2.AnswerResponse:
        self.asked.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        text = request.messages[-1].text
        prompt = request.arms[1].content.replace("{who}", request.context.categories["who"])
        answer = said(text, prompt)
        if answer == "FAIL":
            await context.abort(grpc.StatusCode.INTERNAL, "no")
        response = answer_service_pb2.AnswerResponse(
            output=answer, cost_usd=0.001, latency_ms=7.0, model_id="small-model"
        )
        if "trip" in text:
            response.guardrail_events.append(episode_pb2.GuardrailEvent(tripped=True))
        return response


@asynccontextmanager
async def core_app() -> AsyncIterator[tuple[CoreApp, str]]:
    server, app = aio.server(), CoreApp()
    answer_service_pb2_grpc.add_AnswerServiceServicer_to_server(app, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield app, f"127.0.0.1:{port}"
    await server.stop(None)


def connections(folder: Path) -> Connections:
    (folder / "secrets" / ACME).mkdir(parents=True, exist_ok=True)
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "secrets" / ACME / "key-one").write_text("sk-very-secret\n", encoding="utf-8")
    program = folder / "scripts" / "answers"
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return Connections(secrets=folder / "secrets", scripts=folder / "scripts", hosts=LOOPBACK, pauses=(0.0, 0.0))


def endpoint_script(body: Any) -> Any:
    answer = said(body["messages"][-1]["content"], body["messages"][0]["content"])
    return 500 if answer == "FAIL" else answer


@asynccontextmanager
async def fake(_folder: Path) -> AsyncIterator[FetchAnswer]:
    yield FakeAnswers(lambda case, arms: said(case.text, arms[1].content.replace("{who}", case.categories["who"])))


@asynccontextmanager
async def endpoint(folder: Path) -> AsyncIterator[FetchAnswer]:
    with chat_server(endpoint_script) as server:
        settings = AnswererSettings(
            kind=AnswererKind.OPENAI, address=server.address, usd_per_million_prompt_tokens=10.0
        )
        async with connections(folder).answerer(ACME, settings, SECRET) as fetch:
            yield fetch


@asynccontextmanager
async def program(folder: Path) -> AsyncIterator[FetchAnswer]:
    settings = AnswererSettings(kind=AnswererKind.SCRIPT, address="answers")
    async with connections(folder).answerer(ACME, settings, SECRET) as fetch:
        yield fetch


@asynccontextmanager
async def application(folder: Path) -> AsyncIterator[FetchAnswer]:
    async with core_app() as (_, address):
        settings = AnswererSettings(kind=AnswererKind.CORE_APP, address=address)
        async with connections(folder).answerer(ACME, settings, SECRET) as fetch:
            yield fetch


ANSWERERS: dict[str, Callable[[Path], AbstractAsyncContextManager[FetchAnswer]]] = {
    "fake": fake,
    "endpoint": endpoint,
    "program": program,
    "core app": application,
}


@pytest.fixture(params=ANSWERERS)
async def fetch(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FetchAnswer]:
    async with ANSWERERS[request.param](tmp_path) as connected:
        yield connected


async def test_an_answer_comes_from_the_content_of_the_arms(fetch: FetchAnswer) -> None:
    answer = await fetch(ACME, SUPPORT, CASE, ARMS)
    assert answer.output == "Answer as a clerk.|What is 2 + 2?"
    assert (answer.cost_usd, answer.model_id, answer.vetoed) == (0.001, "small-model", False)
    assert answer.latency_ms >= 0
    candidate = replace(ARMS[1], content="As {who}, be brief.")
    assert (await fetch(ACME, SUPPORT, CASE, (ARMS[0], candidate))).output.startswith("As a clerk, be brief.")


async def test_many_are_answered_at_once_and_each_by_its_own(fetch: FetchAnswer) -> None:
    cases = [replace(CASE, case_id="", messages=(Message("user", f"number {n}"),)) for n in range(40)]
    answers = await asyncio.gather(*(fetch(ACME, SUPPORT, case, ARMS) for case in cases))
    assert [answer.output.rpartition("|")[2] for answer in answers] == [case.text for case in cases]


async def test_a_failure_is_one_kind_of_error_and_names_no_case(fetch: FetchAnswer) -> None:
    failing = replace(CASE, case_id="hidden", messages=(Message("user", "please fail on secret words"),))
    with pytest.raises(AnswerFailed) as failed:
        await fetch(ACME, SUPPORT, failing, ARMS)
    assert "secret words" not in str(failed.value)
    assert "hidden" not in str(failed.value)
    assert (await fetch(ACME, SUPPORT, CASE, ARMS)).output


async def test_the_core_application_is_told_that_it_is_an_evaluation(tmp_path: Path) -> None:
    async with core_app() as (app, address):
        settings = AnswererSettings(kind=AnswererKind.CORE_APP, address=address, secret_name="key-one")
        async with connections(tmp_path).answerer(ACME, settings, SECRET) as fetch:
            await fetch(ACME, SUPPORT, CASE, ARMS)
            tripped = await fetch(ACME, SUPPORT, replace(CASE, messages=(Message("user", "trip"),)), ARMS)
    request = app.asked[0]
    assert request.evaluation
    assert request.action.prompt_variant.content_hash == ARMS[1].content_hash
    assert [arm.content for arm in request.arms] == [arm.content for arm in ARMS]
    assert (request.policy, request.case_id) == ("tenants/acme/policies/support", "sum")
    assert app.metadata[0]["authorization"] == "Bearer sk-very-secret"
    assert tripped.vetoed


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (429, 3), (400, 1), (401, 1)])
async def test_an_endpoint_is_asked_again_where_that_may_help(tmp_path: Path, status: int, tries: int) -> None:
    with chat_server(lambda _: status) as server:
        settings = AnswererSettings(kind=AnswererKind.OPENAI, address=server.address, secret_name="key-one")
        async with connections(tmp_path).answerer(ACME, settings, SECRET) as fetch:
            with pytest.raises(AnswerFailed, match=f"answered {status}") as failed:
                await fetch(ACME, SUPPORT, CASE, ARMS)
        assert len(server.asked) == tries
        assert server.keys[0] == "Bearer sk-very-secret"
        assert "sk-very" not in str(failed.value)


async def test_a_call_of_a_tool_is_read_as_json(tmp_path: Path) -> None:
    call = {"function": {"name": "book", "arguments": '{"city": "Rome"}'}}
    with chat_server(lambda _: {"content": None, "tool_calls": [call]}) as server:
        settings = AnswererSettings(kind=AnswererKind.OPENAI, address=server.address)
        async with connections(tmp_path).answerer(ACME, settings, SECRET) as fetch:
            answer = await fetch(ACME, SUPPORT, CASE, ARMS)
    assert json.loads(answer.output) == {"tool": "book", "arguments": {"city": "Rome"}}


async def test_an_episode_is_seeded_by_the_tenants_secret(tmp_path: Path) -> None:
    episode = HoldoutCase(check=EpisodeCheck("relocation_env", 3))
    settings = AnswererSettings(kind=AnswererKind.ENVIRONMENT, address="answers")
    seeds = []
    for secret in (SECRET, SECRET, bytes(32)):
        async with connections(tmp_path).answerer(ACME, settings, secret) as fetch:
            answer = await fetch(ACME, SUPPORT, replace(episode, messages=(Message("user", ""),)), ARMS)
        assert answer.score == 0.25
        seeds.append(int(answer.output))
    assert seeds[0] == seeds[1] != seeds[2]
    assert all(0 <= seed < 2**63 for seed in seeds)


async def test_a_program_sees_nothing_of_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_GATE_DATABASE_URL", "postgresql://kedge_gate:x@/kedge")
    connect = connections(tmp_path)
    spy = tmp_path / "scripts" / "spy"
    spy.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nfor line in sys.stdin:\n"
        "    told = {'id': json.loads(line)['id'], 'output': ' '.join(sorted(os.environ))}\n"
        "    print(json.dumps(told), flush=True)\n",
        encoding="utf-8",
    )
    spy.chmod(0o755)
    async with connect.answerer(ACME, AnswererSettings(kind=AnswererKind.SCRIPT, address="spy"), SECRET) as fetch:
        seen = (await fetch(ACME, SUPPORT, CASE, ARMS)).output.split()
    assert not [name for name in seen if name.startswith("KEDGE") or "DATABASE" in name]


async def test_a_silent_program_is_given_up_in_time(tmp_path: Path) -> None:
    connect = connections(tmp_path)
    silent = tmp_path / "scripts" / "silent"
    silent.write_text("#!/bin/sh\ncat > /dev/null\n", encoding="utf-8")
    silent.chmod(0o755)
    settings = AnswererSettings(kind=AnswererKind.SCRIPT, address="silent", timeout_seconds=0.2)
    async with connect.answerer(ACME, settings, SECRET) as fetch:
        with pytest.raises(AnswerFailed, match="in time"):
            await fetch(ACME, SUPPORT, CASE, ARMS)
