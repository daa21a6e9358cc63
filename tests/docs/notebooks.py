"""Run the notebooks; `python -m tests.docs.notebooks` does so at full size and keeps what they print."""

import ast
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tests.architecture.tree import ROOT

FOLDER = ROOT / "docs/notebooks"
SMALL = "KEDGE_NOTEBOOK_SMALL"
"""Set to 1, a notebook plays a handful of episodes."""


def read(file: Path) -> dict[str, Any]:
    """Read a notebook."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def run(notebook: dict[str, Any]) -> list[str]:
    """Run the code cells in order, in one namespace, and give what each printed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]), filename=f"cell {number}")
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(tree, f"cell {number}", "exec"), namespace)  # noqa: S102 - the project's own notebook
            printed.append(out.getvalue())
    return printed


def main(names: list[str]) -> None:
    """Run the named notebooks, or all, at full size and write their outputs into them."""
    os.environ.pop(SMALL, None)
    for file in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        notebook = read(file)
        outputs = iter(run(notebook))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                text = next(outputs)
                lines = text.splitlines(keepends=True)
                cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
        file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        sys.stdout.write(f"{file.name}: done\n")


if __name__ == "__main__":
    main(sys.argv[1:])
