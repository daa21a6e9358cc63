"""Talk to a relocation server by the OpenEnv protocol, with the types of this environment and without OpenEnv."""

from contextlib import AbstractContextManager

from relocation_env.models import RelocationAction, RelocationObservation, RelocationState
from relocation_env.session import Session, opened

RelocationSession = Session[RelocationAction, RelocationObservation, RelocationState]


def connected(url: str) -> AbstractContextManager[RelocationSession]:
    """Hold a session with the server at an http(s) address; leaving the block ends it."""
    return opened(url, RelocationAction, RelocationObservation, RelocationState)
