"""A case is compared with few of many texts, and found near to the same ones as if it were compared with all."""

from hypothesis import given
from hypothesis import strategies as st

from kedge_bandit.domain.holdout import is_near, near_any

WORDS = st.frozensets(st.integers(0, 12), max_size=9)


@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6))
def test_few_comparisons_find_what_all_comparisons_find(
    cases: list[frozenset[int]], texts: list[frozenset[int]]
) -> None:
    assert near_any(cases, texts) == [any(is_near(case, text) for text in texts) for case in cases]
