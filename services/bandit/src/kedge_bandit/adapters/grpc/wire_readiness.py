"""Write readiness to the wire."""

from typing import Final

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.domain.readiness import CriterionKind, Readiness

_KIND: Final[dict[CriterionKind, pb.CriterionKind.ValueType]] = {
    kind: pb.CriterionKind.Value(f"CRITERION_KIND_{kind}") for kind in CriterionKind
}


def readiness_message(readiness: Readiness) -> pb.GetReadinessResponse:
    """Write every criterion and mitigation with what was measured."""
    return pb.GetReadinessResponse(
        criteria=[
            pb.ReadinessCriterion(
                phase=each.phase.value,
                kind=_KIND[each.kind],
                criterion=each.criterion,
                measured=each.measured,
                met=each.met,
            )
            for each in readiness.criteria
        ],
        mitigations=[
            pb.Mitigation(mitigation=each.mitigation, evidence=each.evidence, holds=each.holds)
            for each in readiness.mitigations
        ],
        passed=[phase.value for phase in readiness.passed],
    )
