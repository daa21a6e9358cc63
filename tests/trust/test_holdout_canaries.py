"""Nothing that the service answers, shows, exports, counts or logs holds a case; but to a second person who opens it.

Cases are planted whose every field, and both sides' answers to them, can be recognised. Then every RPC is called that a
server names by reflection, every route of the OpenAPI document, every page of the console and what the command line
reads, by everybody; what comes back is searched, and so are metrics and log files.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import Default
from google.protobuf.json_format import MessageToJson, Parse
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from kedge.bandit.v1 import governance_service_pb2
from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.adapters.console.pages import PAGES
from tests.trust.canaries import (
    MARK,
    PEOPLE,
    PLEA,
    SECOND,
    TENANT,
    Scene,
    marked_scene,
    rpc_of,
)
from tests.trust.named_requests import call
from tests.trust.test_identity_matrix import UUID, request_for


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with marked_scene() as made:
        yield made


def asked_of(scene: Scene, rpc: MethodDescriptor, proposal: str) -> Message:
    """Name what there is, and a reason."""
    if rpc.name == "OpenCases":
        return pb.OpenCasesRequest(proposal=f"tenants/{TENANT}/proposals/{proposal}", because="a walk")
    text = MessageToJson(request_for(rpc, TENANT)).replace("/policies/none", "/policies/support")
    text = text.replace("/proposals/none", f"/proposals/{proposal}").replace(UUID, scene.decision)
    request = Parse(text, GetMessageClass(rpc.input_type)())
    if "because" in rpc.input_type.fields_by_name:
        request.because = "a walk"  # type: ignore[attr-defined]  # of a message that is known by name alone
    return request


def walked_rpcs(scene: Scene, who: str) -> dict[str, str]:
    """Call every RPC that server and gate name; gives what each answered, but what a second person opens."""
    found = {}
    for address in (scene.place.stack.address, scene.gate):
        with grpc.insecure_channel(address) as channel:
            names = ProtoReflectionDescriptorDatabase(channel).get_services()
            for rpc in [one for name in names if name.startswith("kedge.") for one in _rpcs(name)]:
                for proposal in scene.proposals:
                    if rpc.name == "OpenCases" and who == SECOND:
                        continue
                    answer = call(channel, rpc, asked_of(scene, rpc, proposal), scene.keys[who])
                    told = f"{answer.code} {answer.message} {answer.details} {answer.body.decode(errors='replace')}"
                    found[f"{rpc.name} of {proposal}"] = told
    return found


def _rpcs(service: str) -> list[MethodDescriptor]:
    return list(Default().FindServiceByName(service).methods)


def walked_routes(scene: Scene, who: str) -> dict[str, str]:
    """Call every route that the OpenAPI document names."""
    found = {}
    headers = {"authorization": f"Bearer {scene.keys[who]}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{scene.place.stack.web_port}", headers=headers, timeout=60) as client:
        for path, operations in client.get("/openapi.json").json()["paths"].items():
            for method, proposal in ((m, p) for m in operations for p in scene.proposals):
                body = {"because": "a walk"} if method == "post" else None
                answer = client.request(method, scene.filled(path, proposal), json=body)
                found[f"{method} {path} of {proposal}"] = f"{answer.status_code} {answer.headers} {answer.text}"
    return found


def walked_pages(scene: Scene, who: str) -> dict[str, str]:
    """Ask for every page and send every form, but the one by which a second person opens cases."""
    found = {}
    with scene.place.visitor(TENANT, person=who, role=PEOPLE[who].value.lower()) as client:
        for page, proposal in itertools.product(PAGES, scene.proposals):
            if "{proposal}" not in page.path and proposal != scene.proposals[0]:
                continue  # the same page
            if who == SECOND and (page.method, page.path[-6:]) == ("POST", "/cases"):
                continue
            data = {"because": "a walk", "text": "a walk"} if page.method == "POST" else None
            with client.stream(page.method, scene.filled(page.path, proposal), data=data) as answer:
                told = begun(answer) if page.path.endswith("/live") else answer.read().decode()
                found[f"{page.method} {page.path} of {proposal}"] = f"{answer.status_code} {answer.headers} {told}"
    return found


def begun(answer: httpx.Response) -> str:
    """Read what an open page is told until it is told to look again, or that nothing has happened."""
    heard = []
    for line in answer.iter_lines():
        heard.append(line)
        if line.startswith("event:"):
            break
    return "\n".join(heard)


def walked_commands(scene: Scene, who: str, folder: Path) -> dict[str, str]:
    """Read and export by the command line, as text and as JSON."""
    names = [f"tenants/{TENANT}/proposals/{one}" for one in scene.proposals]
    both = [
        *(("proposal", verb, name) for verb in ("show", "diff") for name in names),
        *(("holdout", "open", name, "--because", "a walk") for name in names if who != SECOND),
        ("proposal", "list", TENANT),
        ("holdout", "status", TENANT, "support"),
        ("holdout", "rotate", TENANT, "support", "--plan"),
        ("holdout", "answerer", TENANT, "support"),
        ("policy", "show", TENANT, "support"),
        ("audit", "list", TENANT),
        ("status", TENANT, "support"),
        ("incident", "list", TENANT),
        ("ramp", "status", TENANT, "support"),
    ]
    commands = [*both, *((*one, "--json") for one in both), ("audit", "export", TENANT)]
    commands.append(("export", TENANT, "--folder", str(folder / who)))
    found = {}
    for command in commands:
        done = scene.place.stack.kedge_here(*command, KEDGE_KEY=scene.keys[who])
        found[" ".join(command)] = f"{done.exit_code} {done.output} {done.stderr}"
    for file in (folder / who).rglob("*.*"):
        found[f"file {file.name}"] = file.read_text(encoding="utf-8")
    return found


def opened_so_far(scene: Scene) -> list[tuple[str, str]]:
    """Actor and reason of each time that cases were opened."""
    with scene.place.stack.services() as services:
        request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{TENANT}", page_size=1000)
        events = services.governance.ListAuditEvents(request).events
    return [(event.actor, event.because) for event in events if event.verb == "holdout.cases_opened"]


def searched(found: dict[str, str], who: str) -> None:
    """Demand that no case was found; what is no secret was, by whoever may read, so the places were the right ones."""
    assert [place for place, told in found.items() if MARK in told.lower()] == [], who
    assert any(PLEA in told for told in found.values()) is (who != "CORE_APP"), who


def test_no_rpc_answers_a_case(scene: Scene) -> None:
    with ThreadPoolExecutor(len(scene.keys)) as pool:
        answers = dict(zip(scene.keys, pool.map(lambda who: walked_rpcs(scene, who), scene.keys), strict=True))
    for who, found in answers.items():
        assert len(found) > 100
        searched(found, who)


def test_no_route_answers_a_case(scene: Scene) -> None:
    with ThreadPoolExecutor(len(scene.keys)) as pool:
        answers = dict(zip(scene.keys, pool.map(lambda who: walked_routes(scene, who), scene.keys), strict=True))
    for who, found in answers.items():
        assert len(found) > 100
        searched(found, who)


@pytest.mark.parametrize("who", PEOPLE)
def test_no_page_shows_a_case(scene: Scene, who: str) -> None:
    searched(walked_pages(scene, who), who)


@pytest.mark.parametrize("who", [*PEOPLE, "TRAINER", "OPERATOR"])
def test_no_command_prints_or_exports_a_case(scene: Scene, who: str, tmp_path: Path) -> None:
    found = walked_commands(scene, who, tmp_path)
    assert any(place.startswith("file ") for place in found)
    searched(found, who)


def test_no_metric_and_no_log_file_holds_a_case(scene: Scene) -> None:
    for name, port in scene.ports.items():
        if "METRICS" in name:
            told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
            assert "kedge_" in told
            assert MARK not in told.lower()
    folder = scene.place.stack.data_dir
    read = {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".log", ".jsonl", ".txt")}
    said = read[folder / "serve.log"].decode()
    for event in ("server.ready", "worker.ready", "gate.concluded", "Uvicorn running"):
        assert event in said
    assert [path for path, content in read.items() if MARK.encode() in content.lower()] == []


def test_a_second_person_opens_cases_and_that_is_audited_and_nobody_else_has(scene: Scene) -> None:
    assert opened_so_far(scene) == []  # by all that was asked above
    proposal = scene.proposals[0]
    request = pb.OpenCasesRequest(proposal=f"tenants/{TENANT}/proposals/{proposal}", because="to see")
    with grpc.insecure_channel(scene.gate) as channel:
        codes = {who: call(channel, rpc_of("OpenCases"), request, key).code for who, key in scene.keys.items()}
        assert codes == {who: "OK" if who == SECOND else "PERMISSION_DENIED" for who in scene.keys}
        opened = pb.OpenCasesResponse.FromString(call(channel, rpc_of("OpenCases"), request, scene.keys[SECOND]).body)
    for one in (*opened.improved, *opened.harmed):
        assert MARK in one.case.messages[0].text
        assert MARK in one.candidate.output
        assert MARK in one.incumbent.output
    assert len(opened.improved) == len(opened.harmed) == 5
    with scene.place.visitor(TENANT, person=SECOND, role=PEOPLE[SECOND].value.lower()) as client:
        page = client.post(f"/tenants/{TENANT}/proposals/{proposal}/cases", data={"because": "to see"}).text
    for told in ("question", "wrong-of-candidate", "wrong-of-incumbent"):
        assert f"{MARK}-{told}" in page
    by = [f"person:kedge#{SECOND} by key:{key}" for key in ("console", f"{SECOND}-beside", f"{SECOND}-beside")]
    assert opened_so_far(scene) == [(one, "to see") for one in by]
