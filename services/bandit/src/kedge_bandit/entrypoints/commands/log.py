"""`kedge log`: the decision log for other programs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from kedge.bandit.v1 import episode_service_pb2 as pb
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected
from kedge_bandit.entrypoints.log_formats import LoggedRow, rows_of, vw_lines, write_open_bandit
from kedge_bandit.entrypoints.printing import JsonFlag, PolicyName, TenantName, answer


class Format(StrEnum):
    """Who is to read it."""

    VW = "vw"
    OPEN_BANDIT = "open-bandit"


def log(
    tenant: TenantName,
    policy: PolicyName,
    *,
    form: Annotated[Format, typer.Option("--as", help="Vowpal Wabbit's text, or Open Bandit's arrays.")],
    out: Annotated[Path, typer.Option(help="The file to write.", dir_okay=False)],
    days: Annotated[float, typer.Option(help="How far back decisions count; 0: all.", min=0.0)] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Write the randomised decisions that settled, with their probabilities and rewards."""
    request = pb.ExportDecisionsRequest(policy=f"tenants/{tenant}/policies/{policy}")
    if days:
        request.start_time.FromDatetime(datetime.now(UTC) - timedelta(days=days))
    with connected() as client:
        count = _write(rows_of(client.call(client.episodes.ExportDecisions, request, seconds=LONG_SECONDS)), form, out)
    answer(
        {"rows": count, "file": str(out)},
        lambda shown: shown.print(f"{count} episodes in {out}", highlight=False, markup=False),
        as_json=as_json,
    )


def _write(rows: Iterator[LoggedRow], form: Format, out: Path) -> int:
    match form:
        case Format.VW:
            count = 0
            with out.open("w", encoding="utf-8") as file:
                for row in rows:
                    file.write(vw_lines(row))
                    count += 1
            return count
        case Format.OPEN_BANDIT:
            with out.open("wb") as file:
                return write_open_bandit(rows, file)
        case _:
            assert_never(form)
