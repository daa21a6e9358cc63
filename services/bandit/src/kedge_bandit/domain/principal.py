"""Say who calls and what that role allows, tenant by tenant."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import quote

from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.errors import InvalidValue, PermissionDenied, TenantDenied
from kedge_bandit.domain.identifiers import TenantId

MAX_PERSON_CHARACTERS = 255
_MADE_BY = " made by "


class Role(StrEnum):
    """What a credential's holder is in a tenant."""

    CORE_APP = "CORE_APP"
    VIEWER = "VIEWER"
    PROPOSER = "PROPOSER"
    APPROVER = "APPROVER"
    ADMIN = "ADMIN"
    EVALUATOR = "EVALUATOR"
    TRAINER = "TRAINER"
    ALARM = "ALARM"
    OPERATOR = "OPERATOR"


class Permission(StrEnum):
    """What one RPC or route asks for; each declares exactly one."""

    DECIDE = "DECIDE"
    LOG = "LOG"
    RECORD = "RECORD"
    READ_ARMS = "READ_ARMS"
    READ_FLAGS = "READ_FLAGS"
    READ = "READ"
    IMPORT = "IMPORT"
    CONFIGURE = "CONFIGURE"
    ALARM = "ALARM"
    FREEZE = "FREEZE"
    GOVERN = "GOVERN"
    PROPOSE = "PROPOSE"
    COMMENT = "COMMENT"
    PREFER = "PREFER"
    RUN_GATE = "RUN_GATE"
    APPROVE = "APPROVE"
    EVALUATE = "EVALUATE"
    CURATE = "CURATE"
    MANAGE_KEYS = "MANAGE_KEYS"
    ERASE = "ERASE"
    MANAGE_TENANTS = "MANAGE_TENANTS"


_EVERYBODY = frozenset({Permission.READ_ARMS, Permission.READ_FLAGS})
_VIEWER = _EVERYBODY | {Permission.READ}
_ALL = frozenset(Permission)

GRANTS = {
    Role.CORE_APP: _EVERYBODY | {Permission.DECIDE, Permission.LOG, Permission.RECORD},
    Role.VIEWER: _VIEWER,
    Role.PROPOSER: _VIEWER | {Permission.PROPOSE, Permission.COMMENT, Permission.PREFER},
    Role.APPROVER: _VIEWER
    | {
        Permission.APPROVE,
        Permission.RUN_GATE,
        Permission.CURATE,
        Permission.COMMENT,
        Permission.PREFER,
        Permission.FREEZE,
    },
    Role.ADMIN: _ALL - {Permission.MANAGE_TENANTS, Permission.EVALUATE},
    Role.EVALUATOR: _VIEWER | {Permission.EVALUATE, Permission.RUN_GATE, Permission.COMMENT},
    Role.TRAINER: _VIEWER | {Permission.PROPOSE, Permission.COMMENT},
    Role.ALARM: frozenset({Permission.ALARM}),
    Role.OPERATOR: _ALL,
}
"""What each role may do inside the tenants that its credential is bound to."""

NEEDS_PERSON = frozenset({Permission.APPROVE})
"""What no program may do on its own, whatever its role."""


def refusal(role: Role, permission: Permission, *, is_person: bool) -> str:
    """Say why a role may not do something in its own tenant, and what to do; empty where it may.

    >>> refusal(Role.APPROVER, Permission.APPROVE, is_person=True)
    ''
    >>> refusal(Role.VIEWER, Permission.APPROVE, is_person=True)
    'APPROVE is not a permission of role VIEWER: use a credential of role APPROVER, ADMIN or OPERATOR'
    """
    if permission not in GRANTS[role]:
        *most, last = (name.value for name in Role if permission in GRANTS[name])
        able = f"{', '.join(most)} or {last}" if most else last
        return f"{permission} is not a permission of role {role}: use a credential of role {able}"
    if permission in NEEDS_PERSON and not is_person:
        return f"{permission} takes a person: call with a person's token or key, not as a program"
    return ""


@dataclass(frozen=True, slots=True)
class Person:
    """A human being as an identity provider knows them; four eyes compare issuer and subject, and nothing else."""

    issuer: str
    subject: str

    def __post_init__(self) -> None:
        """Refuse what could be read as somebody else."""
        for field, text in (("issuer", self.issuer), ("subject", self.subject)):
            if not 1 <= len(text) <= MAX_PERSON_CHARACTERS or not text.isprintable():
                raise InvalidValue(f"{field} of a person", repr(text[:40]), "1 to 255 printable characters")
        if "#" in self.issuer or " " in self.issuer:
            raise InvalidValue("issuer of a person", repr(self.issuer[:40]), "an address without # and spaces")

    def __str__(self) -> str:
        """Write the person as the audit log does; two persons never look alike.

        >>> str(Person("https://login.example", "alice smith"))
        'person:https://login.example#alice%20smith'
        """
        return f"person:{self.issuer}#{quote(self.subject, safe='@:/|+=,.')}"


