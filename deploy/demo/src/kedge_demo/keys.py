"""Read the keys that the demo's tenants were given."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKeys:
    """Hold one tenant's secrets: the core application's, and one that may read."""

    core_app: str
    viewer: str


def read_keys(path: Path) -> dict[str, TenantKeys]:
    """Read {"tenant": {"core_app": "...", "viewer": "..."}}; one text instead of the two serves for both.

    Raises:
        ValueError: the file has another shape.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    try:
        return {
            tenant: TenantKeys(core_app=entry, viewer=entry) if isinstance(entry, str) else TenantKeys(**entry)
            for tenant, entry in content.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError(f'{path}: expected {{"tenant": {{"core_app": "...", "viewer": "..."}}}}') from error
