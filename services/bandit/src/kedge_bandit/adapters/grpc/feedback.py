"""Serve FeedbackService."""

from collections import Counter
from dataclasses import dataclass

from kedge.bandit.v1 import error_reason_pb2, feedback_service_pb2, feedback_service_pb2_grpc, outcome_pb2
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire import outcome_report
from kedge_bandit.adapters.telemetry import Telemetry
from kedge_bandit.application.record import Recorded, RecordOutcomes
from kedge_bandit.domain.identifiers import parse_tenant

_ALLOWED = permissions_of("FeedbackService")
_STATUS = {
    name: outcome_pb2.OutcomeStatus.Value(f"OUTCOME_STATUS_{name}")
    for name in ("RECORDED", "DUPLICATE", "CONFLICT", "LATE", "REJECTED")
}
_PLAIN = {name: feedback_service_pb2.OutcomeResult(status=number) for name, number in _STATUS.items()}


@dataclass(frozen=True, slots=True)
class FeedbackServicer(feedback_service_pb2_grpc.FeedbackServiceServicer):
    """Take raw facts; every item is answered by itself."""

    keyring: Keyring
    record: RecordOutcomes
    telemetry: Telemetry

    @answering
    async def RecordOutcomes(
        self, request: feedback_service_pb2.RecordOutcomesRequest, context: Context
    ) -> feedback_service_pb2.RecordOutcomesResponse:
        """Record a batch after its commit."""
        tenant = parse_tenant(request.parent)
        principal = self.keyring.require(context, _ALLOWED["RecordOutcomes"], tenant)
        source = principal.actor.name
        reports = [outcome_report(message, tenant=tenant, source=source) for message in request.outcomes]
        recorded = await self.record(tenant, reports)
        for status, count in Counter(item.status for item in recorded).items():
            self.telemetry.outcomes(tenant, status, count)
        return feedback_service_pb2.RecordOutcomesResponse(results=[_result(item) for item in recorded])


def _result(item: Recorded) -> feedback_service_pb2.OutcomeResult:
    if item.error is None:
        return _PLAIN[item.status]
    return feedback_service_pb2.OutcomeResult(
        status=_STATUS[item.status],
        error_reason=error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{item.error.reason}"),
        detail=str(item.error)[:500],
    )
