"""Write every golden file, or those named: `python -m tests.golden [NAME ...]`."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.golden import choose, draw

WRITERS: dict[str, Callable[[], Mapping[str, object]]] = {
    "choose": choose.build,
    "draw": draw.build,
}


def main(names: list[str]) -> None:
    """Write each file with one line per leaf of its top-level lists, so that a diff shows the vector that moved."""
    for name in names or sorted(WRITERS):
        lines = []
        for key, value in WRITERS[name]().items():
            if isinstance(value, list):
                body = ",\n".join("    " + json.dumps(item, ensure_ascii=True) for item in value)
                lines.append(f"  {json.dumps(key)}: [\n{body}\n  ]")
            else:
                lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
        path = Path(__file__).parent / f"{name}.json"
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
