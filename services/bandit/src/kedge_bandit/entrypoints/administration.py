"""Wire the servicers of policies, tenants and governance, and of what comes later."""

import secrets
from collections.abc import Sequence

from google.protobuf.descriptor import ServiceDescriptor
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge.bandit.v1 import (
    experiment_service_pb2,
    governance_service_pb2,
    policy_service_pb2,
    proposal_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
    webhook_service_pb2,
)
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.experiments import ExperimentServicer
from kedge_bandit.adapters.grpc.governance import GovernanceServicer
from kedge_bandit.adapters.grpc.policies import PolicyServicer
from kedge_bandit.adapters.grpc.proposals import ProposalServicer
from kedge_bandit.adapters.grpc.ramps import RampServicer
from kedge_bandit.adapters.grpc.tenants import TenantServicer
from kedge_bandit.adapters.grpc.webhooks import WebhookServicer
from kedge_bandit.adapters.postgres.erasure import PostgresEraser
from kedge_bandit.adapters.postgres.identities import PostgresIdentities
from kedge_bandit.adapters.postgres.isolation import PostgresWalls
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers, role_of
from kedge_bandit.adapters.postgres.tenants import PostgresTenants
from kedge_bandit.application.administration_ports import Override
from kedge_bandit.application.browse import ReadHistory
from kedge_bandit.application.configure import PutPolicy, RetireArm, UpsertArm
from kedge_bandit.application.decide_proposal import ApproveProposal, RejectProposal, RevertProposal
from kedge_bandit.application.erase import EraseTenant, EraseUser
from kedge_bandit.application.evaluate import EvaluatePolicy
from kedge_bandit.application.experiments import Experimenting
from kedge_bandit.application.govern import Freeze, SetMode, StagePolicy, Unfreeze
from kedge_bandit.application.identify import BindIdentity, CreateKey, ListCredentials, RevokeKey, UnbindIdentity
from kedge_bandit.application.incidents import Incidents
from kedge_bandit.application.onboard_tenant import ListTenants, OnboardTenant, UpdateTenant
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.propose import (
    CommentProposal,
    ReportEvaluation,
    RunGate,
    SubmitProposal,
    WithdrawProposal,
)
from kedge_bandit.application.ramps import MoveRamp, ReadRamps
from kedge_bandit.application.read_audit import ListAudit, VerifyAudit, WatchAudit
from kedge_bandit.application.read_belief import ReadBelief
from kedge_bandit.application.read_divergence import AskCheck, ReadDivergence
from kedge_bandit.application.read_kpis import ReadKpis
from kedge_bandit.application.read_modes import Levels
from kedge_bandit.application.read_proposals import NotNow, ReadProposals, RecordPreference
from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.application.report_readiness import ReportReadiness
from kedge_bandit.application.report_status import ReportStatus
from kedge_bandit.application.retain import Seals
from kedge_bandit.application.take_turns import TakeTurns
from kedge_bandit.application.verify_isolation import VerifyIsolation
from kedge_bandit.application.webhooks import Allowed, SetUpWebhooks


def administration(
    *,
    engine: AsyncEngine,
    ledgers: PostgresLedgers,
    keyring: Keyring,
    clock: Clock,
    override: Override,
    seals: Seals,
    allowed: Allowed,
) -> Sequence[tuple[ServiceDescriptor, object]]:
    """Make the servicers that configure and govern; `override` restricts this replica from outside the database."""
    registry = PostgresTenants(engine)
    levels, turns = Levels(ledgers, registry, override), TakeTurns()
    policies = PolicyServicer(
        keyring=keyring,
        ledgers=ledgers,
        levels=levels,
        put=PutPolicy(ledgers, clock),
        stage=StagePolicy(ledgers, clock),
        upsert=UpsertArm(ledgers, clock),
        retire=RetireArm(ledgers, clock),
        report=ReportStatus(ledgers, override),
        rebuild=Rebuild(ledgers, seals),
        evaluate=EvaluatePolicy(ledgers, turns),
        belief=ReadBelief(ledgers, clock),
        history=ReadHistory(ledgers, clock),
    )
    hooks = SetUpWebhooks(ledgers, clock, allowed, secrets.token_bytes)
    ramps = RampServicer(keyring, ReadRamps(ledgers, override), MoveRamp(ledgers, clock, override))
    tenants = _tenants(engine, registry, keyring, clock)
    experiments = ExperimentServicer(keyring, Experimenting(ledgers, clock, turns), ReadKpis(ledgers, clock, turns))
    governance = _governance(engine, ledgers, keyring, clock, levels, turns)
    return (
        (policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"], policies),
        (tenant_service_pb2.DESCRIPTOR.services_by_name["TenantService"], tenants),
        (governance_service_pb2.DESCRIPTOR.services_by_name["GovernanceService"], governance),
        (proposal_service_pb2.DESCRIPTOR.services_by_name["ProposalService"], _proposals(ledgers, keyring, clock)),
        (ramp_service_pb2.DESCRIPTOR.services_by_name["RampService"], ramps),
        (webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"], WebhookServicer(keyring, hooks)),
        (experiment_service_pb2.DESCRIPTOR.services_by_name["ExperimentService"], experiments),
    )


def _governance(
    engine: AsyncEngine, ledgers: PostgresLedgers, keyring: Keyring, clock: Clock, levels: Levels, turns: TakeTurns
) -> GovernanceServicer:
    return GovernanceServicer(
        keyring=keyring,
        levels=levels,
        freeze=Freeze(levels, clock),
        unfreeze=Unfreeze(levels, clock),
        set_mode=SetMode(levels, clock),
        list_audit=ListAudit(ledgers),
        watch_audit=WatchAudit(ledgers),
        verify_audit=VerifyAudit(ledgers),
        incidents=Incidents(ledgers, clock),
        readiness=ReportReadiness(ledgers, PostgresWalls(engine), role_of, clock, turns),
        ask_check=AskCheck(ledgers, clock),
        read_divergence=ReadDivergence(ledgers),
    )


def _proposals(ledgers: PostgresLedgers, keyring: Keyring, clock: Clock) -> ProposalServicer:
    return ProposalServicer(
        keyring=keyring,
        read=ReadProposals(ledgers),
        submit=SubmitProposal(ledgers, clock),
        run_gate=RunGate(ledgers, clock),
        approve=ApproveProposal(ledgers, clock),
        reject=RejectProposal(ledgers, clock),
        withdraw=WithdrawProposal(ledgers, clock),
        revert=RevertProposal(ledgers, clock),
        comment=CommentProposal(ledgers, clock),
        not_now=NotNow(ledgers, clock),
        prefer=RecordPreference(ledgers, clock),
        report=ReportEvaluation(ledgers, clock),
    )


def _tenants(engine: AsyncEngine, registry: PostgresTenants, keyring: Keyring, clock: Clock) -> TenantServicer:
    identities = PostgresIdentities(engine)
    return TenantServicer(
        keyring=keyring,
        onboard=OnboardTenant(registry, clock),
        update=UpdateTenant(registry, clock),
        tenants=ListTenants(registry),
        create_key=CreateKey(identities, clock, secrets.token_bytes),
        revoke_key=RevokeKey(identities, clock),
        bind=BindIdentity(identities, clock),
        unbind=UnbindIdentity(identities, clock),
        credentials=ListCredentials(identities),
        verify_isolation=VerifyIsolation(PostgresWalls(engine)),
        erase=EraseTenant(PostgresEraser(engine), clock),
        erase_user=EraseUser(PostgresEraser(engine), clock),
    )
