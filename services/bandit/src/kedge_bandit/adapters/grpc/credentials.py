"""Know the caller by its API key, from the `authorization` metadata of gRPC or the header of the same name."""

from collections.abc import Iterable
from typing import Any, Final

from grpc import aio

from kedge_bandit.domain.api_key import StoredKey, split_key
from kedge_bandit.domain.errors import Unauthenticated
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Permission, Principal

MAX_CACHED: Final = 4096
_SCHEME: Final = "bearer "


class Keyring:
    """Recognise callers by the keys of the replica's snapshot; no I/O, one dictionary look-up once a key was seen."""

    def __init__(self, keys: Iterable[StoredKey] = ()) -> None:
        self._keys: dict[str, StoredKey] = {}
        self._known: dict[str, Principal] = {}
        self.replace(keys)

    def replace(self, keys: Iterable[StoredKey]) -> None:
        """Take over the keys as they stand in the store; one that is gone or revoked stops working at once."""
        live = {key.key_id: key for key in keys if not key.is_revoked}
        if live != self._keys:
            self._keys, self._known = live, {}

    def require(
        self, context: aio.ServicerContext[Any, Any], permission: Permission, tenant: TenantId | None
    ) -> Principal:
        """Admit the caller of a servicer's method.

        Args:
            permission: what the RPC declares.
            tenant: the tenant that the request names; None where it concerns all of them.

        Raises:
            Unauthenticated: there is no key, or it is unknown or revoked.
            TenantDenied: the key is bound to another tenant; unknown and foreign tenants look the same.
            PermissionDenied: the key's role does not include the permission.
        """
        principal = self.caller(context)
        principal.check(permission, tenant)
        return principal

    def caller(self, context: aio.ServicerContext[Any, Any]) -> Principal:
        """Find the principal of a call. Raises Unauthenticated."""
        for name, value in context.invocation_metadata() or ():
            if name == "authorization" and isinstance(value, str):
                return self.holder(value)
        return self.holder(None)

    def holder(self, authorization: str | None) -> Principal:
        """Find the principal of an `authorization` header. Raises Unauthenticated."""
        if authorization is None:
            raise Unauthenticated("send an API key in the metadata as `authorization: Bearer kdg_...`")
        return self._known.get(authorization) or self._recognise(authorization)

    def _recognise(self, authorization: str) -> Principal:
        scheme, key = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :].strip()
        parts = split_key(key) if scheme.lower() == _SCHEME else None
        stored = self._keys.get(parts[0]) if parts is not None else None
        if parts is None or stored is None or not stored.admits(parts[1]):
            raise Unauthenticated("this API key is unknown or revoked: ask for another one (`kedge key create`)")
        if len(self._known) >= MAX_CACHED:
            self._known.clear()
        holder = self._known[authorization] = stored.holder
        return holder
