"""Plant texts that are found again in every field of holdout cases and in what both sides answer to them."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import Default

from kedge.bandit.v1 import (
    decision_pb2,
    episode_pb2,
    holdout_service_pb2_grpc,
    policy_pb2,
    proposal_pb2,
    proposal_service_pb2,
    tenant_service_pb2,
)
from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.domain.principal import Role
from tests.fixtures.chat_server import chat_server
from tests.fixtures.console import Place, running_console
from tests.fixtures.core_app import ask, log
from tests.fixtures.database import open_folder
from tests.fixtures.stack import Keyed, free_port, is_serving, wait_for
from tests.trust.named_requests import call
from tests.trust.test_identity_matrix import request_for

TENANT = "marked"
POLICY = f"tenants/{TENANT}/policies/support"
PLEA = "it reads so much better"
BETTER, BROKEN = "Answer plainly, and check it.", "Answer plainly, and break."
PROGRAMS = (Role.CORE_APP, Role.EVALUATOR, Role.TRAINER)
PEOPLE = {"vera": Role.VIEWER, "paul": Role.PROPOSER, "ada": Role.ADMIN, "bob": Role.APPROVER}
AUTHOR, SECOND = "ada", "bob"
PORTS = ("GATE_PORT", "METRICS_PORT", "WORKER_METRICS_PORT", "GATE_METRICS_PORT")
VARIABLE = re.compile(r"\{(\w+)\}")
MARK = "zqanary"
JUDGE = "pinned-judge"
KINDS = ("exact", "regex", "json_schema", "tool_call", "rubric")
RIGHT = {
    "exact": f"{MARK}-expected",
    "regex": f"so it is {MARK}-pattern",
    "json_schema": json.dumps(f"{MARK}-constant"),
    "tool_call": json.dumps({"tool": f"{MARK}-tool", "arguments": {f"{MARK}-name": f"{MARK}-value"}}),
    "rubric": f"{MARK}-to-be-judged",
}
"""What passes the check of each kind."""


def planted(count: int = 400, hard: int = 100) -> Iterator[pb.HoldoutCase]:
    """Make enough cases for a verdict, every one of them marked wherever it has room for text.

    A slice and a judge's model have none: a verdict names them.
    """
    for number in range(1, count + hard + 1):
        kind = KINDS[number % (len(KINDS) if number <= count else len(KINDS) - 1)]  # a tie would be a veto there
        case = pb.HoldoutCase(
            case_id=f"{MARK}-id-{number}",
            adversarial=number > count,
            slice="even" if number % 2 == 0 else "odd",
            messages=[episode_pb2.ContentMessage(role="user", text=f"{MARK}-question of {kind} number {number}")],
            context=decision_pb2.Context(categories={f"{MARK}-feature": f"{MARK}-category"}),
            source_episode_id=f"{MARK}-episode-{number}",
        )
        _check(case, kind)
        yield case


def _check(case: pb.HoldoutCase, kind: str) -> None:
    match kind:
        case "exact":
            case.exact.expected = RIGHT[kind]
        case "regex":
            case.regex.pattern = f"{MARK}-pattern"
        case "json_schema":
            case.json_schema.schema_json = json.dumps({"const": f"{MARK}-constant"})
        case "tool_call":
            case.tool_call.tool_name = f"{MARK}-tool"
            case.tool_call.arguments_json = json.dumps({f"{MARK}-name": f"{MARK}-value"})
        case _:
            case.rubric.rubric, case.rubric.judge_model = f"{MARK}-rubric", JUDGE


def answered(body: Mapping[str, Any]) -> Any:
    """Answer as an endpoint does, with a mark in every answer; asked for a verdict, it prefers neither side.

    One that is told to check is wrong on every eleventh usual case, the others on every third. One that is told to
    break answers a third of the cases with what nobody can read.
    """
    said = {message["role"]: message["content"] for message in body["messages"]}
    if body["model"] == JUDGE:
        return json.dumps({"winner": "tie"})
    kind, _, number = said["user"].partition(" of ")[2].partition(" number ")
    if "break" in said["system"] and int(number) % 3 == 0:
        return {"role": "assistant", "content": {"text": f"{MARK}-broken"}}
    checks = "check" in said["system"]
    side = "candidate" if checks else "incumbent"
    if int(number) <= 400 and int(number) % (11 if checks else 3) == 0:
        return f"{MARK}-wrong-of-{side}"
    return RIGHT[kind]


@dataclass(frozen=True, slots=True)
class Scene:
    """A service that has run its gate on marked cases.

    Attributes:
        keys: by who holds them.
        proposals: one with a verdict, and one whose cases could not be answered; both are the author's.
        decision: id of one that was made.
    """

    place: Place
    ports: dict[str, str]
    keys: dict[str, str]
    proposals: tuple[str, ...]
    decision: str

    @property
    def gate(self) -> str:
        """Address of the gate."""
        return f"127.0.0.1:{self.ports['KEDGE_GATE_PORT']}"

    def filled(self, template: str, proposal: str) -> str:
        """Put names into a path; what there is none of is called none."""
        own = {"tenant": TENANT, "policy": "support", "proposal": proposal, "decision": self.decision}
        return VARIABLE.sub(lambda found: own.get(found[1], "none"), template)


@contextmanager
def marked_scene() -> Iterator[Scene]:
    """Run everything, and have the gate conclude on marked cases."""
    ports = {f"KEDGE_{name}": str(free_port()) for name in PORTS}
    with (
        chat_server(answered) as chat,
        open_folder() as folder,
        running_console("", folder, KEDGE_LOG_LEVEL="DEBUG", **ports) as place,
    ):
        gate = f"127.0.0.1:{ports['KEDGE_GATE_PORT']}"
        wait_for(lambda: is_serving(gate), "the gate to serve")
        place.tenant(TENANT)
        keys = keys_of(place, gate)
        with place.stack.services(keys["CORE_APP"]) as services:
            decided = ask(services, "turn-1", policy=POLICY, context=None)
            log(services, decided, "turn-1", policy=POLICY)
        with grpc.insecure_channel(gate) as channel:
            plant(channel, keys, chat.address)
        proposals = tuple(concluded(place, name, text) for name, text in (("checked", BETTER), ("broken", BROKEN)))
        yield Scene(place, ports, keys, proposals, decided.decision.rpartition("/")[2])


def keys_of(place: Place, gate: str) -> dict[str, str]:
    """Make a key for everybody that works at both doors."""
    for name, role in PEOPLE.items():
        with place.calling(TENANT, name, role.value):
            pass
    keys = {name: key for (_, name), key in place.keys.items()}
    with place.stack.services() as services:
        for role in PROGRAMS:
            request = tenant_service_pb2.CreateKeyRequest(
                parent=f"tenants/{TENANT}",
                principal=role.value.lower(),
                role=tenant_service_pb2.Role.Value(f"ROLE_{role}"),
                because="test",
            )
            keys[role.value] = services.tenants.CreateKey(request).key
    keys["OPERATOR"] = place.stack.operator_key
    with grpc.insecure_channel(gate) as channel, place.stack.services() as services:
        doors = ((channel, rpc_of("GetHoldout")), (services.channel, rpc_of("GetMode", "Governance")))
        for key, (door, rpc) in ((key, door) for key in keys.values() for door in doors):
            wait_for(partial(_takes, door, rpc, key), "the key to be accepted")
    return keys


def _takes(door: grpc.Channel, rpc: MethodDescriptor, key: str) -> bool:
    return call(door, rpc, request_for(rpc, TENANT), key).code != "UNAUTHENTICATED"


def rpc_of(name: str, service: str = "Holdout") -> MethodDescriptor:
    """Find an RPC by name."""
    return Default().FindServiceByName(f"kedge.bandit.v1.{service}Service").methods_by_name[name]


def plant(channel: grpc.Channel, keys: dict[str, str], endpoint: str) -> None:
    """Import marked cases, some that are refused as well, and say who answers them."""
    cases = [*planted(), next(planted()), pb.HoldoutCase(messages=[episode_pb2.ContentMessage(role="user", text=MARK)])]
    cases[-1].regex.pattern = f"{MARK}("
    imported = pb.ImportCasesRequest(policy=POLICY, cases=cases, because="test")
    holdout = Keyed(holdout_service_pb2_grpc.HoldoutServiceStub(channel), keys[SECOND])
    assert [one.reason for one in holdout.ImportCases(imported).refused] == ["REPEATED", "INVALID"]
    kind = pb.ANSWERER_KIND_OPENAI
    told = pb.PutAnswererRequest(
        policy=POLICY,
        answerer=pb.Answerer(kind=kind, address=endpoint, parallel=16),
        judge=pb.Answerer(kind=kind, address=endpoint, model=JUDGE),
        because="test",
    )
    Keyed(holdout_service_pb2_grpc.HoldoutServiceStub(channel), keys["OPERATOR"]).PutAnswerer(told)


def concluded(place: Place, name: str, content: str) -> str:
    """Have the author propose a prompt, and the gate conclude; gives its id."""
    arm = policy_pb2.Arm(dimension=policy_pb2.DIMENSION_PROMPT_VARIANT, name=name, content=content)
    kind = proposal_pb2.PROPOSAL_KIND_PROMPT
    wish = proposal_pb2.Proposal(policy=POLICY, kind=kind, arm=arm, because=PLEA)
    with place.calling(TENANT, AUTHOR, "ADMIN") as services:
        submit = proposal_service_pb2.SubmitProposalRequest(parent=f"tenants/{TENANT}", proposal=wish)
        made = services.proposals.SubmitProposal(submit).proposal
        read = proposal_service_pb2.GetProposalRequest(name=made.name)
        wait_for(lambda: services.proposals.GetProposal(read).proposal.gate_result.verdict, "the verdict", 240)
    return str(made.name.rpartition("/")[2])
