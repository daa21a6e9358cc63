"""Keep a generated schema without its descriptions: `python -m tests.observability.schema FILE`."""

import json
import sys
from pathlib import Path

SCHEMA = Path(__file__).with_name("grafana.json")


def bare(node: object) -> object:
    """Take the descriptions out, which no validation reads."""
    if isinstance(node, dict):
        return {key: bare(value) for key, value in node.items() if key != "description" or not isinstance(value, str)}
    return [bare(value) for value in node] if isinstance(node, list) else node


if __name__ == "__main__":
    made = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    SCHEMA.write_text(json.dumps(bare(made), indent=1, sort_keys=True) + "\n", encoding="utf-8")
