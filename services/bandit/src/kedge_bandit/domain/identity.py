"""Turn what a certificate or a token proves into a principal."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kedge_bandit.domain.errors import InvalidName, KedgeError, Unauthenticated
from kedge_bandit.domain.identifiers import TenantId, tenant_id
from kedge_bandit.domain.principal import MAX_PERSON_CHARACTERS, Maker, Person, Principal, Role

MAX_TENANTS = 1000
"""Tenants that one token may name."""
EVERYWHERE = "*"
_CERTIFICATE_NAME = re.compile(r"(spiffe://|dns:)[A-Za-z0-9._*/-]+\Z")


class CredentialNotFound(KedgeError):
    """Say that the tenant has no such key, or that a certificate's name is bound to nothing in it."""

    reason: ClassVar[str] = "CREDENTIAL_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"this tenant has no {name[:80]!r}: see `kedge key list` and `kedge identity list`.")
        self.name = name[:80]


@dataclass(frozen=True, slots=True)
class Binding:
    """What the holder of a client certificate is in a tenant, and who said so; `name` is the one in the certificate."""

    name: str
    tenant: TenantId
    role: Role
    made_by: Maker = Maker()


def certificate_name(text: str) -> str:
    """Check the name of a certificate: a SPIFFE id, or `dns:` and a DNS name.

    >>> certificate_name("spiffe://example.com/acme/core-app")
    'spiffe://example.com/acme/core-app'

    Raises:
        InvalidName: it is something else.
    """
    if len(text) > MAX_PERSON_CHARACTERS or not _CERTIFICATE_NAME.match(text):
        raise InvalidName("identity", text[:40], "spiffe://TRUST-DOMAIN/PATH or dns:NAME, at most 255 characters")
    return text


def certificate_holder(name: str, bindings: Iterable[Binding]) -> Principal:
    """Find the principal of a verified certificate. Raises Unauthenticated where its name is bound to nothing."""
    found = [bound for bound in bindings if bound.name == name]
    roles: dict[TenantId | None, Role] = {bound.tenant: bound.role for bound in found}
    if not roles:
        raise Unauthenticated(f"the certificate of {name} is bound to no tenant: `kedge identity bind TENANT {name}`")
    return Principal(f"cert:{name}", roles, makers=tuple((one.tenant, one.made_by) for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Where a token says what its holder is.

    Attributes:
        tenants: claim with the tenants, a text or a list of texts; "*" is every tenant and asks for role OPERATOR.
        role: claim with the role in all of them, or an object of tenant and role, which leaves `tenants` unread.
        person: claim that only a person's token has. Without it the token is a program's.
    """

    tenants: str = "kedge_tenants"
    role: str = "kedge_role"
    person: str = "auth_time"


def token_holder(claims: Mapping[str, object], rules: ClaimRules) -> Principal:
    """Find the principal of verified claims: `sub` is the person or program, `act.sub` who acts for it (RFC 8693).

    >>> claims = {"iss": "https://login.example", "sub": "alice", "auth_time": 1, "kedge_tenants": "acme"}
    >>> found = token_holder({**claims, "kedge_role": "approver", "act": {"sub": "console"}}, ClaimRules())
    >>> found.actor.name, found.roles
    ('person:https://login.example#alice by service:console', {'acme': <Role.APPROVER: 'APPROVER'>})

    Raises:
        Unauthenticated: a claim is missing or has another form.
    """
    issuer, subject = _text(claims, "iss"), _text(claims, "sub")
    roles = _roles(claims, rules)
    acting = claims.get("act")
    service = "" if acting is None else _text(acting if isinstance(acting, Mapping) else {}, "sub")
    is_program = subject in (claims.get("client_id"), claims.get("azp"))
    if claims.get(rules.person) is None or is_program:
        behind = f" by {_service(service)}" if service else ""
        return Principal(f"{_service(subject)}{behind}", roles)
    return Principal(_service(service) if service else "", roles, Person(issuer, subject))


def _roles(claims: Mapping[str, object], rules: ClaimRules) -> dict[TenantId | None, Role]:
    """Read the role in every tenant that a token names."""
    stated = claims.get(rules.role)
    if isinstance(stated, Mapping):
        named = dict(stated)
    else:
        tenants = claims.get(rules.tenants)
        listed = [tenants] if isinstance(tenants, str) else tenants
        if not isinstance(listed, list):
            raise Unauthenticated(f"the token has no claim `{rules.tenants}` with its tenants: have it issued with one")
        named = dict.fromkeys(listed, stated) if all(isinstance(each, str) for each in listed) else {}
    if not 1 <= len(named) <= MAX_TENANTS:
        raise Unauthenticated(f"the token names {len(named)} tenants: have it issued for 1 to {MAX_TENANTS}")
    return dict(_role(tenant, role, rules) for tenant, role in named.items())


def _role(tenant: object, role: object, rules: ClaimRules) -> tuple[TenantId | None, Role]:
    try:
        found = Role(role.upper()) if isinstance(role, str) else None
        bound = None if tenant == EVERYWHERE else tenant_id(str(tenant))
    except (ValueError, InvalidName) as error:
        raise Unauthenticated(f"claim `{rules.role}` or `{rules.tenants}` of the token is not known here") from error
    if found is None or (bound is None) is not (found is Role.OPERATOR):
        raise Unauthenticated(f"claim `{rules.role}` of the token is no role there; OPERATOR and * belong together")
    return bound, found


def _service(subject: str) -> str:
    return f"service:{subject}"


def _text(claims: Mapping[str, object], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_PERSON_CHARACTERS or not value.isprintable():
        raise Unauthenticated(f"claim `{name}` of the token is missing or no text of 1 to 255 characters")
    return value
