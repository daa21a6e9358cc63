"""Let a JVM take candidates to the real gate and to people: who there is, what is proposed, who answers cases."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from kedge.bandit.v1 import (
    holdout_service_pb2,
    holdout_service_pb2_grpc,
    policy_service_pb2,
    proposal_pb2,
    proposal_service_pb2,
    tenant_service_pb2,
)
from tests.fixtures.gating import enough_cases
from tests.fixtures.proposing import prompt, prompted
from tests.fixtures.second_person import person
from tests.fixtures.stack import Keyed, Services, Stack, wait_for

REPORTED, ANSWERED = "reported", "answered"
"""A policy without a holdout, for scores that are reported, and one whose cases the application answers."""
OPEN = (proposal_pb2.Proposal.STATE_SUBMITTED, proposal_pb2.Proposal.STATE_GATE_RUNNING)


@dataclass(slots=True)
class Promotions:
    """A tenant of a running stack with its gate.

    Attributes:
        gate: address of its gRPC service.
        people: keys of those who were asked for.
    """

    stack: Stack
    tenant: str
    gate: str
    people: dict[str, str] = field(default_factory=dict)

    @property
    def verbs(self) -> dict[str, Callable[[str], str]]:
        """What a JVM may ask for: each takes the rest of a path, and answers a text."""
        return {
            "person": self._person,
            "program": self._program,
            "propose": self._propose,
            "gate": self._run_gate,
            "answerer": self._put_answerer,
        }

    def put_policies(self) -> None:
        """Put both."""
        for name in (REPORTED, ANSWERED):
            policy = prompted(f"tenants/{self.tenant}")
            policy.name = f"tenants/{self.tenant}/policies/{name}"
            self.stack.put_policy(policy)

    def _person(self, asked: str) -> str:
        """Give the token of `name/ROLE_...`, who is a person."""
        name, role = asked.split("/")
        if name not in self.people:
            self.people[name] = person(self.stack, self.tenant, name, role)
        return self.people[name]

    def _program(self, role: str) -> str:
        """Give a key of a program."""
        with self.stack.services() as services:
            request = tenant_service_pb2.CreateKeyRequest(
                parent=f"tenants/{self.tenant}",
                principal=f"a-program-{time.monotonic_ns()}",
                role=tenant_service_pb2.Role.Value(role),
                because="test",
            )
            key: str = services.tenants.CreateKey(request).key
        with self.stack.services(key) as services:
            wait_for(lambda: self._knows(services), "the new key to be known")
        return key

    def _knows(self, services: Services) -> bool:
        """Say whether the server knows a caller, who may not be allowed what is asked."""
        try:
            services.policies.ListPolicies(policy_service_pb2.ListPoliciesRequest(parent=f"tenants/{self.tenant}"))
        except grpc.RpcError as error:
            return bool(error.code() != grpc.StatusCode.UNAUTHENTICATED)
        return True

    def _propose(self, asked: str) -> str:
        """Propose a prompt `policy/name` as alice, who leaves it to others to call the gate; gives the proposal."""
        policy, name = asked.split("/")
        wish = proposal_pb2.Proposal(
            policy=f"tenants/{self.tenant}/policies/{policy}",
            kind=proposal_pb2.PROPOSAL_KIND_PROMPT,
            arm=prompt(name, f"Answer as {name} would."),
            because="it reads better",
        )
        request = proposal_service_pb2.SubmitProposalRequest(parent=f"tenants/{self.tenant}", proposal=wish, hold=True)
        with self.stack.services(self._person("alice/ROLE_PROPOSER")) as alice:
            proposal: str = alice.proposals.SubmitProposal(request).proposal.name
        return proposal

    def _run_gate(self, proposal: str) -> str:
        """Let the gate process judge, as bob; gives the state that it comes to."""
        with self.stack.services(self._person("bob/ROLE_APPROVER")) as bob:
            bob.proposals.RunGate(proposal_service_pb2.RunGateRequest(name=proposal))
            read = proposal_service_pb2.GetProposalRequest(name=proposal)
            wait_for(lambda: bob.proposals.GetProposal(read).proposal.state not in OPEN, "the verdict", 110)
            state = bob.proposals.GetProposal(read).proposal.state
        return str(proposal_pb2.Proposal.State.Name(state))

    def _put_answerer(self, port: str) -> str:
        """Import cases, and let the application on a port of this machine answer them."""
        policy = f"tenants/{self.tenant}/policies/{ANSWERED}"
        answerer = holdout_service_pb2.Answerer(
            kind=holdout_service_pb2.ANSWERER_KIND_CORE_APP, address=f"127.0.0.1:{port}", parallel=8, timeout_seconds=60
        )
        with grpc.insecure_channel(self.gate) as channel:
            holdout = Keyed(holdout_service_pb2_grpc.HoldoutServiceStub(channel), self.stack.operator_key)
            cases = holdout_service_pb2.ImportCasesRequest(policy=policy, cases=enough_cases(), because="test")
            refused = holdout.ImportCases(cases).refused
            request = holdout_service_pb2.PutAnswererRequest(policy=policy, answerer=answerer, because="test")
            holdout.PutAnswerer(request)
        return str(len(refused))
