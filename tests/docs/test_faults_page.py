"""The page of faults has what the test of faults injects."""

from tests.docs.pages import rows, text_of
from tests.trust.faults import CASES


def test_every_fault_has_its_row() -> None:
    assert [row[0].partition(": ")[0] for row in rows("faults.md", "What was seen")] == list(CASES)


def test_no_row_says_that_something_acknowledged_was_lost() -> None:
    assert {row[-1].rpartition(", ")[2] for row in rows("faults.md", "What was seen")} == {"0"}


def test_the_page_is_found_from_the_index_and_the_runbooks() -> None:
    assert all("](faults.md" in text_of(page) for page in ("index.md", "operations.md"))
