"""Answer UNIMPLEMENTED, with its reason, for the RPCs whose turn comes later; to callers who may call them."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import STATUS_DETAILS_KEY, Context, answering, status_for

_Servicer = TypeVar("_Servicer", bound=type[object])


class _Keyed(Protocol):
    """A servicer that knows its callers."""

    @property
    def keyring(self) -> Keyring:
        """What knows them."""


ANSWER: Final = "this server does not implement {rpc} yet: use a newer one, or leave it out"


def completing(service: ServiceDescriptor) -> Callable[[_Servicer], _Servicer]:
    """Decorate a servicer's class: RPCs of its service that it does not define itself are answered UNIMPLEMENTED."""

    def complete(servicer: _Servicer) -> _Servicer:
        for rpc in service.methods:
            if rpc.name not in vars(servicer):
                setattr(servicer, rpc.name, _answer(rpc))
        return servicer

    return complete


def _answer(rpc: MethodDescriptor) -> Callable[..., Any]:
    code, status = status_for("UNIMPLEMENTED", ANSWER.format(rpc=rpc.name))
    details = ((STATUS_DETAILS_KEY, status.SerializeToString()),)
    permission = permissions_of(rpc.containing_service.name)[rpc.name]

    @answering
    async def unary(servicer: _Keyed, _request: object, context: Context) -> None:
        servicer.keyring.caller(context).check_anywhere(permission)
        await context.abort(code, status.message, trailing_metadata=details)

    @answering
    async def stream(servicer: _Keyed, _request: object, context: Context) -> AsyncIterator[None]:
        servicer.keyring.caller(context).check_anywhere(permission)
        await context.abort(code, status.message, trailing_metadata=details)
        yield  # type: ignore[unreachable]  # it makes this a stream

    return stream if rpc.server_streaming else unary
