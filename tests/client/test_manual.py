"""The manual and the examples are run, and the public names are the ones that are promised."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import CoroutineType

import pytest

import kedge_client
from kedge.bandit.v1.episode_pb2 import Trajectory
from kedge_client import Choice, FixedKedge
from tests.client.stand_in import Running

README = (Path(__file__).parents[2] / "proto/clients/python/README.md").read_text()
MODULES = [module.name for module in pkgutil.iter_modules(kedge_client.__path__, "kedge_client.")]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_the_code_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS).failed == 0


async def test_the_five_lines_of_the_manual_run_against_a_server(running: Running) -> None:
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    source = example[1].replace("127.0.0.1:50051", running.address)
    assert len(source.splitlines()) == 5

    async def serve(choice: Choice) -> Trajectory:
        return Trajectory(terminated=True)

    names = {name: getattr(kedge_client, name) for name in kedge_client.__all__}
    code = compile(source, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    run = eval(code, {**names, "PROMPT": "Answer: {question}", "KEY": "kdg_secret", "serve": serve})  # noqa: S307 - ours
    assert isinstance(run, CoroutineType)
    await run

    stand_in = running.servicer
    assert len(stand_in.episodes) == len(stand_in.outcomes) == 1


def test_the_manual_names_every_word_for_outcomes() -> None:
    words = [name for name in vars(kedge_client.OutcomeMaker) if not name.startswith("_")]

    assert [word for word in words if f"{word}(" not in README and word not in {"handle", "now", "new_id"}] == []


def test_the_public_names_are_these() -> None:
    assert kedge_client.__all__ == sorted(kedge_client.__all__, key=lambda name: (not name.isupper(), name))
    assert {name for name in vars(kedge_client) if not name.startswith("_")} - set(kedge_client.__all__) == {
        module.removeprefix("kedge_client.") for module in MODULES
    }


def test_the_fixed_client_has_every_method_of_the_client() -> None:
    assert issubclass(FixedKedge, kedge_client.Kedge)
    assert [name for name, _ in inspect.getmembers(FixedKedge, inspect.isfunction) if name in vars(FixedKedge)] == [
        "__init__"
    ]