def person_in(actor: str) -> str:
    """Read the person who answers for an act out of an actor's name; empty where nobody is known to.

    >>> person_in("person:https://login.example#alice by service:console")
    'person:https://login.example#alice'
    >>> person_in("key:bot made by person:kedge#alice")
    'person:kedge#alice'
    >>> person_in("key:core-app")
    ''
    """
    if actor.startswith("person:"):
        return actor.partition(" by ")[0]
    return actor.rpartition(_MADE_BY)[2] if f"{_MADE_BY}person:" in actor else ""


@dataclass(frozen=True, slots=True)
class Maker:
    """Who made a credential, and so can act through it.

    Attributes:
        person: the human being, also where they made it through programs that they had made.
        is_operator: the operator did. Neither: it was made before this was kept, or by an identity provider.
    """

    person: Person | None = None
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls.

    Attributes:
        name: the program or credential that calls: "key:core-app", "cert:spiffe://...", "service:..."; empty for a
            person who calls with a token of their own.
        roles: what it is, by tenant; under None what it is in every tenant and over all at once, for operators and
            alarms.
        person: the human being it acts for; None for a program on its own.
        made_by: who made the credential; makers: the same by tenant, where it is bound to tenants one by one.
    """

    name: str
    roles: Mapping[TenantId | None, Role]
    person: Person | None = None
    made_by: Maker = Maker()
    makers: tuple[tuple[TenantId, Maker], ...] = ()

    @property
    def actor(self) -> Actor:
        """The name under which the principal stands in the audit log: the person, and what they came through.

        >>> alice = Person("https://login.example", "alice")
        >>> Principal("service:console", {}, alice).actor.name
        'person:https://login.example#alice by service:console'
        >>> Principal("key:bot", {}, made_by=Maker(alice)).actor.name
        'key:bot made by person:https://login.example#alice'
        """
        own, maker = self.name.replace(_MADE_BY, " made-by "), self.answering
        if self.person is not None:
            return Actor(f"{self.person} by {own}" if own else str(self.person))
        return Actor(own if maker.person is None else f"{own}{_MADE_BY}{maker.person}", maker.is_operator)

    @property
    def answering(self) -> Maker:
        """Who answers for what it does, and so has made the credentials that it makes: four eyes compare these.

        >>> Principal("key:operator", {None: Role.OPERATOR}).answering
        Maker(person=None, is_operator=True)
        """
        if self.person is not None:
            return Maker(self.person)
        return Maker(is_operator=True) if self.roles.get(None) is Role.OPERATOR else self.made_by

    @property
    def tenant(self) -> TenantId | None:
        """The only tenant it may name; None where there are several or all."""
        return next(iter(self.roles)) if len(self.roles) == 1 else None

    def within(self, tenant: TenantId | None) -> "Principal":
        """Give the principal as a tenant knows it: by who made its credential there."""
        if not self.makers:
            return self
        return replace(self, made_by=next((maker for bound, maker in self.makers if bound == tenant), Maker()))

    def is_trainer(self, tenant: TenantId) -> bool:
        """Say whether it trains in a tenant, and so must not be given reserved episodes."""
        return self.roles.get(tenant) is Role.TRAINER

    def check(self, permission: Permission, tenant: TenantId | None) -> None:
        """Refuse what the principal may not do; says nothing of whether the tenant exists.

        Args:
            tenant: the tenant that the call names; None where it concerns all of them.

        Raises:
            TenantDenied: the credential is bound to other tenants.
            PermissionDenied: the role does not include it, or it takes a person.
        """
        role = self.roles.get(tenant) or self.roles.get(None)
        if role is None:
            if tenant is not None:
                raise TenantDenied
            self.check_anywhere(permission)
            raise PermissionDenied("this concerns every tenant: use an operator's credential")
        if permission not in GRANTS[role] or permission in NEEDS_PERSON:
            self._refuse(role, permission)

    def check_anywhere(self, permission: Permission) -> None:
        """Refuse what the principal may do in none of its tenants. Raises PermissionDenied."""
        refused = [refusal(role, permission, is_person=self.person is not None) for role in self.roles.values()]
        if all(refused):
            raise PermissionDenied(refused[0])

    def _refuse(self, role: Role, permission: Permission) -> None:
        why = refusal(role, permission, is_person=self.person is not None)
        if why:
            raise PermissionDenied(why)
