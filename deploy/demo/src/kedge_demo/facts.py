"""Read what others found about the run, from the files that lie beside it and the one that the conductor hands over.

The conductor's file may hold the answers of `kedge rebuild` and `kedge replay`:

    {"proofs": {TENANT: {"rebuild": {"evidence_rows", "max_error", "agrees"},
                         "replay": {"replayed", "mismatches", "max_error"}}}}

Other keys are left alone. The rest lies in the folder: frozen.json and audit.json from `kedge_demo.frozen` and
`kedge_demo.measure`, inside.json from the second computation.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from kedge_demo.agreement import disagreements_with
from kedge_demo.audit import load_audit
from kedge_demo.frozen import FROZEN_FILE
from kedge_demo.measure import REPORT_FILE
from kedge_demo.page_model import Facts, Frozen, Rebuilt, Replayed
from kedge_demo.plain import read_plain

INSIDE_FILE = "inside.json"

T = TypeVar("T")


def read_facts(folder: Path, given: Path | None) -> Facts:
    """Gather everything that is there."""
    content = {} if given is None else _load(given)
    proofs = content.get("proofs", {})
    frozen = _load(folder / FROZEN_FILE)
    differences = None
    if (folder / INSIDE_FILE).exists():
        differences = disagreements_with(_load(folder / REPORT_FILE)["tenants"], folder / INSIDE_FILE)
    return Facts(
        rebuilt={tenant: _some(Rebuilt, proof["rebuild"]) for tenant, proof in proofs.items() if "rebuild" in proof},
        replayed={tenant: _some(Replayed, proof["replay"]) for tenant, proof in proofs.items() if "replay" in proof},
        differences=differences,
        frozen=read_plain(Frozen, frozen) if frozen else None,
        audit=load_audit(folder),
    )


def _load(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if there is no such file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def _some(kind: type[T], value: Mapping[str, object]) -> T:
    """Read the fields that the dataclass has, and leave the others alone."""
    names = getattr(kind, "__dataclass_fields__", {})
    return read_plain(kind, {key: one for key, one in value.items() if key in names})
