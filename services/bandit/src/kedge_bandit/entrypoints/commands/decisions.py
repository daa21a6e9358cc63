"""`kedge decide` and `kedge explain`: make one decision by hand, and say why one came out as it did."""

import uuid
from typing import Annotated, Any

import grpc
import typer
from rich.console import Console
from rich.markup import escape

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, policy_pb2, policy_service_pb2
from kedge_bandit.adapters.grpc.status import reason_of
from kedge_bandit.domain.draw import interval_text
from kedge_bandit.domain.errors import PermissionDenied
from kedge_bandit.domain.principal import GRANTS, Permission, Role
from kedge_bandit.entrypoints.client import Client, connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import JsonFlag, PolicyName, TenantName, answer, table


def decide(
    tenant: TenantName,
    policy: PolicyName,
    *,
    episode: Annotated[str, typer.Option(help="The episode's id; a new one where it is left out.")] = "",
    features: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A context feature; may be repeated.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Decide for one episode, as a core application would."""
    name = f"tenants/{tenant}/policies/{policy}"
    episode_id = episode or str(uuid.uuid4())
    with connected() as client:
        request = decision_service_pb2.DecideRequest(
            policy=name,
            request_id=str(uuid.uuid4()),
            episode_id=episode_id,
            context=_context(client, name, features or []),
        )
        made = client.call(client.decisions.Decide, request)
    document = {**document_of(made), "episode_id": episode_id}
    answer(document, lambda out: _show_decision(out, made, episode_id), as_json=as_json)


def explain(
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="tenants/TENANT/decisions/DECISION")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Say why a decision came out as it did, and what would change it."""
    with connected() as client:
        request = decision_service_pb2.ExplainDecisionRequest(name=decision)
        found = client.call(client.decisions.ExplainDecision, request)
    answer(document_of(found), lambda out: _show_explanation(out, found), as_json=as_json)


def _context(client: Client, name: str, features: list[str]) -> decision_pb2.Context:
    """Read NAME=VALUE pairs by the kinds that the policy declares; an undeclared one is for the server to refuse."""
    context = decision_pb2.Context()
    if not features:
        return context
    policy = _policy(client, name)
    numeric = {feature.name for feature in policy.features if feature.WhichOneof("kind") == "numeric"}
    for pair in features:
        feature, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {pair}: write NAME=VALUE")
        if feature not in numeric:
            context.categories[feature] = value
            continue
        try:
            context.numbers[feature] = float(value)
        except ValueError as error:
            raise typer.BadParameter(f"--set {pair}: {feature} is a number") from error
    return context


def _policy(client: Client, name: str) -> policy_pb2.Policy:
    """Read the policy. Raises PermissionDenied that says why a command which decides has to read."""
    try:
        found = client.call(client.policies.GetPolicy, policy_service_pb2.GetPolicyRequest(name=name))
    except grpc.RpcError as error:
        if reason_of(error) != "PERMISSION_DENIED":
            raise
        able = " or ".join(role for role in Role if {Permission.READ, Permission.DECIDE} <= GRANTS[role])
        raise PermissionDenied(
            "--set reads the policy first, for what its features are, and this key may not read: "
            f"use a key of role {able}, or leave --set out"
        ) from error
    policy: policy_pb2.Policy = found.policy
    return policy


def _show_decision(out: Console, made: Any, episode_id: str) -> None:
    reason = enum_text(decision_pb2.DecisionReason.DESCRIPTOR, made.reason)
    out.print(f"[bold]{made.action_key}[/]  propensity {made.propensity:.4g}, {reason}, episode {escape(episode_id)}")
    rows = [(each.action_key, each.propensity) for each in made.distribution]
    out.print(table(f"Bucket {made.bucket or '(all)'}", ("action", "propensity"), rows))
    out.print(f"kedge explain {made.decision}", highlight=False, soft_wrap=True)


def _show_explanation(out: Console, found: Any) -> None:
    for sentence in found.sentences:
        out.print(sentence, markup=False, highlight=False)
    rows = [
        (
            each.action_key,
            each.eligible,
            each.available,
            each.probability_best,
            each.mean,
            each.propensity,
            interval_text(each.draw_from, each.draw_to),
        )
        for each in found.actions
    ]
    columns = ("action", "eligible", "available", "P(best)", "mean", "propensity", "draws that choose it")
    out.print(table(f"Draw {found.draw:.6f}", columns, rows))
