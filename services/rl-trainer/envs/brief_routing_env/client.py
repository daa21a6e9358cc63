"""Talk to a briefing server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

from contextlib import AbstractContextManager

from brief_routing_env.models import BriefAction, BriefObservation, BriefState
from brief_routing_env.session import Session, opened

BriefSession = Session[BriefAction, BriefObservation, BriefState]


def connected(url: str) -> AbstractContextManager[BriefSession]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    return opened(url, BriefAction, BriefObservation, BriefState)
