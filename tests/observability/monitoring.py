"""Run Prometheus and Alertmanager with the configurations that are shipped, on free ports and a short interval."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.fixtures.stack import Stack, free_port, wait_for

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
_SENT = re.compile(r'^alertmanager_(\w+)_total\{integration="webhook"\} (\S+)$', re.MULTILINE)
PROGRAMS = {"prometheus": "prometheus", "prometheus-alertmanager": "alertmanager"}
"""Names of Debian, and those of everybody else."""


def program(name: str) -> str | None:
    """Find one of the two programs; None: it is not installed."""
    return shutil.which(name) or shutil.which(PROGRAMS[name])


@dataclass(frozen=True, slots=True)
class Monitoring:
    """A Prometheus that scrapes a stack, and an Alertmanager that it tells."""

    client: httpx.Client
    prometheus: str
    alertmanager: str

    def query(self, expr: str) -> list[Any]:
        """Ask for an expression's series as they are now."""
        answer = self.client.post(f"{self.prometheus}/api/v1/query", data={"query": expr}).json()
        assert answer["status"] == "success", (expr, answer)
        found: list[Any] = answer["data"]["result"]
        return found

    def values(self, expr: str) -> dict[str, float]:
        """Ask for an expression's values by tenant."""
        return {one["metric"].get("tenant", ""): float(one["value"][1]) for one in self.query(expr)}

    def alerts(self) -> list[Any]:
        """List what fires."""
        found = self.client.get(f"{self.prometheus}/api/v1/alerts").json()["data"]["alerts"]
        return [alert for alert in found if alert["state"] == "firing"]

    def told(self) -> int:
        """Count the messages that Kedge took from Alertmanager."""
        text = self.client.get(f"{self.alertmanager}/metrics").text
        counts = {name: float(value) for name, value in _SENT.findall(text)}
        return int(counts["notifications"] - counts["notifications_failed"])

    def up(self) -> bool:
        """Say whether every target was scraped."""
        return [one["value"][1] for one in self.query("up")] == ["1"] * 3


def configured(name: str, folder: Path, change: Mapping[str, Any]) -> Path:
    """Write a shipped configuration into a folder, with other addresses and intervals."""
    shipped = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    path = folder / name
    path.write_text(yaml.safe_dump({**shipped, **change}), encoding="utf-8")
    return path


@contextmanager
def monitoring(stack: Stack, ports: Sequence[int], folder: Path, *, interval: str) -> Iterator[Monitoring]:
    """Scrape a stack at its three ports: server, worker, gate."""
    shutil.copy(FOLDER / "rules.yml", folder)
    web, alerts = free_port(), free_port()
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    for place, port in zip(scrape[0]["static_configs"], ports, strict=True):
        place["targets"] = [f"127.0.0.1:{port}"]
    changed = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "scrape_configs": scrape,
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alerts}"]}]}]},
    }
    with ExitStack() as exits:
        exits.enter_context(_alertmanager(stack, folder, alerts))
        config = configured("prometheus.yml", folder, changed)
        options = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}")
        command = (program("prometheus"), *options, f"--web.listen-address=127.0.0.1:{web}")
        exits.enter_context(_running(command, folder / "prometheus.log", f"http://127.0.0.1:{web}/-/ready"))
        client = exits.enter_context(httpx.Client(timeout=30))
        yield Monitoring(client, f"http://127.0.0.1:{web}", f"http://127.0.0.1:{alerts}")


@contextmanager
def _alertmanager(stack: Stack, folder: Path, port: int) -> Iterator[None]:
    shipped = yaml.safe_load((FOLDER / "alertmanager.yml").read_text(encoding="utf-8"))
    receivers = shipped["receivers"]
    route = {**shipped["route"], "group_interval": "1s", "repeat_interval": "1s"}
    [hook] = next(one for one in receivers if one["name"] == "kedge")["webhook_configs"]
    hook["url"] = hook["url"].replace(":8080", f":{stack.web_port}")
    hook["http_config"]["authorization"]["credentials_file"] = str(stack.data_dir / "alarm.key")
    config = configured("alertmanager.yml", folder, {"route": route, "receivers": receivers})
    options = (f"--config.file={config}", f"--storage.path={folder / 'alerts'}", "--cluster.listen-address=")
    command = (program("prometheus-alertmanager"), *options, f"--web.listen-address=127.0.0.1:{port}")
    with _running(command, folder / "alertmanager.log", f"http://127.0.0.1:{port}/-/ready"):
        yield


@contextmanager
def _running(command: Sequence[str | None], log: Path, ready: str) -> Iterator[None]:
    with log.open("wb") as out, subprocess.Popen([str(part) for part in command], stdout=out, stderr=out) as process:
        try:
            wait_for(lambda: process.poll() is not None or _answers(ready), f"{ready}; its log: {log}")
            assert process.poll() is None, log.read_text(encoding="utf-8")[-2000:]
            yield
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False
