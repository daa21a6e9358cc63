"""Learn for every tenant: settle, fold, publish; `python -m kedge_bandit.entrypoints.worker`, started by `kedge serve`.

Any number of workers may run; each tenant has one at a time. Every minute tables that have
grown are divided by month and the next month's partitions made; the heads of the audit chains are anchored.
"""

import asyncio
import logging
import signal
import sys

import structlog
import uvloop

from kedge_bandit.entrypoints.logs import set_up_logs
from kedge_bandit.entrypoints.metrics_port import serve_metrics
from kedge_bandit.entrypoints.profile import check_profile
from kedge_bandit.entrypoints.readiness import say_ready
from kedge_bandit.entrypoints.settings import Settings, read_settings
from kedge_bandit.entrypoints.worker_wiring import build_worker

log = structlog.get_logger(__name__)


async def work(settings: Settings, url: str) -> None:
    """Work until SIGTERM or SIGINT; the running pass is finished."""
    worker = build_worker(settings, url)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if settings.worker_metrics_port:
        serve_metrics(settings, settings.worker_metrics_port, worker.rounds.metrics.registry)
    log.info("worker.ready")
    say_ready()
    beside = [
        asyncio.create_task(one.run()) for one in (worker.anchoring, worker.ramping, worker.attending, worker.telling)
    ]
    if worker.flags is not None:
        beside.append(asyncio.create_task(worker.flags.run()))
    try:
        await worker.rounds.run(stop)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await worker.telling.close()
        await worker.passes.close()
        await worker.engine.dispose()
    log.info("worker.stopped")


def main() -> None:
    """Run the process."""
    settings = read_settings()
    check_profile(settings)
    set_up_logs(settings.log_level)
    if not settings.database_url:
        sys.exit("KEDGE_DATABASE_URL is not set: `kedge serve` starts the embedded database and this process with it")
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    uvloop.run(work(settings, settings.database_url))


if __name__ == "__main__":
    main()
