"""A folder of policy files is the truth: what it exports plans as no change, and what it applies once is applied."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack


def ran(stack: Stack, *arguments: str) -> Any:
    """Run a command in this process for its document."""
    done = stack.kedge_here(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def plan(stack: Stack, folder: Path) -> dict[str, Any]:
    [found] = ran(stack, "plan", "-f", str(folder))["policies"]
    return dict(found)


def apply(stack: Stack, folder: Path) -> dict[str, Any]:
    [done] = ran(stack, "apply", "-f", str(folder), "--because", "the files say so")
    return dict(done)


@pytest.fixture
def exported(stack: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A tenant with one policy, exported into a folder; gives the policy's file."""
    tenant = "f" + hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    stack.tenant(tenant)
    stack.put_policy(two_models(tenant))
    [written] = ran(stack, "export", "-f", str(tmp_path / "policies"), tenant)
    return Path(written)


def edited(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        document[name] = {**document[name], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(document), encoding="utf-8")


def test_what_was_exported_plans_as_no_change_and_names_nothing_that_ramps_move(stack: Stack, exported: Path) -> None:
    folder, document = exported.parents[1], json.loads(exported.read_text(encoding="utf-8"))

    assert plan(stack, folder)["changes"] == plan(stack, folder)["needs_proposals"] == []
    assert stack.kedge_here("plan", "-f", str(folder), "--check").exit_code == 0
    assert {"exploitation_floor", "arm_caps"} & set(document["exploration"]) == set()
    assert {"policy_version", "mode", "update_time"} & set(document) == set()
    assert (apply(stack, folder)["version"], apply(stack, folder)["changes"]) == (1, [])


def test_what_one_person_may_put_is_put_and_the_rest_is_proposed_once(stack: Stack, exported: Path) -> None:
    folder, document = exported.parents[1], json.loads(exported.read_text(encoding="utf-8"))
    added = {"dimension": "DIMENSION_MODEL_ROUTE", "name": "huge", "content": "huge-model"}
    arms = [*document["arms"], added]
    edited(exported, half_life="3600s", arms=arms, exploration={"exploitation_floor": 0.1})

    planned = plan(stack, folder)
    assert [change.partition(":")[0] for change in planned["changes"]] == ["half_life"]
    assert planned["needs_proposals"] == ["arm huge: new content", "floor: down to 0.1"]
    assert stack.kedge_here("plan", "-f", str(folder), "--check").exit_code == 1

    first = apply(stack, folder)
    again = apply(stack, folder)
    assert (first["version"], len(first["proposals"])) == (2, 2)
    assert (again["version"], again["changes"], again["proposals"]) == (2, [], first["proposals"])
    tenant = exported.parent.name
    kinds = {found["kind"] for found in ran(stack, "proposal", "list", tenant)}
    assert kinds == {"ARM", "FLOOR_STAGE"}


def test_content_that_changes_under_a_name_waits_and_the_old_one_serves_on(stack: Stack, exported: Path) -> None:
    folder, document = exported.parents[1], json.loads(exported.read_text(encoding="utf-8"))
    changed = [{**arm, "content": "larger"} if arm["name"] == "large" else arm for arm in document["arms"]]
    edited(exported, arms=changed)

    assert len(apply(stack, folder)["proposals"]) == 1
    shown = ran(stack, "policy", "show", exported.parent.name, exported.stem)
    assert [arm["content"] for arm in shown["arms"] if "retire_time" not in arm] == ["small-model", "large-model"]


def test_an_arm_that_a_file_leaves_out_is_retired_and_a_policy_that_the_folder_lacks_is_left_alone(
    stack: Stack, exported: Path
) -> None:
    folder, document = exported.parents[1], json.loads(exported.read_text(encoding="utf-8"))
    edited(exported, arms=[arm for arm in document["arms"] if arm["name"] != "large"])
    assert apply(stack, folder)["changes"] == ["arm large: retired"]

    exported.rename(exported.with_name("renamed.json"))
    edited(exported.with_name("renamed.json"), name=f"tenants/{exported.parent.name}/policies/other")
    found = ran(stack, "plan", "-f", str(folder))
    assert [one["changes"] for one in found["policies"]] == [["new"]]
    assert found["not_in_the_folder"] == [f"tenants/{exported.parent.name}/policies/{exported.stem}"]
    assert apply(stack, folder)["version"] == 1


def test_two_files_of_one_policy_and_an_empty_folder_are_refused(stack: Stack, exported: Path, tmp_path: Path) -> None:
    folder = exported.parents[1]
    (folder / "copy.json").write_bytes(exported.read_bytes())
    refused = stack.kedge_here("plan", "-f", str(folder))
    assert (refused.exit_code, "too" in refused.stderr) == (1, True)
    (tmp_path / "empty").mkdir()
    assert stack.kedge_here("plan", "-f", str(tmp_path / "empty")).exit_code == 1
