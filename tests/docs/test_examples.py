"""Run the manual's Python: every block is a session that runs here, or the program that the quickstart's test runs."""

import doctest
import io
from pathlib import Path

import pytest

from tests.docs.pages import MANUAL, blocks, text_of

PROGRAM_PAGE = Path("docs/quickstart.md")
SESSIONS = [page for page in MANUAL if any(">>> " in block for block in blocks(page, "python"))]


def test_every_python_block_is_run_somewhere() -> None:
    loose = [page for page in MANUAL for block in blocks(page, "python") if not block.startswith(">>> ")]
    assert loose == [PROGRAM_PAGE]


@pytest.mark.parametrize("page", SESSIONS, ids=str)
def test_the_examples_of_a_page_run(page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(text_of(page), {}, str(page), str(page), 0)
    said = io.StringIO()
    doctest.DocTestRunner(verbose=False).run(test, out=said.write)
    assert said.getvalue() == ""


def test_pages_that_promise_examples_have_some() -> None:
    assert {Path("docs/reward.md"), Path("docs/learning.md"), Path("docs/api.md")} <= set(SESSIONS)
