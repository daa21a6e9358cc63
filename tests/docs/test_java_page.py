"""The Java that the manual shows is the Java that is compiled and tested, and every bridge has its row."""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.pages import blocks, code, rows, text_of

PAGE = "java.md"
CLIENT = ROOT / "proto/clients/java"
BRIDGES = CLIENT / "src/test/java/dev/kedge/bridges"
README = Path("proto/clients/java/README.md")
PARTS = {"Turn", "Chain", "Blocked", "KedgeConfiguration"}
"""Classes of the bridges' folder that are no bridge: what bridges share, and how they are wired."""


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(CLIENT.rglob("src/**/*.java")))


@pytest.mark.parametrize(
    "block", [*blocks(PAGE, "java"), *blocks(README, "java")], ids=lambda block: block[:40].strip()
)
def test_a_snippet_of_java_is_part_of_a_file_that_is_compiled(block: str) -> None:
    # The program of the quick start is compiled and run by tests/trust/test_java_client.py.
    assert "public class FirstTurn" in block or block in sources()


def test_every_bridge_has_its_row_and_a_snippet() -> None:
    named = {
        name for row in rows(PAGE, "Where an agent platform meets Kedge") for cell in row[2:] for name in code(cell)
    }
    built = {path.stem for path in BRIDGES.glob("*.java") if not path.stem.endswith("Test")}
    assert built - PARTS <= named
    assert named <= built
    shown = "\n".join(blocks(PAGE, "java"))
    tested = "\n".join(path.read_text(encoding="utf-8") for path in BRIDGES.glob("*Test.java"))
    for name in built - PARTS:
        lines = (BRIDGES / f"{name}.java").read_text(encoding="utf-8").splitlines()
        own = [line for line in lines if len(line.strip()) > 30 and not line.startswith("import")]
        assert any(line in shown for line in own), f"no snippet of {name}"
        assert name in tested, f"no test of {name}"


def test_the_readme_names_every_public_word() -> None:
    text = text_of(README)
    for name in ("Kedge", "OutcomeMaker", "KedgeBuilder"):
        source = (CLIENT / f"src/main/java/dev/kedge/client/{name}.java").read_text(encoding="utf-8")
        words = re.findall(r"^    public (?!static final|class|record)[\w<>., ]+? (\w+)\(", source, re.MULTILINE)
        assert [word for word in words if f"{word}(" not in text] == [], name
