"""Know the caller by API key, by token or by the certificate of the connection; no I/O, and once known a look-up."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from grpc import aio

from kedge_bandit.adapters.identity.proof import (
    BindingUnknown,
    Certificate,
    CredentialUnknown,
    Look,
    MayBeNew,
    ReadCertificate,
    Tokens,
)
from kedge_bandit.domain.api_key import PREFIX, StoredKey, split_key
from kedge_bandit.domain.errors import TenantDenied, Unauthenticated
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.identity import Binding, certificate_holder
from kedge_bandit.domain.principal import Maker, Permission, Principal

MAX_CACHED: Final = 4096
_SCHEME: Final = "bearer "
_CERTIFICATE: Final = "x509_pem_cert"
_NEVER: Final = float("inf")

UNKNOWN_KEY: Final = "this API key is unknown or revoked: ask for another one (`kedge key create`)"
NO_CREDENTIAL: Final = "send an API key or a token in the metadata as `authorization: Bearer ...`"


async def _nowhere() -> bool:
    return False


class Keyring:
    """Recognise callers by the keys and bindings of the process's view, and by what an issuer signed.

    Whom it does not know may be newer than the view: the refusal offers to `look`, where the view comes from.

    Args:
        tokens: verifies bearer tokens; None: there are none.
        certificates: reads clients' certificates; None: there are none.
        now: seconds since the Unix epoch.
    """

    def __init__(
        self,
        keys: Iterable[StoredKey] = (),
        bindings: Iterable[Binding] = (),
        *,
        tokens: Tokens | None = None,
        certificates: ReadCertificate | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._keys: dict[str, StoredKey] = {}
        self._bindings: tuple[Binding, ...] = ()
        self._known: dict[str | bytes, tuple[Principal, float]] = {}
        self._certificates: dict[bytes, Certificate] = {}
        self._tokens, self._read_certificate, self._now = tokens, certificates, now
        self.look: Look = _nowhere
        self.replace(keys, bindings)

    def replace(self, keys: Iterable[StoredKey], bindings: Iterable[Binding] = ()) -> None:
        """Take over keys and bindings as they stand in the store; one that is gone or revoked ends at once."""
        live, bound = {key.key_id: key for key in keys if not key.is_revoked}, tuple(bindings)
        if (live, bound) != (self._keys, self._bindings):
            self._keys, self._bindings = live, bound
            self.forget()

    def forget(self) -> None:
        """Verify everything anew, as when an issuer's keys have changed."""
        self._known = {}

    def require(
        self, context: aio.ServicerContext[Any, Any], permission: Permission, tenant: TenantId | None
    ) -> Principal:
        """Admit the caller of a servicer's method.

        Args:
            permission: what the RPC declares.
            tenant: the tenant that the request names; None where it concerns all of them.

        Raises:
            Unauthenticated: there is no credential, or it is unknown, revoked, expired or not good.
            TenantDenied: the credential is bound to other tenants; unknown and foreign tenants look the same.
            PermissionDenied: the role does not include the permission.
        """
        principal = self.caller(context)
        try:
            principal.check(permission, tenant)
        except TenantDenied as error:
            if principal.makers:  # bound to tenants one by one, and perhaps to this one a moment ago
                raise BindingUnknown(self.look) from error
            raise
        return principal.within(tenant)

    def caller(self, context: aio.ServicerContext[Any, Any]) -> Principal:
        """Find the principal of a call: by its metadata, else by its certificate. Raises Unauthenticated.

        A person's own token that comes over a connection with a certificate was passed on by that certificate's holder.
        """
        for name, value in context.invocation_metadata() or ():
            if name == "authorization" and isinstance(value, str):
                principal = self.holder(value)
                return principal if principal.name else self._passed_on(context, principal)
        pem = self._certificate_of(context)
        if pem is None:
            raise Unauthenticated(NO_CREDENTIAL)
        return self._good(pem) or self._bound(pem)

    def holder(self, authorization: str | None) -> Principal:
        """Find the principal of an `authorization` header. Raises Unauthenticated."""
        if authorization is None:
            raise Unauthenticated(NO_CREDENTIAL)
        return self._good(authorization) or self._recognise(authorization)

    async def newest_holder(self, authorization: str | None) -> Principal:
        """Find the principal as `holder` does, and look once more for who may be new. Raises Unauthenticated."""
        try:
            return self.holder(authorization)
        except MayBeNew as error:
            if not await error.may_try_again():
                raise
            return self.holder(authorization)

    def _good(self, credential: str | bytes) -> Principal | None:
        known = self._known.get(credential)
        return known[0] if known is not None and self._now() < known[1] else None

    def _recognise(self, authorization: str) -> Principal:
        scheme, credential = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :].strip()
        if scheme.lower() != _SCHEME:
            raise Unauthenticated(NO_CREDENTIAL)
        if self._tokens is not None and not credential.startswith(PREFIX):
            return self._remember(authorization, *self._tokens.verify(credential))
        return self._remember(authorization, *self._key_holder(credential))

    def _key_holder(self, key: str) -> tuple[Principal, float]:
        parts = split_key(key)
        stored = self._keys.get(parts[0]) if parts is not None else None
        if parts is not None and stored is None:
            raise CredentialUnknown(UNKNOWN_KEY, self.look)
        if parts is None or stored is None or not stored.admits(parts[1]):
            raise Unauthenticated(UNKNOWN_KEY)
        until = _NEVER if stored.expire_time is None else stored.expire_time.timestamp()
        if self._now() >= until:
            raise Unauthenticated("this API key has expired: ask for another one (`kedge key create`)")
        if self._tokens is None:
            return stored.holder, until
        # Where people sign on they come by token alone; a second key would make a second person of them.
        # It counts as a program of that person's.
        known = stored.made_by if stored.person is None else Maker(stored.person)
        return replace(stored.holder, person=None, made_by=known), until

    def _bound(self, pem: bytes) -> Principal:
        certificate = self._read(pem)
        if self._now() >= certificate.until:
            raise Unauthenticated("the certificate of this connection has expired: connect again with a new one")
        try:
            holder = certificate_holder(certificate.name, self._bindings)
        except Unauthenticated as error:
            raise CredentialUnknown(str(error), self.look) from error
        return self._remember(pem, holder, certificate.until)

    def _passed_on(self, context: aio.ServicerContext[Any, Any], person: Principal) -> Principal:
        pem = self._certificate_of(context)
        return person if pem is None else replace(person, name=f"cert:{self._read(pem).name}")

    def _certificate_of(self, context: aio.ServicerContext[Any, Any]) -> bytes | None:
        """Give the client certificate that the handshake verified; None on a connection without one."""
        if self._read_certificate is None:
            return None
        return next(iter(context.auth_context().get(_CERTIFICATE, ())), None)

    def _read(self, pem: bytes) -> Certificate:
        found = self._certificates.get(pem)
        if found is None and self._read_certificate is not None:
            if len(self._certificates) >= MAX_CACHED:
                self._certificates.clear()
            found = self._certificates[pem] = self._read_certificate(pem)
        if found is None:
            raise Unauthenticated(NO_CREDENTIAL)
        return found

    def _remember(self, credential: str | bytes, principal: Principal, until: float) -> Principal:
        if len(self._known) >= MAX_CACHED:
            self._known.clear()
        self._known[credential] = principal, until
        return principal
