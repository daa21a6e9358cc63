"""Declare the one permission of every RPC and route. One that is not declared here fails start-up."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import ServiceDescriptor

from kedge_bandit.domain.principal import Permission

PACKAGE: Final = "kedge.bandit.v1"

_SERVICES: Final[dict[str, dict[Permission, str]]] = {
    "DecisionService": {
        Permission.DECIDE: "Decide BestAction Activate Cancel ReportDecisions WatchAllocations ConfirmServing",
        Permission.READ_ARMS: "GetArm WatchArms",
        Permission.READ: "GetDecision ListDecisions ExplainDecision ReplayDecision",
    },
    "EpisodeService": {
        Permission.LOG: "LogEpisode StreamEpisodes SettleEpisode",
        Permission.READ: "GetEpisode ListEpisodes GetTimeline ExportEpisodes ExportDecisions",
        Permission.IMPORT: "ImportEpisodes",
    },
    "FeedbackService": {Permission.RECORD: "RecordOutcomes"},
    "PolicyService": {
        Permission.CONFIGURE: "PutPolicy StagePolicy UpsertArm RetireArm RebuildPolicy",
        Permission.READ: "GetPolicy ListPolicies GetPolicyStatus GetBelief GetHistory EvaluatePolicy",
    },
    "GovernanceService": {
        Permission.FREEZE: "Freeze",
        Permission.GOVERN: "SetMode Unfreeze AcknowledgeIncident CloseIncident RunDivergenceCheck",
        Permission.READ: "GetMode ListIncidents ListDivergenceChecks ListAuditEvents WatchAudit VerifyAudit "
        "GetReadiness",
    },
    "ProposalService": {
        Permission.PROPOSE: "SubmitProposal WithdrawProposal",
        Permission.READ: "GetProposal ListProposals WatchProposals GetNotNow",
        Permission.COMMENT: "CommentProposal",
        Permission.GOVERN: "PutNotNow",
        Permission.APPROVE: "ApproveProposal RejectProposal RevertProposal",
        Permission.RUN_GATE: "RunGate",
        Permission.PREFER: "RecordPreference",
        Permission.EVALUATE: "ReportEvaluation",
    },
    "HoldoutService": {
        Permission.CURATE: "ImportCases ProposeCases RotateHoldout",
        Permission.READ: "GetHoldout GetAnswerer",
        Permission.CONFIGURE: "PutAnswerer",
        Permission.APPROVE: "OpenCases",
        Permission.PROPOSE: "RecordTrainingTexts",
    },
    "RampService": {
        Permission.READ: "GetRamp",
        Permission.APPROVE: "AdvanceRamp",
        Permission.FREEZE: "PauseRamp AbortRamp",
    },
    "WebhookService": {
        Permission.CONFIGURE: "PutWebhook DeleteWebhook TestWebhook RedeliverWebhook",
        Permission.READ: "ListWebhooks ListDeliveries",
    },
    "ExperimentService": {
        Permission.CONFIGURE: "CreateExperiment EndExperiment",
        Permission.READ: "GetExperiment ListExperiments GetPolicyKpis",
        Permission.DECIDE: "GetAssignment",
    },
    "TenantService": {
        Permission.MANAGE_TENANTS: "OnboardTenant ListTenants VerifyIsolation",
        Permission.ERASE: "EraseTenant",
        Permission.MANAGE_KEYS: "CreateKey ListKeys RevokeKey BindIdentity ListIdentities UnbindIdentity",
        Permission.CONFIGURE: "UpdateTenant",
    },
}

PERMISSIONS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        f"/{PACKAGE}.{service}/{rpc}": permission
        for service, declared in _SERVICES.items()
        for permission, rpcs in declared.items()
        for rpc in rpcs.split()
    }
)
"""Permission of every RPC by its full method name, `/package.Service/Method`."""


ROUTES: Final[Mapping[str, Permission | None]] = MappingProxyType(
    {
        "POST /ofrep/v1/evaluate/flags": Permission.READ_FLAGS,
        "POST /ofrep/v1/evaluate/flags/{key}": Permission.READ_FLAGS,
        "POST /alerts/v1/freeze": Permission.ALARM,
        "GET /openapi.json": None,
        "GET /healthz": None,
        "GET /readyz": None,
        "GET /metrics": None,
        "grpc.health.v1.Health": None,
        "grpc.reflection.v1alpha.ServerReflection": None,
    }
)
"""Permission of everything beside the RPCs; None: open to whoever reaches the port."""


def permissions_of(service: str) -> Mapping[str, Permission]:
    """Read the permissions of one service by RPC, so that its servicer names none itself.

    >>> permissions_of("FeedbackService")["RecordOutcomes"]
    <Permission.RECORD: 'RECORD'>
    """
    return MappingProxyType(
        {rpc: permission for permission, rpcs in _SERVICES[service].items() for rpc in rpcs.split()}
    )


def check_declared(services: Iterable[ServiceDescriptor]) -> None:
    """Demand that every RPC of the services that are about to be served has a permission; call it at start-up.

    Raises:
        LookupError: naming the RPCs that have none.
    """
    methods = [f"/{service.full_name}/{rpc.name}" for service in services for rpc in service.methods]
    undeclared = [method for method in methods if method not in PERMISSIONS]
    if undeclared:
        raise LookupError(f"declare a permission in adapters/grpc/permissions.py for {', '.join(undeclared)}")


def check_routes_declared(routes: Iterable[str]) -> None:
    """Demand that every route beside the RPCs is declared, as "GET /path"; call it at start-up.

    Raises:
        LookupError: naming the routes that are not.
    """
    undeclared = [route for route in routes if route not in ROUTES]
    if undeclared:
        raise LookupError(f"declare a permission in adapters/grpc/permissions.py for {', '.join(undeclared)}")
