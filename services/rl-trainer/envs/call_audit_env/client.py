"""Talk to a call audit server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

from contextlib import AbstractContextManager

from call_audit_env.models import AuditAction, AuditObservation, AuditState
from call_audit_env.session import Session, opened

AuditSession = Session[AuditAction, AuditObservation, AuditState]


def connected(url: str) -> AbstractContextManager[AuditSession]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    return opened(url, AuditAction, AuditObservation, AuditState)
