"""Answer the kill switch's flags from the replica's snapshot, as an OpenFeature provider."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import FlagNotFoundError, TargetingKeyMissingError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata

from kedge_bandit.application.ports import Snapshot
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode

TENANT = "tenant"
"""Attribute of the evaluation context that names the tenant."""
STALE = "STALE"
_PREFIX, _SUFFIX = "kedge.policy.", ".enabled"


def flag_of(policy: PolicyName) -> str:
    """Name the flag of a policy: true where learned choices may be served.

    >>> flag_of(PolicyName("support"))
    'kedge.policy.support.enabled'
    """
    return f"{_PREFIX}{policy}{_SUFFIX}"


def policy_of(flag: str) -> PolicyName | None:
    """Find the policy that a flag is about; None for a flag that is none of ours.

    >>> policy_of("kedge.policy.support.enabled"), policy_of("new-checkout")
    ('support', None)
    """
    if not flag.startswith(_PREFIX) or not flag.endswith(_SUFFIX):
        return None
    return PolicyName(flag[len(_PREFIX) : -len(_SUFFIX)])


class OwnProvider(AbstractProvider):
    """Say of every policy whether learned choices may be served: its effective mode is APPLY. No I/O."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get_metadata(self) -> Metadata:
        """Name the provider."""
        return Metadata(name="kedge")

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: FBT001 - OpenFeature's signature
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[bool]:
        """Answer a flag. A stale view answers false, with the reason STALE, whatever it knew last.

        Raises:
            TargetingKeyMissingError: the context names no tenant.
            FlagNotFoundError: the tenant has no such policy.
        """
        policy = policy_of(flag_key)
        if policy is None:
            raise FlagNotFoundError(f"flags are named {flag_of(PolicyName('<policy>'))}")
        tenant = _tenant_of(evaluation_context)
        try:
            serving = self._snapshot.serving(tenant, policy)
        except KedgeError:
            raise FlagNotFoundError(f"the tenant has no policy {policy!r}") from None
        facts: dict[str, bool | int | float | str] = {
            "mode": str(serving.mode),
            "policy_version": serving.policy.version,
        }
        if self._snapshot.stale:
            return FlagResolutionDetails(value=False, reason=Reason.STALE, variant=STALE, flag_metadata=facts)
        is_enabled = serving.mode is Mode.APPLY
        return FlagResolutionDetails(
            value=is_enabled, reason=Reason.STATIC, variant=str(serving.mode), flag_metadata=facts
        )

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Refuse."""
        _refuse(flag_key)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Refuse."""
        _refuse(flag_key)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Refuse."""
        _refuse(flag_key)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Refuse."""
        _refuse(flag_key)


def _tenant_of(context: EvaluationContext | None) -> TenantId:
    named = None if context is None else context.attributes.get(TENANT, context.targeting_key)
    if not isinstance(named, str) or not named:
        raise TargetingKeyMissingError("name the tenant: attribute `tenant`, or the targeting key")
    return TenantId(named)


def _refuse(flag: str) -> NoReturn:
    raise TypeMismatchError(f"{flag} is a boolean flag")
