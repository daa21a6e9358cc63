"""Write docs/policy.schema.json from the proto descriptors: `python -m tests.docs.policy_schema`."""

import json
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from kedge.bandit.v1 import policy_pb2
from kedge_bandit.adapters.rest.comments import comments_of
from kedge_bandit.adapters.rest.schemas import Schemas

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "policy.schema.json"
IMAGE = ROOT / "proto" / "gen" / "kedge.binpb"

_OUTPUT_ONLY = "Output only."
_COMPONENTS = "#/components/schemas/"


def build() -> dict[str, Any]:
    """Describe a policy file; every name may be spelled in snake_case or lowerCamelCase."""
    schemas = Schemas(comments_of(FileDescriptorSet.FromString(IMAGE.read_bytes())))
    schemas.message(policy_pb2.Policy.DESCRIPTOR)
    components: dict[str, Any] = schemas.components()
    definitions = {name.rpartition(".")[2]: _converted(schema) for name, schema in components.items()}
    policy = definitions.pop("Policy")
    policy["properties"]["name"]["description"] += " (or the policy's own name, with --tenant)"
    policy["properties"]["$schema"] = {"type": "string"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Kedge policy",
        **policy,
        "required": ["name", "arms", "baseline", "reward"],
        "$defs": definitions,
    }


def _converted(schema: Any) -> Any:
    """Move references, mark what only the server writes, and add the snake_case names."""
    if isinstance(schema, list):
        return [_converted(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _converted(value) for key, value in schema.items() if key != "format"}
    if str(made.get("$ref", "")).startswith(_COMPONENTS):
        made["$ref"] = "#/$defs/" + made["$ref"].removeprefix(_COMPONENTS).rpartition(".")[2]
    if str(made.get("description", "")).startswith(_OUTPUT_ONLY):
        made["readOnly"] = True
    if "properties" in made and made.get("type") == "object":
        both = {}
        for name, described in made["properties"].items():
            snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
            both[snake] = described
            if snake != name:
                both[name] = {key: value for key, value in described.items() if key != "description"}
        made["properties"] = both
    return made


def main() -> None:
    TARGET.write_text(json.dumps(build(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
