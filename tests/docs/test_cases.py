"""Every case of a fault elsewhere names tests here, and they exist and run in `make test`."""

import ast

import pytest

from tests.architecture.tree import ROOT
from tests.docs.pages import code, text_of

CASES = 46
ROWS = [line.strip("| ").split(" | ") for line in text_of("cases.md").splitlines() if line.startswith("| ")][1:]


def test_every_case_is_there_once_in_order() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, CASES + 1))
    assert all(len(row) == 4 and code(row[3]) for row in ROWS)


@pytest.mark.parametrize(("number", "proof"), [(row[0], proof) for row in ROWS for proof in code(row[3])])
def test_the_test_of_a_case_exists_and_is_not_skipped(number: str, proof: str) -> None:
    path, _, name = proof.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in functions, f"case {number}: {proof} does not exist"
    skipped = [ast.unparse(mark) for mark in functions[name].decorator_list if "skip" in ast.unparse(mark)]
    assert not skipped, f"case {number}: {proof} is skipped"
