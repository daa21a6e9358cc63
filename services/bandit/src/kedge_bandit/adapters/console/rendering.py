"""Fill templates: everything from outside is escaped, and what would turn text around or hide it is made visible."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from kedge_bandit.adapters.console import charts, checks, curves, diff, promotion, wording
from kedge_bandit.adapters.console.inert import inert

_HERE: Final = Path(__file__).parent
MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load; `mark` changes with its content, so that browsers may keep it for ever."""

    content: bytes
    media_type: str
    mark: str


def read_assets() -> dict[str, Asset]:
    """Read every static file, by name."""
    found = {}
    for path in sorted((_HERE / "static").iterdir()):
        content = path.read_bytes()
        mark = hashlib.sha256(content).hexdigest()[:12]
        found[path.name] = Asset(content, MEDIA_TYPES[path.suffix], mark)
    return found


@dataclass(frozen=True, slots=True)
class Rendering:
    """Templates and assets of one console."""

    environment: Environment
    assets: dict[str, Asset]

    def render(self, template: str, **facts: Any) -> str:
        """Fill one template."""
        return self.environment.get_template(template).render(**facts)


def make_rendering() -> Rendering:
    """Load templates and assets."""
    assets = read_assets()
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        finalize=inert,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = lambda name: f"/static/{name}?v={assets[name].mark}"
    environment.globals["chart"] = charts
    environment.globals["curve"] = curves
    environment.globals["last_lifts"] = checks.last_lifts
    environment.globals["words"] = wording
    environment.globals["diff"] = diff
    environment.globals["promotion"] = promotion
    return Rendering(environment, assets)
