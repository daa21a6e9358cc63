"""Talk to a fleet server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

from contextlib import AbstractContextManager

from fleet_oversight_env.models import FleetAction, FleetObservation, FleetState
from fleet_oversight_env.session import Session, opened

FleetSession = Session[FleetAction, FleetObservation, FleetState]


def connected(url: str) -> AbstractContextManager[FleetSession]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    return opened(url, FleetAction, FleetObservation, FleetState)
