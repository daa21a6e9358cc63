"""What we wrote ourselves for an environment shares no run of eight words with an article that we set out from."""

from random import Random

import pytest

from call_audit_env.book import default
from call_audit_env.render import instructions
from call_audit_env.shapes import make, shapes
from kedge_trainer.adapters.environments import GROUNDS, load
from tests.architecture.tree import ROOT, project_files
from tests.envs.shingles import RUN, runs, shared_runs, source_hashes

WRITTEN = [name for name in GROUNDS if name in {"call_audit_env", "brief_routing_env"}]
SUFFIXES = {".py", ".md", ".toml", ".txt", ".json"}


def test_the_measure_finds_a_run_that_was_taken_and_no_other() -> None:
    taken = "one two three four five six seven eight nine"
    sources = frozenset(found for found, _ in runs(taken))
    assert len(sources) == len(taken.split()) - RUN + 1
    assert shared_runs(f"and then: {taken.title()}!", sources) == [run for _, run in runs(taken)]
    assert shared_runs("one two three four five six seven nine", sources) == []
    assert len(source_hashes()) > 10_000


@pytest.mark.parametrize("name", WRITTEN)
def test_no_file_of_an_environment_shares_a_run_of_words_with_the_articles(name: str) -> None:
    sources, folder = source_hashes(), ROOT / "services/rl-trainer/envs" / name
    files = [ROOT / path for path in project_files() if (ROOT / path).is_relative_to(folder)]
    assert len(files) > 20
    texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.suffix in SUFFIXES}
    assert {name: found for name, text in texts.items() if (found := shared_runs(text, sources))} == {}
    assert [run for task in load(name).TASKS for run in shared_runs(load(name).instructions(task), sources)] == []


def test_no_call_shares_a_run_of_words_with_the_articles() -> None:
    sources = source_hashes()
    for shape in shapes().values():
        for number, active in enumerate([frozenset(shape.faults), frozenset[str]()] * 3):
            call = make(shape, active, default(), call_id="x", draw=Random(number) if number > 1 else None)
            assert shared_runs(" ".join(turn.text for turn in call.turns) + call.summary, sources) == []
    assert shared_runs(instructions("audit"), sources) == []
