"""Keys open exactly what their role and tenant say."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from grpc import aio

from kedge.bandit.v1 import (
    answer_service_pb2,
    decision_service_pb2,
    episode_service_pb2,
    experiment_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    holdout_service_pb2,
    policy_service_pb2,
    proposal_service_pb2,
    ramp_service_pb2,
    tenant_service_pb2,
    webhook_service_pb2,
)
from kedge_bandit.adapters.grpc.credentials import MAX_CACHED, Keyring
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS, check_declared
from kedge_bandit.adapters.rest.rpc import Metadatum, RestRpc
from kedge_bandit.domain.api_key import StoredKey, format_key, hash_of, split_key
from kedge_bandit.domain.errors import KedgeError, PermissionDenied, TenantDenied, Unauthenticated
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import GRANTS, NEEDS_PERSON, Permission, Person, Role

ACME = TenantId("acme")
SERVED = [
    module.DESCRIPTOR.services_by_name[name]
    for module, name in (
        (decision_service_pb2, "DecisionService"),
        (episode_service_pb2, "EpisodeService"),
        (experiment_service_pb2, "ExperimentService"),
        (feedback_service_pb2, "FeedbackService"),
        (governance_service_pb2, "GovernanceService"),
        (holdout_service_pb2, "HoldoutService"),
        (policy_service_pb2, "PolicyService"),
        (proposal_service_pb2, "ProposalService"),
        (ramp_service_pb2, "RampService"),
        (tenant_service_pb2, "TenantService"),
        (webhook_service_pb2, "WebhookService"),
    )
]


def key(number: int) -> str:
    return format_key(number.to_bytes(4) + number.to_bytes(32))


def stored(
    number: int,
    role: Role,
    tenant: TenantId | None = ACME,
    *,
    is_revoked: bool = False,
    person: Person | None = None,
    expire_time: datetime | None = None,
) -> StoredKey:
    parts = split_key(key(number))
    assert parts is not None
    return StoredKey(
        key_id=parts[0],
        key_hash=hash_of(parts[1]),
        principal=f"p{number}",
        role=role,
        tenant=tenant,
        is_revoked=is_revoked,
        person=person,
        expire_time=expire_time,
    )


def call(*pairs: tuple[str, str]) -> aio.ServicerContext[object, object]:
    return RestRpc(metadata=tuple(Metadatum(*pair) for pair in pairs), peer="", deadline=None)


def bearer(number: int) -> aio.ServicerContext[object, object]:
    return call(("user-agent", "x"), ("authorization", f"Bearer {key(number)}"))


def refusal(keyring: Keyring, context: aio.ServicerContext[object, object], tenant: str) -> KedgeError:
    with pytest.raises(KedgeError) as refused:
        keyring.require(context, Permission.READ, TenantId(tenant))
    return refused.value


def test_a_key_is_known_by_its_secret_and_bound_to_its_tenant() -> None:
    keyring = Keyring([stored(1, Role.ADMIN)])
    principal = keyring.require(bearer(1), Permission.CONFIGURE, ACME)
    assert (principal.name, principal.roles, principal.tenant) == ("key:p1", {ACME: Role.ADMIN}, ACME)
    assert keyring.require(bearer(1), Permission.CONFIGURE, ACME) is principal


def test_unknown_and_foreign_tenants_are_refused_alike() -> None:
    keyring = Keyring([stored(1, Role.ADMIN)])
    foreign, unknown = refusal(keyring, bearer(1), "globex"), refusal(keyring, bearer(1), "nowhere")
    assert type(foreign) is type(unknown) is TenantDenied
    assert (str(foreign), vars(foreign)) == (str(unknown), vars(unknown))


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer ",
        "Bearer kdg_00000001_short",
        f"Basic {key(1)}",
        f"Bearer {key(2)}",
        f"Bearer {key(1)[:-1]}A",
        f"Bearer {key(3)}",
        f"Bearer {key(1)}x",
        "Bearer " + "é" * 56,
    ],
)
def test_a_missing_wrong_or_revoked_key_is_unauthenticated(authorization: str) -> None:
    keyring = Keyring([stored(1, Role.ADMIN), stored(3, Role.ADMIN, is_revoked=True)])
    assert isinstance(refusal(keyring, call(("authorization", authorization)), "acme"), Unauthenticated)
    assert isinstance(refusal(keyring, call(), "acme"), Unauthenticated)


def test_a_revoked_key_stops_at_the_next_snapshot() -> None:
    keyring = Keyring([stored(1, Role.VIEWER)])
    keyring.require(bearer(1), Permission.READ, ACME)
    keyring.replace([stored(1, Role.VIEWER, is_revoked=True)])
    assert isinstance(refusal(keyring, bearer(1), "acme"), Unauthenticated)


def test_a_key_stops_when_it_expires_though_it_was_known() -> None:
    now = [0.0]
    keyring = Keyring([stored(1, Role.VIEWER, expire_time=datetime.fromtimestamp(10, UTC))], now=lambda: now[0])
    keyring.require(bearer(1), Permission.READ, ACME)
    now[0] = 10.0
    assert isinstance(refusal(keyring, bearer(1), "acme"), Unauthenticated)


def test_the_cache_of_callers_stays_bounded() -> None:
    keyring = Keyring([stored(n, Role.VIEWER) for n in range(1, MAX_CACHED + 3)])
    for n in range(1, MAX_CACHED + 3):
        keyring.caller(bearer(n))
    assert len(keyring._known) <= MAX_CACHED


@pytest.mark.parametrize("role", Role)
def test_a_role_opens_its_permissions_and_no_other(role: Role) -> None:
    program, person = Keyring([stored(1, role)]), Keyring([stored(1, role, person=Person("kedge", "alice"))])
    assert set(open_permissions(program, Permission)) == GRANTS[role] - NEEDS_PERSON
    assert set(open_permissions(person, Permission)) == GRANTS[role]


def open_permissions(keyring: Keyring, asked: Iterable[Permission]) -> Iterable[Permission]:
    for permission in asked:
        try:
            keyring.require(bearer(1), permission, ACME)
        except PermissionDenied:
            continue
        yield permission


def test_what_concerns_every_tenant_needs_an_operator() -> None:
    keyring = Keyring([stored(1, Role.ADMIN), stored(2, Role.OPERATOR, None), stored(3, Role.OPERATOR)])
    with pytest.raises(PermissionDenied):
        keyring.require(bearer(1), Permission.GOVERN, None)
    with pytest.raises(PermissionDenied):
        keyring.require(bearer(3), Permission.GOVERN, None)
    keyring.require(bearer(2), Permission.GOVERN, None)


def test_every_rpc_declares_one_permission_and_no_declaration_is_stale() -> None:
    check_declared(SERVED)
    assert set(PERMISSIONS) == {f"/{service.full_name}/{rpc.name}" for service in SERVED for rpc in service.methods}


def test_an_undeclared_rpc_fails_start_up() -> None:
    undeclared = answer_service_pb2.DESCRIPTOR.services_by_name["AnswerService"]
    with pytest.raises(LookupError, match="AnswerService/Answer"):
        check_declared([undeclared])
