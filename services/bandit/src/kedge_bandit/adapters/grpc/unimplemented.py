"""Answer UNIMPLEMENTED, with its reason, for the RPCs whose turn comes later."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from kedge_bandit.adapters.grpc.status import STATUS_DETAILS_KEY, status_for

_Servicer = TypeVar("_Servicer", bound=type[object])

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

    async def unary(_servicer: object, _request: object, context: Any) -> None:
        await context.abort(code, status.message, trailing_metadata=details)

    async def stream(_servicer: object, _request: object, context: Any) -> AsyncIterator[None]:
        await context.abort(code, status.message, trailing_metadata=details)
        yield None  # never reached; it makes this a stream

    return stream if rpc.server_streaming else unary
