"""Freeze what a firing alert names: the receiver of Alertmanager's webhook, whose credential can do nothing else.

An alert that stops a policy says so by its label `stops`; whatever else comes here is answered and left alone. One
alert freezes once: sent again, also after a person let the policy go on, it changes nothing until it fires anew.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.rest.calls import read_body
from kedge_bandit.adapters.rest.status import RequestRefused
from kedge_bandit.application.administration_ports import WriteId
from kedge_bandit.application.govern import Order
from kedge_bandit.application.heed_alert import HeedAlert
from kedge_bandit.domain.errors import (
    InvalidName,
    PermissionDenied,
    PolicyNotFound,
    TenantDenied,
    Unauthenticated,
)
from kedge_bandit.domain.identifiers import parse_policy
from kedge_bandit.domain.principal import Permission, Principal

PATH: Final = "/alerts/v1/freeze"
STOPS: Final = ("stops", "policy")
"""Label and value of an alert that freezes the policy it names."""
MAX_ALERTS: Final = 100
MAX_BECAUSE: Final = 500

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Alert:
    """A firing alert: what it is called, the policy it names as a resource, what it says, and which one it is."""

    name: str
    subject: str
    says: str
    key: str

    def order(self, caller: Principal) -> Order:
        """Ask for the freeze, once for this alert."""
        because = f"alert {self.name}: {self.says}" if self.says else f"alert {self.name} fires"
        printable = "".join(filter(str.isprintable, because))
        return Order(caller.actor, printable[:MAX_BECAUSE], WriteId(self.key, self.key))


@dataclass(frozen=True, slots=True)
class Alerts:
    """Take what Alertmanager sends."""

    keyring: Keyring
    heed: HeedAlert

    def routes(self) -> Sequence[BaseRoute]:
        """Give the route to add to an application."""
        return (Route(PATH, self.receive, methods=["POST"]),)

    async def receive(self, request: Request) -> Response:
        """Freeze every policy that a firing alert names, and say what became of each.

        Where the database does not answer that is 500, and Alertmanager sends it again.
        """
        try:
            caller = await self.keyring.newest_holder(request.headers.get("authorization"))
            caller.check_anywhere(Permission.ALARM)
            alerts = list(_firing(orjson.loads(await read_body(request.scope, request.receive))))
        except Unauthenticated as error:
            return _answer(401, {"error": str(error)})
        except PermissionDenied as error:
            return _answer(403, {"error": str(error)})
        except RequestRefused as refused:
            return refused.failure.response()
        except (orjson.JSONDecodeError, TypeError, ValueError) as error:
            return _answer(400, {"error": f"this is not a message of Alertmanager's webhook: {error}"})
        done = {alert.subject: await self._freeze(alert, caller) for alert in alerts}
        return _answer(200, {"policies": done})

    async def _freeze(self, alert: _Alert, caller: Principal) -> str:
        try:
            tenant, policy = parse_policy(alert.subject)
            caller.check(Permission.ALARM, tenant)
            if not await self.heed(tenant, policy, alert.order(caller.within(tenant))):
                return "UNCHANGED"
        except (InvalidName, TenantDenied, PolicyNotFound):  # one that names nothing keeps no other from its freeze
            return "NOT_FOUND"
        log.warning("alert.frozen", alert=alert.name, tenant=tenant, policy=policy)
        return "FROZEN"


def _firing(message: object) -> Iterable[_Alert]:
    """Read the alerts that fire and stop a policy out of a message.

    Raises:
        TypeError: it is of another shape; ValueError: it holds too many.
    """
    alerts = _mapping(message).get("alerts")
    if not isinstance(alerts, list):
        raise TypeError("it has no list `alerts`")
    if len(alerts) > MAX_ALERTS:
        raise ValueError(f"it holds {len(alerts)} alerts; set max_alerts to {MAX_ALERTS}")
    for found in map(_mapping, alerts):
        labels = _mapping(found.get("labels"))
        if found.get("status") != "firing" or labels.get(STOPS[0]) != STOPS[1]:
            continue
        which = f"{_text(found, 'fingerprint')} {_text(found, 'startsAt')}"
        yield _Alert(
            _text(labels, "alertname"),
            f"tenants/{_text(labels, 'tenant')}/policies/{_text(labels, 'policy')}",
            _text(_mapping(found.get("annotations", {})), "summary"),
            hashlib.sha256(which.encode()).hexdigest(),
        )


def _text(of: Mapping[str, object], name: str) -> str:
    value = of.get(name, "")
    if not isinstance(value, str):
        raise TypeError(f"`{name}` is no text")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("an object is missing")
    return value


def _answer(status: int, content: object) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type="application/json")
