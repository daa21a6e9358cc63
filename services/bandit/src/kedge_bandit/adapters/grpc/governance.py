"""Serve GovernanceService."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import (
    governance_service_pb2_grpc,
)
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire import MODE, timestamp
from kedge_bandit.adapters.grpc.wire_divergence import standing_message
from kedge_bandit.adapters.grpc.wire_governance import (
    audit_event_message,
    mode_of,
    order_of,
    page_size_of,
    quarantine_of,
    sequence_of,
)
from kedge_bandit.adapters.grpc.wire_ramp import incident_message
from kedge_bandit.adapters.grpc.wire_readiness import readiness_message
from kedge_bandit.application.govern import Freeze, SetMode, Unfreeze
from kedge_bandit.application.incidents import Incidents
from kedge_bandit.application.read_audit import ListAudit, VerifyAudit, WatchAudit
from kedge_bandit.application.read_divergence import AskCheck, ReadDivergence
from kedge_bandit.application.read_modes import GLOBAL, Levels, scope_of
from kedge_bandit.application.report_readiness import ReportReadiness
from kedge_bandit.domain.identifiers import parse_policy, parse_tenant
from kedge_bandit.domain.incident import parse_incident

_ALLOWED = permissions_of("GovernanceService")


@completing(pb.DESCRIPTOR.services_by_name["GovernanceService"])
@dataclass(frozen=True, slots=True)
class GovernanceServicer(governance_service_pb2_grpc.GovernanceServiceServicer):
    """Stop and resume, and give the audit log out."""

    keyring: Keyring
    levels: Levels
    freeze: Freeze
    unfreeze: Unfreeze
    set_mode: SetMode
    list_audit: ListAudit
    watch_audit: WatchAudit
    verify_audit: VerifyAudit
    incidents: Incidents
    readiness: ReportReadiness
    ask_check: AskCheck
    read_divergence: ReadDivergence

    @answering
    async def GetMode(self, request: pb.GetModeRequest, context: Context) -> pb.GetModeResponse:
        """Read the own and the effective mode of a level."""
        scope = scope_of(request.name or GLOBAL)
        self.keyring.require(context, _ALLOWED["GetMode"], scope.tenant)
        modes = await self.levels(scope)
        return pb.GetModeResponse(
            mode=MODE[modes.own], effective_mode=MODE[modes.effective], decided_by=modes.decided_by
        )

    @answering
    async def SetMode(self, request: pb.SetModeRequest, context: Context) -> pb.SetModeResponse:
        """Change the mode of a level."""
        scope = scope_of(request.name)
        actor = self.keyring.require(context, _ALLOWED["SetMode"], scope.tenant).actor
        order = order_of(actor, "SetMode", request, because=request.because, request_id=request.request_id)
        modes = await self.set_mode(scope, mode_of(request.mode), order)
        return pb.SetModeResponse(mode=MODE[modes.own], effective_mode=MODE[modes.effective])

    @answering
    async def Freeze(self, request: pb.FreezeRequest, context: Context) -> pb.FreezeResponse:
        """Pull the kill switch."""
        scope = scope_of(request.name)
        actor = self.keyring.require(context, _ALLOWED["Freeze"], scope.tenant).actor
        order = order_of(actor, "Freeze", request, because=request.because, request_id=request.request_id)
        modes = await self.freeze(scope, order)
        return pb.FreezeResponse(mode=MODE[modes.own], effective_mode=MODE[modes.effective])

    @answering
    async def Unfreeze(self, request: pb.UnfreezeRequest, context: Context) -> pb.UnfreezeResponse:
        """Resume, and say what becomes of quarantined evidence."""
        scope = scope_of(request.name)
        actor = self.keyring.require(context, _ALLOWED["Unfreeze"], scope.tenant).actor
        order = order_of(actor, "Unfreeze", request, because=request.because, request_id=request.request_id)
        modes = await self.unfreeze(scope, quarantine_of(request.quarantine), order)
        return pb.UnfreezeResponse(mode=MODE[modes.own], effective_mode=MODE[modes.effective])

    @answering
    async def ListIncidents(self, request: pb.ListIncidentsRequest, context: Context) -> pb.ListIncidentsResponse:
        """List incidents newest first; the page token is the last number."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListIncidents"], tenant)
        size = page_size_of(request.page_size)
        found = await self.incidents.list(tenant, before=sequence_of(request.page_token), limit=size + 1)
        return pb.ListIncidentsResponse(
            incidents=[incident_message(tenant, incident) for incident in found[:size]],
            next_page_token=str(found[size - 1].number) if len(found) > size else "",
        )

    @answering
    async def AcknowledgeIncident(
        self, request: pb.AcknowledgeIncidentRequest, context: Context
    ) -> pb.AcknowledgeIncidentResponse:
        """Take an incident on."""
        tenant, number = parse_incident(request.name)
        actor = self.keyring.require(context, _ALLOWED["AcknowledgeIncident"], tenant).actor
        order = order_of(actor, "AcknowledgeIncident", request, because=request.because, request_id=request.request_id)
        incident = await self.incidents.acknowledge(tenant, number, order)
        return pb.AcknowledgeIncidentResponse(incident=incident_message(tenant, incident))

    @answering
    async def CloseIncident(self, request: pb.CloseIncidentRequest, context: Context) -> pb.CloseIncidentResponse:
        """Close an incident with its cause."""
        tenant, number = parse_incident(request.name)
        actor = self.keyring.require(context, _ALLOWED["CloseIncident"], tenant).actor
        order = order_of(actor, "CloseIncident", request, because=request.cause, request_id=request.request_id)
        incident = await self.incidents.close(tenant, number, order)
        return pb.CloseIncidentResponse(incident=incident_message(tenant, incident))

    @answering
    async def RunDivergenceCheck(
        self, request: pb.RunDivergenceCheckRequest, context: Context
    ) -> pb.RunDivergenceCheckResponse:
        """Want a check at once."""
        tenant, policy = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["RunDivergenceCheck"], tenant).actor
        order = order_of(actor, "RunDivergenceCheck", request, because="asked for", request_id=request.request_id)
        return pb.RunDivergenceCheckResponse(ask_time=timestamp(await self.ask_check(tenant, policy, order)))

    @answering
    async def ListDivergenceChecks(
        self, request: pb.ListDivergenceChecksRequest, context: Context
    ) -> pb.ListDivergenceChecksResponse:
        """List checks newest first; the page token is the last number."""
        tenant, policy = parse_policy(request.parent)
        self.keyring.require(context, _ALLOWED["ListDivergenceChecks"], tenant)
        size = page_size_of(request.page_size)
        before = sequence_of(request.page_token)
        return standing_message(tenant, await self.read_divergence(tenant, policy, before=before, limit=size + 1), size)

    @answering
    async def ListAuditEvents(self, request: pb.ListAuditEventsRequest, context: Context) -> pb.ListAuditEventsResponse:
        """List events newest first; the page token is the last sequence."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["ListAuditEvents"], tenant)
        size = page_size_of(request.page_size)
        found = await self.list_audit(tenant, before=sequence_of(request.page_token), limit=size + 1)
        return pb.ListAuditEventsResponse(
            events=[audit_event_message(event) for event in found[:size]],
            next_page_token=str(found[size - 1].sequence) if len(found) > size else "",
        )

    @answering
    async def WatchAudit(self, request: pb.WatchAuditRequest, context: Context) -> AsyncIterator[pb.WatchAuditResponse]:
        """Stream events as they come, until the caller hangs up."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["WatchAudit"], tenant)
        async for event in self.watch_audit(tenant, after=request.after_sequence):
            self.keyring.require(context, _ALLOWED["WatchAudit"], tenant)
            yield pb.WatchAuditResponse(event=audit_event_message(event))

    @answering
    async def VerifyAudit(self, request: pb.VerifyAuditRequest, context: Context) -> pb.VerifyAuditResponse:
        """Recompute the hash chain."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["VerifyAudit"], tenant)
        report = await self.verify_audit(tenant)
        return pb.VerifyAuditResponse(
            intact=report.first_broken_sequence is None,
            events=report.events,
            first_broken_sequence=report.first_broken_sequence or 0,
            detail=report.detail,
        )

    @answering
    async def GetReadiness(self, request: pb.GetReadinessRequest, context: Context) -> pb.GetReadinessResponse:
        """Measure how far a tenant is."""
        tenant = parse_tenant(request.tenant)
        self.keyring.require(context, _ALLOWED["GetReadiness"], tenant)
        return readiness_message(await self.readiness(tenant))
