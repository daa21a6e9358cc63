"""Each tenant has its own memory, its own right numbers, and citations that resolve nowhere else."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brief_routing_env.episode import Episode
from brief_routing_env.ledger import Fill
from brief_routing_env.reports import KEYWORDS
from brief_routing_env.retrieval import FOUND, PREFIX, SNIPPET, Chunk, Index, foreign, index_of, tenants, tokens
from brief_routing_env.rubric import components
from brief_routing_env.scenarios import PLAIN, case_of
from brief_routing_env.tasks import Expert
from tests.envs.brief.play import CLOSE, DEV, EVERYBODY, action, played
from tests.trust.size import of

words = st.lists(st.sampled_from(["trailing", "months", "price", "memo", "band", "plan"]), max_size=6).map(" ".join)


def test_two_tenants_hold_contradictory_rules() -> None:
    assert tenants() == ("default", "harbour")
    ours, theirs = (index_of(tenant).rules() for tenant in tenants())
    assert (ours.fill, ours.months, ours.band, ours.on_plan) == (Fill.CATEGORY_MEDIAN, 3, 0.15, 2.0)
    assert (theirs.fill, theirs.months, theirs.band, theirs.on_plan) == (Fill.CATEGORY_MEAN, 6, 0.10, 5.0)


@pytest.mark.parametrize("tenant", tenants())
@pytest.mark.parametrize("task", PLAIN)
def test_every_expert_finds_the_rule_that_its_numbers_need(task: str, tenant: str) -> None:
    desk = case_of(task, DEV, rag=True, tenant=tenant).desk
    whole = index_of(tenant).rules()
    assert desk.rules(desk.recall(KEYWORDS[Expert.ANALYST])).fill == whole.fill
    found = desk.rules(desk.recall(KEYWORDS[Expert.FINANCE]))
    assert (found.months, found.band, found.on_plan) == (whole.months, whole.band, whole.on_plan)


@pytest.mark.parametrize("tenant", tenants())
def test_each_tenant_gets_its_own_numbers_and_they_are_right(tenant: str) -> None:
    for task in PLAIN[1:6]:
        for seed in range(DEV, DEV + of(2, 100)):
            episode, _ = played(task, *EVERYBODY, *CLOSE, seed=seed, rag=True, tenant=tenant)
            assert episode.metrics()["grade"] == 0.999


def test_the_same_file_is_projected_differently_by_each_tenant() -> None:
    for seed in range(DEV, DEV + of(10, 200)):
        ours, theirs = (case_of("hard_brief", seed, tenant=tenant).truth for tenant in tenants())
        projections = [float(one["projection_next_quarter"]) for one in (ours, theirs)]
        assert abs(projections[0] / projections[1] - 1.0) > 0.02


@pytest.mark.parametrize("profile", ["v2", "compat"])
def test_reports_written_from_another_tenants_memory_are_neither_right_nor_grounded(profile: str) -> None:
    """As if the retriever leaked: the numbers follow the wrong house, and no citation of it resolves."""
    case = case_of("hard_brief" if profile == "v2" else "hard_brief-compat", DEV, rag=True)
    leaking = replace(case, index=index_of("harbour"))
    episodes = [Episode(one) for one in (case, leaking)]
    for words in (*EVERYBODY, *CLOSE):
        for episode in episodes:
            episode.step(action(words))
    right, wrong = (components(episode.world) for episode in episodes)
    assert (right.grounding, wrong.grounding) == (1.0, 0.0)
    if profile == "v2":
        assert wrong.metrics < right.metrics == 1.0


def test_no_citation_of_one_tenant_resolves_in_another() -> None:
    for one in tenants():
        for other in tenants():
            for chunk in index_of(one).chunks:
                resolved = index_of(other).resolve(chunk.citation)
                assert (resolved is not None) == (one == other)
                assert (foreign(f"as {chunk.citation} has it", other) is None) == (one == other)


def test_whatever_a_report_cites_resolves_in_its_tenants_memory() -> None:
    for tenant in tenants():
        episode, _ = played("crisis_brief-rag", *EVERYBODY, "ask hr name_variance", tenant=tenant)
        for report in episode.world.reports.values():
            assert report.memory_citations
            assert all(index_of(tenant).resolve(citation) for citation in report.memory_citations)
            assert all(len(snippet) <= SNIPPET for snippet in report.memory_snippets)


def test_with_memory_off_nothing_of_it_is_shown() -> None:
    episode, _ = played("crisis_brief", *EVERYBODY)
    assert PREFIX not in str(episode.observe())


def test_scores_are_bm25s_by_hand() -> None:
    """Two chunks, 2 and 4 words: idf ln(1 + 1.5/1.5) for a word in one of them, lengths weighed by .75."""
    index = Index("t", [Chunk("t/a.md#chunk0", "price median"), Chunk("t/b.md#chunk0", "price plan memo board")])
    (first, _), (second, _) = index.weigh("median")
    assert (round(first, 6), second) == (round(0.693147 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 3)), 6), 0.0)


def test_ties_go_to_the_lower_id() -> None:
    same = [Chunk(f"t/{name}.md#chunk0", "price median") for name in "cab"]
    assert [chunk.id for chunk in Index("t", same).search("price")] == ["t/a.md#chunk0", "t/b.md#chunk0"]


@given(query=words, other=words)
def test_more_words_never_lower_a_score_and_at_most_two_chunks_come(query: str, other: str) -> None:
    index = index_of("default")
    found = index.search(query)
    assert len(found) <= FOUND
    assert all(set(tokens(chunk.text)) & set(tokens(query)) for chunk in found)
    before, after = ({chunk.id: score for score, chunk in index.weigh(text)} for text in (query, f"{query} {other}"))
    assert all(after[one] >= before[one] - 1e-12 for one in before)
