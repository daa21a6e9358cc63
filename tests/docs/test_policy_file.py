"""The documented policy file is what the command line accepts, and its schema is what the proto says."""

import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from kedge_bandit.adapters.grpc.wire_policy import policy_message, spec_of
from kedge_bandit.domain.advice import warnings_of
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.identifiers import parse_policy
from kedge_bandit.domain.lifecycle import create
from kedge_bandit.entrypoints.policy_file import FileRefused, read_policy
from tests.docs.policy_schema import ROOT, TARGET, build

EXAMPLE = ROOT / "docs" / "policy.example.toml"
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
    "integer": int,
}


def problems(value: object, schema: dict[str, Any], definitions: dict[str, Any], at: str = "policy") -> list[str]:
    """Check what this schema uses of JSON Schema: references, types, names, enums, patterns and required fields."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{at} is no {kind}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} is {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], str(value)):
        found.append(f"{at} does not match {schema['pattern']}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += problems(item, schema["items"], definitions, f"{at}[{number}]")
    if isinstance(value, dict):
        found += [f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", False))
            if inner is False:
                found.append(f"{at}.{name} is unknown")
            else:
                found += problems(item, inner, definitions, f"{at}.{name}")
    return found


def test_the_schema_is_the_one_that_the_proto_makes() -> None:
    written = json.loads(TARGET.read_text(encoding="utf-8"))
    assert written == build(), "run `make golden`"


def test_the_example_keeps_to_the_schema() -> None:
    schema = build()
    assert problems(tomllib.loads(EXAMPLE.read_text(encoding="utf-8")), schema, schema["$defs"]) == []


def test_the_schema_finds_what_is_wrong() -> None:
    schema = build()
    wrong = {"name": 1, "arms": [{"dimension": "DIMENSION_TOOL"}], "halflife": "1s", "half_life": "14 days"}
    assert len(problems(wrong, schema, schema["$defs"])) == 6


def test_the_example_is_a_policy_without_warnings() -> None:
    message = read_policy(EXAMPLE)
    spec = spec_of(message)
    tenant, name = parse_policy(message.name)
    change = Change(tenant=tenant, actor=Actor("key:ada"), because="the first one", at=datetime(2026, 1, 1, tzinfo=UTC))
    policy, _ = create(name, spec, change)
    assert warnings_of(spec) == ()
    assert len(policy.spec.actions) == 8


def test_the_example_states_every_default_as_it_is() -> None:
    stated = read_policy(EXAMPLE)
    least = read_policy(EXAMPLE)
    for field in ("learner", "half_life", "prior_strength", "exploration"):
        least.ClearField(field)
    references = (least.reward.cost_reference_usd, least.reward.latency_reference_ms)
    least.ClearField("reward")
    least.reward.cost_reference_usd, least.reward.latency_reference_ms = references
    for window in ("task_success_window", "safety_window", "judge_window"):
        least.settlement.ClearField(window)
    assert spec_of(least) == spec_of(stated)


def test_the_example_leaves_no_setting_out() -> None:
    spec = spec_of(read_policy(EXAMPLE))
    tenant, name = parse_policy(read_policy(EXAMPLE).name)
    change = Change(tenant=tenant, actor=Actor("key:ada"), because="x", at=datetime(2026, 1, 1, tzinfo=UTC))
    full = MessageToDict(policy_message(tenant, create(name, spec, change)[0]), preserving_proto_field_name=True)
    given = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    for section in ("reward", "settlement", "exploration"):
        assert set(full[section]) - {"budget_off"} <= set(given[section])


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not"),
        ('{"name": "tenants/acme/policies/p", "colour": "red"}', "colour"),
        ('{"arms": []}', "name is missing"),
        ('{"name": "support"}', "--tenant"),
        ('{"name": "tenants/acme"}', "tenants/acme"),
        ('{"name": "tenants/acme/policies/p", "half_life": "14 days"}', "half_life"),
        ("[1]", ""),
    ],
)
def test_a_file_that_is_no_policy_is_refused_by_name(tmp_path: Path, suffix: str, text: str, sentence: str) -> None:
    path = tmp_path / f"policy{suffix}"
    path.write_text(text if suffix == ".json" else _as_toml(text), encoding="utf-8")
    with pytest.raises(FileRefused, match=re.escape(path.name)) as refused:
        read_policy(path)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="cannot be read"):
        read_policy(tmp_path / "none.toml")


def test_the_tenant_may_be_named_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text('{"name": "support", "halfLife": "60s"}', encoding="utf-8")
    assert read_policy(path, tenant="globex").name == "tenants/globex/policies/support"
    path.write_text('{"name": "tenants/acme/policies/support"}', encoding="utf-8")
    assert read_policy(path, tenant="globex").name == "tenants/globex/policies/support"
    with pytest.raises(FileRefused, match="Globex"):
        read_policy(path, tenant="Globex")


def _as_toml(text: str) -> str:
    """Spell a flat JSON object as TOML; anything else is no TOML either."""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    if not isinstance(content, dict):
        return "[["
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in content.items())
