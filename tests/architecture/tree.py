"""Give the architecture tests one view of the project: which files count, and what their syntax trees hold."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def project_files() -> tuple[Path, ...]:
    """List what is committed or about to be: everything that git does not ignore, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = sorted(set(listed.split("\0")) - {""})
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    """List the project's Python files under `folders`, or all of them."""
    chosen = [path for path in project_files() if path.suffix == ".py"]
    if not folders:
        return chosen
    return [path for path in chosen if any(path.is_relative_to(folder) for folder in folders)]


@cache
def syntax(path: Path) -> ast.Module:
    """Parse one file once."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Walk all functions with their qualified names, methods and nested ones included."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(tree, "")


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its decorators and its docstring."""
    end = function.end_lineno or function.lineno
    if ast.get_docstring(function, clean=False) is None:
        return end - function.lineno + 1
    docstring = function.body[0]
    return end - function.lineno + 1 - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)
