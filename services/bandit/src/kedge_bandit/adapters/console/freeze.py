"""Pull the kill switch and let go again: of a policy, a tenant or everything; first what it touches, then a reason."""

from typing import Any

from starlette.responses import Response

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.adapters.console import reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED, status_of
from kedge_bandit.adapters.console.visit import Visit, moved

GLOBAL = "global"


def _name(visit: Visit) -> str:
    if visit.tenant is None:
        return GLOBAL
    policy = visit.request.path_params.get("policy")
    return f"tenants/{visit.tenant}/policies/{policy}" if policy else f"tenants/{visit.tenant}"


def _place(name: str) -> str:
    return "/" if name == GLOBAL else f"/{name}"


def _words(name: str) -> list[str]:
    """Name a level as the command line does."""
    return ["--everything"] if name == GLOBAL else name.split("/")[1::2]


async def _show(visit: Visit, verb: str, refusal: CallRefused | None = None) -> Response:
    name = _name(visit)
    facts: dict[str, Any] = {
        "section": "freeze",
        "name": name,
        "words_of": _words(name),
        "modes": await reading.mode_of(visit, name),
        "refusal": refusal,
        "back": _place(name),
    }
    facts |= await _reach(visit, name)
    if verb == "unfreeze":
        event = await reading.last_change(visit, visit.tenant, name) if visit.tenant is not None else None
        facts["stopper"] = event.actor if event is not None else ""
        facts["unowned"] = await _unowned(visit, name)
    return visit.show(f"{verb}.html", 200 if refusal is None else status_of(refusal), **facts)


async def _unowned(visit: Visit, name: str) -> list[Any]:
    """List incidents below a level that nobody has taken on: what an alarm froze goes on only after somebody has."""
    if visit.tenant is None:
        return []
    found = await reading.incidents_of(visit, visit.tenant)
    is_open = governance_service_pb2.INCIDENT_STATE_OPEN
    return [one for one in found if one.state == is_open and one.policy.startswith(name)]


async def _reach(visit: Visit, name: str) -> dict[str, Any]:
    """Count what a freeze at this level touches."""
    if name == GLOBAL:
        return {"tenants": len(await reading.tenants_of(visit)), "policies": None, "level": "everything"}
    if visit.tenant is not None and "/policies/" not in name:
        return {"tenants": 1, "policies": len(await reading.policies_of(visit, visit.tenant)), "level": "tenant"}
    return {"tenants": 1, "policies": 1, "level": "policy"}


async def ask(visit: Visit) -> Response:
    """Show what a freeze would touch, and ask for the reason."""
    return await _show(visit, "freeze")


async def ask_back(visit: Visit) -> Response:
    """Show what an unfreeze would do, and ask for the reason and for what becomes of quarantined evidence."""
    return await _show(visit, "unfreeze")


async def do(visit: Visit) -> Response:
    """Freeze."""
    name = _name(visit)
    request = governance_service_pb2.FreezeRequest(
        name=name, because=visit.form.get("because", ""), request_id=visit.form.get("request_id", "")
    )
    try:
        await visit.call(visit.backend.governance.Freeze, request)
    except CallRefused as error:
        return await _answer_refusal(visit, "freeze", error)
    visit.session.note("done", f"{_title(name)} is frozen: every decision from now on is the baseline.")
    return moved(_place(name))


async def undo(visit: Visit) -> Response:
    """Unfreeze."""
    name = _name(visit)
    choice = f"QUARANTINE_CHOICE_{visit.form.get('quarantine', 'keep').upper()}"
    choices = governance_service_pb2.QuarantineChoice
    request = governance_service_pb2.UnfreezeRequest(
        name=name,
        because=visit.form.get("because", ""),
        quarantine=choices.Value(choice) if choice in dict(choices.items()) else 0,  # type: ignore[arg-type]  # refused by the server
        request_id=visit.form.get("request_id", ""),
    )
    try:
        modes = await visit.call(visit.backend.governance.Unfreeze, request)
    except CallRefused as error:
        return await _answer_refusal(visit, "unfreeze", error)
    visit.session.note("done", f"{_title(name)} is in mode {wording.mode(modes.mode)} again.")
    return moved(_place(name))


async def _answer_refusal(visit: Visit, verb: str, error: CallRefused) -> Response:
    """Show the form again with what is wrong; what ends the session or the page is answered elsewhere."""
    if error.code in RETURNED and error.reason != "TENANT_DENIED":
        return await _show(visit, verb, error)
    raise error


def _title(name: str) -> str:
    return "Everything" if name == GLOBAL else wording.own_name(name)
