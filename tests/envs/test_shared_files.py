"""What several environments need alike is a file of the same text in each of them, and stays one.

An environment's folder installs and runs alone, on nobody of ours (ADR 0008), so there is no package to share it from.
"""

import pytest

from kedge_trainer.adapters.environments import GROUNDS
from tests.architecture.tree import ROOT

SHARED = ("answer.py", "session.py", "server/messages.py", "server/sessions.py", "server/splits.py")
"""An environment may lack one that it does not need; under its name there is nothing else."""


@pytest.mark.parametrize("path", SHARED)
def test_a_shared_file_is_the_same_in_every_environment_that_has_it(path: str) -> None:
    files = {name: ROOT / "services/rl-trainer/envs" / name / path for name in GROUNDS}
    texts = {name: file.read_bytes() for name, file in files.items() if file.exists()}
    assert len(texts) >= 2
    first = next(iter(texts))
    assert [name for name, text in texts.items() if text != texts[first]] == [], f"not as in {first}: change all alike"
