"""Remember who is logged in: in memory only, so that no credential leaves the console and a restart ends all."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import GRANTS, NEEDS_PERSON, Permission, Person, Role, person_in

COOKIE: Final = "__Host-kedge"
LONGEST_SECONDS: Final = 12 * 3600.0
"""A working day; a credential that ends sooner ends the session with it."""
MOST_SESSIONS: Final = 10_000
_NOTES_KEPT: Final = 5


@dataclass(slots=True, kw_only=True)
class Session:
    """One person's, or one operator's, time at the console.

    Attributes:
        person: None for an operator's key, which stands for nobody in particular.
        roles: as the credential says them; under None what it is in every tenant.
        bearers: the credential for each of `roles`.
        until: end, in seconds since the Unix epoch.
        streams: pages that are kept up to date just now.
        notes: what to say once on the next page: kind ("done" or "refused") and sentence.
    """

    person: Person | None
    roles: Mapping[TenantId | None, Role]
    bearers: Mapping[TenantId | None, str]
    until: float
    streams: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Name who it is, as people call them."""
        return self.person.subject if self.person is not None else "operator"

    @property
    def is_everywhere(self) -> bool:
        """Whether it is an operator's."""
        return None in self.roles

    def role_in(self, tenant: TenantId | None) -> Role | None:
        """Give the role in a tenant, None where there is none; of tenant None the one over everything."""
        return self.roles.get(tenant) or self.roles.get(None)

    def bearer_for(self, tenant: TenantId | None) -> str:
        """Give the credential for a tenant. Raises KeyError where there is none."""
        return self.bearers[tenant if tenant in self.bearers else None]

    def may(self, permission: Permission, tenant: TenantId | None) -> bool:
        """Say whether the server would allow something, to show only what can be done; the server decides."""
        role = self.role_in(tenant)
        if role is None or permission not in GRANTS[role]:
            return False
        return self.person is not None or permission not in NEEDS_PERSON

    def is_by(self, actor: str) -> bool:
        """Say whether an actor of the audit log is this person, through whatever door."""
        return self.person is not None and person_in(actor) == str(self.person)

    def note(self, kind: str, sentence: str) -> None:
        """Have something said on the next page."""
        self.notes = [*self.notes, (kind, sentence)][-_NOTES_KEPT:]

    def take_notes(self) -> list[tuple[str, str]]:
        """Give what is to be said, once."""
        notes, self.notes = self.notes, []
        return notes


@dataclass(slots=True)
class Sessions:
    """All of them by the secret in their cookie; the oldest goes when there are too many."""

    now: Callable[[], float] = time.time
    _open: OrderedDict[str, Session] = field(default_factory=OrderedDict)

    def begin(self, session: Session) -> str:
        """Open a session, at most a working day long; gives the secret of its cookie."""
        session.until = min(session.until, self.now() + LONGEST_SECONDS)
        secret = secrets.token_urlsafe(32)
        self._open[secret] = session
        while len(self._open) > MOST_SESSIONS:
            self._open.popitem(last=False)
        return secret

    def find(self, secret: str | None) -> Session | None:
        """Find a session that has not ended."""
        session = self._open.get(secret or "")
        if session is not None and self.now() >= session.until:
            self.end(secret)
            return None
        return session

    def end(self, secret: str | None) -> None:
        """Close a session; one that is not open is closed already."""
        self._open.pop(secret or "", None)
