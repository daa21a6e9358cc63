"""The boards are what their code makes, what Grafana's own types allow, and ask for metrics that exist."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from deploy.observability.boards import BOARDS
from deploy.observability.boards.__main__ import FOLDER
from deploy.observability.boards.parts import to_json
from kedge_bandit.adapters.console.pages import PAGES
from tests.observability.metrics import families, named_in

SCHEMA = Path(__file__).parent / "schema" / "grafana.json"


def committed(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def panels(board: Any) -> list[Any]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def without(value: Any, key: str) -> Any:
    """Leave out what the data source for Prometheus reads of an annotation, and the types of boards do not name."""
    return {name: one for name, one in value.items() if name != key}


def refusals(board: Any) -> list[str]:
    """Hold a board against Grafana's types; the options of a panel against those of its own kind."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    parts = schema["definitions"]["Board"]["properties"]

    def refused(part: Any, value: Any) -> list[str]:
        found = jsonschema_rs.validator_for({**part, "definitions": schema["definitions"]}).iter_errors(value)
        return [f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}" for error in found]

    annotations = [without(one, "expr") for one in board.get("annotations", {}).get("list", [])]
    found = refused(parts["dashboard"], {**board, "annotations": {"list": annotations}})
    for panel in panels(board):
        kind = parts[panel["type"]]["properties"]
        found += refused(kind["options"], panel.get("options", {}))
        if "custom" in kind:
            found += refused(kind["custom"], panel["fieldConfig"]["defaults"].get("custom", {}))
    return found


def test_every_committed_board_is_registered() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_its_code_makes(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text(encoding="utf-8") == to_json(BOARDS[name]()), (
        "python -m deploy.observability.boards"
    )


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_what_grafanas_own_types_allow(name: str) -> None:
    assert refusals(committed(name)) == []


def test_a_board_that_grafana_would_not_understand_is_refused() -> None:
    strange: tuple[dict[str, Any], ...] = (
        {"refreshh": "1m"},
        {"graphTooltip": "often"},
        {"tags": "kedge"},
        {"annotations": {"list": [{}]}},
    )
    for wrong in strange:
        assert refusals({**committed("divergence"), **wrong})
    board = committed("divergence")
    panels(board)[0]["options"]["graphMode"] = "sideways"
    assert refusals(board)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_ids_of_their_own_a_description_and_a_query(name: str) -> None:
    board = committed(name)
    assert max(Counter(panel["id"] for panel in board["panels"]).values()) == 1
    assert [panel["title"] for panel in panels(board) if not panel.get("description") or not panel["targets"]] == []


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_has_the_variables_the_annotations_and_the_way_to_the_console(name: str) -> None:
    board = committed(name)
    assert [one["name"] for one in board["templating"]["list"]] == [
        "datasource",
        "tenant",
        "policy",
        "interval",
        "console",
    ]
    assert [one["name"] for one in board["annotations"]["list"]] == [
        "Freeze",
        "Unfreeze",
        "Promotion",
        "Ramp step",
        "Model change",
        "Configuration",
    ]
    shown = {page.path.replace("{tenant}", "${tenant}") for page in PAGES}
    urls = [link["url"] for link in board["links"] if link["type"] == "link"]
    assert urls
    assert {url.removeprefix("${console}") for url in urls} <= shown


@pytest.mark.parametrize("name", BOARDS)
def test_every_metric_that_a_board_asks_for_exists(name: str) -> None:
    board = committed(name)
    asked = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    asked += [one["expr"] for one in board["annotations"]["list"]]
    assert {metric for expr in asked for metric in named_in(expr)} - families() == set()


def test_the_divergence_board_draws_both_lifts_with_their_intervals_and_the_evidence_on_a_log_axis() -> None:
    board = committed("divergence")
    [lift] = [panel for panel in panels(board) if panel["title"].startswith("Lift")]
    assert [target["legendFormat"] for target in lift["targets"]] == [
        f"{side}{bound}" for side in ("reward", "holdout") for bound in ("", " lower", " upper")
    ]
    [evidence] = [panel for panel in panels(board) if panel["title"].startswith("Evidence of")]
    assert evidence["fieldConfig"]["defaults"]["custom"]["scaleDistribution"] == {"type": "log", "log": 10}


def test_nothing_makes_up_a_zero() -> None:
    """An empty series is a fault; `or vector(0)` would hide it."""
    texts = [
        path.read_text(encoding="utf-8") for path in FOLDER.parent.rglob("*.*") if path.suffix in {".json", ".yml"}
    ]
    assert not [text for text in texts if "vector(" in text]
