"""Show how far the play is: a bar per tenant on a terminal, a line every few seconds elsewhere."""

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kedge_demo.counts import TenantCounts
from kedge_demo.world import World

BAR_EVERY_S = 0.2
LINE_EVERY_S = 5.0


async def show_progress(worlds: Sequence[World], counts: Mapping[str, TenantCounts], console: Console) -> None:
    """Show until cancelled."""
    if console.is_terminal:
        await _bars(worlds, counts, console)
    else:
        await _lines(worlds, counts, console)


async def _bars(worlds: Sequence[World], counts: Mapping[str, TenantCounts], console: Console) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>6,.0f}/s"),
        TimeElapsedColumn(),
    )
    started = perf_counter()
    with Progress(*columns, console=console) as progress:
        tasks = {world.tenant: progress.add_task(world.tenant, total=world.turns, rate=0.0) for world in worlds}
        try:
            while True:
                seconds = max(perf_counter() - started, 1e-3)
                for tenant, task in tasks.items():
                    done = counts[tenant].episodes
                    progress.update(task, completed=done, rate=done / seconds)
                await asyncio.sleep(BAR_EVERY_S)
        finally:
            for tenant, task in tasks.items():
                progress.update(task, completed=counts[tenant].episodes)


async def _lines(worlds: Sequence[World], counts: Mapping[str, TenantCounts], console: Console) -> None:
    started = perf_counter()
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        seconds = perf_counter() - started
        done = [f"{world.tenant} {counts[world.tenant].episodes:,}/{world.turns:,}" for world in worlds]
        total = sum(counts[world.tenant].episodes for world in worlds)
        console.print(f"{seconds:5.0f} s  {'  '.join(done)}  {total / seconds:,.0f} episodes/s", highlight=False)
