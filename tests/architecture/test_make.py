"""Keep the Makefile's verbs, the documents that name them and CI in step."""

import re
import subprocess

from tests.architecture.tree import ROOT, project_files

VERBS = {
    "setup", "proto", "demo", "test", "lint", "types", "contracts", "bench", "format", "lock", "clean", "golden",
    "test-system-deps", "help", "envs",
}  # fmt: skip


def documented_verbs() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):.*## \S", makefile, re.MULTILINE))


def test_every_promised_verb_exists_and_explains_itself() -> None:
    assert VERBS - documented_verbs() == set()


def test_help_lists_every_documented_verb() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {verb for verb in documented_verbs() if not re.search(rf"^  {verb} ", listed, re.MULTILINE)} == set()


def test_documents_name_only_verbs_that_exist() -> None:
    named = {}
    for path in project_files():
        if path.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            for verb in re.findall(r"(?:`|^\$ |&& )make ([a-z][a-z-]*)", text, re.MULTILINE):
                named[verb] = str(path)
    assert {verb: path for verb, path in named.items() if verb not in documented_verbs()} == {}


def test_continuous_integration_runs_what_a_developer_runs() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert script.rstrip().endswith("make test-system-deps\nmake test")
