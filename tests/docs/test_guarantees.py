"""A guarantee of the manual names a test, and that test exists and runs in `make test`."""

import ast

import pytest

from tests.architecture.tree import ROOT
from tests.docs.pages import code, text_of

ROWS = [line.strip("| ").split(" | ") for line in text_of("guarantees.md").splitlines() if line.startswith("| ")]
PROOFS = [(said, code(proof)[0]) for said, proof in ROWS if said != "guarantee"]


def test_the_page_has_guarantees() -> None:
    assert len(PROOFS) > 30
    assert len({said for said, _ in PROOFS}) == len(PROOFS)


@pytest.mark.parametrize(("said", "proof"), PROOFS, ids=lambda part: str(part)[:60])
def test_a_guarantee_is_proved_by_a_test_that_exists(said: str, proof: str) -> None:
    path, _, name = proof.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in functions, f"{said}: {proof} does not exist"
    skipped = [ast.unparse(mark) for mark in functions[name].decorator_list if "skip" in ast.unparse(mark)]
    assert not skipped, f"{said}: {proof} is skipped"
