"""`kedge demo environments`, in small: from an empty folder, through a real service, to the page and the table."""

import json
import os
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest

from kedge_demo.environments.streams import turns_at
from tests.fixtures.database import open_folder

pytestmark = pytest.mark.slow

KEDGE = Path(sys.executable).parent / "kedge"
SECONDS = 400.0
SMALLEST = 0.01


def test_the_environments_are_played_measured_and_shown_from_an_empty_folder() -> None:
    with open_folder() as folder:
        out = folder / "demo"
        command = [str(KEDGE), "demo", "environments", "--out", str(out), "--scale", str(SMALLEST), "--json"]
        ended = subprocess.run(
            command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stderr + ended.stdout
        report = json.loads((out / "environments" / "report.json").read_text(encoding="utf-8"))
        page = (out / "environments.html").read_text(encoding="utf-8")
    assert [stream["turns"] for stream in report["streams"]] == [turns_at(SMALLEST)] * 3
    assert [check["passed"] for check in report["checks"]] == [True] * 5
    assert all(escape(check["name"]) in page for check in report["checks"])
