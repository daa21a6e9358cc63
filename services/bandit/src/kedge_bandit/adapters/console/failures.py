"""Say what went wrong, on a page, with what to do about it."""

from typing import Final

from starlette.responses import Response

from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.principal import GRANTS, Permission

_STATUS: Final = {
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": 404,
    "PERMISSION_DENIED": 403,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
RETURNED: Final = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "ABORTED", "ALREADY_EXISTS", "PERMISSION_DENIED")
"""Refusals of an action that are shown on the page where it was tried."""
LOST: Final = "Nothing here"
NOWHERE: Final = "There is no such page, or none for you."
"""The same words for what does not exist and for what belongs to somebody else."""
_TITLES: Final = {
    400: "That cannot be done so",
    403: "Not for you",
    409: "The state has changed",
    429: "Too much at once",
    501: "Not built yet",
    503: "The server does not answer",
    504: "The server did not answer in time",
}


def status_of(error: CallRefused) -> int:
    """Give the HTTP status of a refused call; a foreign tenant is one that does not exist."""
    return 404 if error.reason == "TENANT_DENIED" else _STATUS.get(error.code, 500)


def refused(visit: Visit, error: CallRefused) -> Response:
    """Show a refused call as a page."""
    status = status_of(error)
    if status == 404:
        return missing(visit)
    title = _TITLES.get(status, "Something broke in the server")
    facts = {"title": title, "sentence": str(error), "reason": error.reason, "roles": []}
    return visit.show("failure.html", status, **facts, again=status >= 409)


def missing(visit: Visit) -> Response:
    """Show that there is no such page."""
    return visit.show("lost.html", 404, title=LOST, sentence=NOWHERE)


def denied(visit: Visit, permission: Permission) -> Response:
    """Show that the role does not reach, and which would."""
    roles = [role.value for role in GRANTS if permission in GRANTS[role]]
    role = visit.session.role_in(visit.tenant)
    sentence = f"This takes the permission {permission}. Here you are {role or 'nobody'}."
    return visit.show(
        "failure.html",
        403,
        title=_TITLES[403],
        sentence=sentence,
        reason="PERMISSION_DENIED",
        roles=roles,
        again=False,
    )
