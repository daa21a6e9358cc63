"""`kedge holdout`: cases in, sizes and power out; asked of the gate, which alone can read them."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.json_format import ParseDict, ParseError
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.entrypoints.client import LONG_SECONDS, connected_to_gate
from kedge_bandit.entrypoints.documents import document_of
from kedge_bandit.entrypoints.policy_file import FileRefused, first_line
from kedge_bandit.entrypoints.printing import (
    Because,
    FailedCheck,
    JsonFlag,
    KedgeGroup,
    PolicyName,
    TenantName,
    answer,
    table,
)

holdouts = typer.Typer(cls=KedgeGroup, help="Keep the cases that nobody may learn from.", no_args_is_help=True)

_CHUNK = 500
_LOOK_SECONDS = 1.0
_MAX_PAGE = 200


@holdouts.command("import")
def import_cases(
    tenant: TenantName,
    policy: PolicyName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines; each line one HoldoutCase.")],
    *,
    because: Because = "imported from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Add cases; one that resembles what may be trained on is refused, and the others go on. Ends with 1 then."""
    cases = list(_cases(file))
    refused: list[dict[str, object]] = []
    imported, found = 0, pb.ImportCasesResponse()
    progress = Progress(console=Console(stderr=True), transient=True)
    with connected_to_gate() as client, progress:
        task = progress.add_task("importing", total=len(cases))
        for start in range(0, len(cases), _CHUNK):
            chunk = cases[start : start + _CHUNK]
            request = pb.ImportCasesRequest(
                policy=_name(tenant, policy), cases=[case for _, case in chunk], because=because
            )
            found = client.call(client.holdout.ImportCases, request, seconds=LONG_SECONDS)
            imported += found.imported
            refused += [document_of(one) | {"line": chunk[one.position][0]} for one in found.refused]
            progress.advance(task, len(chunk))

    def show(out: Console) -> None:
        for one in refused:
            told = f"line {one['line']}: {one['message']}"
            out.print(f"[yellow]{one['reason']}[/] {escape(told)}", highlight=False)
        out.print(f"{imported} cases imported, {len(refused)} refused", highlight=False)
        _show(out, found.holdout)

    document = {"imported": imported, "refused": refused, "holdout": document_of(found.holdout)}
    answer(document, show, as_json=as_json)
    if refused:
        raise FailedCheck(
            f"{len(refused)} of {len(cases)} cases were refused: see above, mend them and send them again"
        )


@holdouts.command()
def propose(
    tenant: TenantName,
    policy: PolicyName,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_MAX_PAGE, help="How many to list.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List reserved episodes, which no trainer sees, so that a person makes cases of them."""
    request = pb.ProposeCasesRequest(policy=_name(tenant, policy), page_size=limit)
    with connected_to_gate() as client:
        found = client.call(client.holdout.ProposeCases, request).episodes
    documents = [document_of(episode) for episode in found]
    rows = [(one.episode_id, one.bucket, one.end_time.ToJsonString()[:19]) for one in found]
    heads = ("episode", "bucket", "decided")
    answer(documents, lambda out: out.print(table("Reserved episodes", heads, rows)), as_json=as_json)


@holdouts.command()
def status(
    tenant: TenantName,
    policy: PolicyName,
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Show a running query's progress until it ends.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say what the present size allows, and what was asked already; never a case."""
    request = pb.GetHoldoutRequest(policy=_name(tenant, policy))
    with connected_to_gate() as client:
        found = client.call(client.holdout.GetHoldout, request).holdout
        if follow and _running(found):
            with Progress(console=Console(stderr=True), transient=True) as progress:
                task = progress.add_task("answering", total=None)
                while running := _running(found):
                    progress.update(task, total=running.total, completed=running.done)
                    time.sleep(_LOOK_SECONDS)
                    found = client.call(client.holdout.GetHoldout, request).holdout
    answer(document_of(found), lambda out: _show(out, found), as_json=as_json)


@holdouts.command()
def rotate(
    tenant: TenantName,
    policy: PolicyName,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what would go.")] = False,
    because: Because = "rotated from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Take the oldest cases and every opened one out; the ledger of queries then begins anew."""
    request = pb.RotateHoldoutRequest(policy=_name(tenant, policy), plan_only=plan, because=because)
    with connected_to_gate() as client:
        found = client.call(client.holdout.RotateHoldout, request)

    def show(out: Console) -> None:
        verb = "would leave" if plan else "left"
        out.print(f"{found.leaving} cases {verb} ({found.leaving_opened} were opened), {found.staying} stay")
        out.print(f"import {found.to_import} gate cases to have as many as before", highlight=False)

    answer(document_of(found), show, as_json=as_json)


@holdouts.command()
def answerer(
    tenant: TenantName,
    policy: PolicyName,
    *,
    file: Annotated[
        Path | None, typer.Option(help="JSON of a PutAnswererRequest's answerer and judge; without: show them.")
    ] = None,
    because: Because = "put from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Show or name who answers the cases, and who judges; secrets are named, never given."""
    with connected_to_gate() as client:
        if file is None:
            found = client.call(client.holdout.GetAnswerer, pb.GetAnswererRequest(policy=_name(tenant, policy)))
        else:
            request = _answerers(file)
            request.policy, request.because = _name(tenant, policy), because
            found = client.call(client.holdout.PutAnswerer, request)

    def show(out: Console) -> None:
        heads = ("part", "kind", "address", "model", "secret")
        parts = [(part, getattr(found, part)) for part in ("answerer", "judge") if found.HasField(part)]
        rows = [
            (
                part,
                pb.AnswererKind.Name(one.kind).removeprefix("ANSWERER_KIND_"),
                one.address,
                one.model,
                one.secret_name,
            )
            for part, one in parts
        ]
        out.print(table("Who answers", heads, rows))

    answer(document_of(found), show, as_json=as_json)


@holdouts.command("open")
def open_cases(
    proposal: Annotated[str, typer.Argument(metavar="PROPOSAL", help="tenants/TENANT/proposals/ID.")],
    *,
    because: Because,
    as_json: JsonFlag = False,
) -> None:
    """Show a second person the cases most improved and most harmed; audited, and they leave at the next rotation."""
    with connected_to_gate() as client:
        found = client.call(client.holdout.OpenCases, pb.OpenCasesRequest(proposal=proposal, because=because))

    def show(out: Console) -> None:
        for title, opened in (("Most improved", found.improved), ("Most harmed", found.harmed)):
            rows = [
                (
                    one.case.case_id,
                    one.incumbent_score,
                    one.candidate_score,
                    one.incumbent.output[:200],
                    one.candidate.output[:200],
                )
                for one in opened
            ]
            out.print(table(title, ("case", "was", "is", "incumbent", "candidate"), rows))

    answer(document_of(found), show, as_json=as_json)


@holdouts.command()
def training(
    tenant: TenantName,
    policy: PolicyName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Texts that may be trained on, one a line.")],
    *,
    because: Because = "recorded from the command line",
    as_json: JsonFlag = False,
) -> None:
    """Remember, as hashes, what may be trained on; cases like it are refused from then on."""
    try:
        texts = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{file} cannot be read: {error}") from error
    recorded = 0
    with connected_to_gate() as client:
        for start in range(0, len(texts), _CHUNK):
            request = pb.RecordTrainingTextsRequest(
                policy=_name(tenant, policy), texts=texts[start : start + _CHUNK], because=because
            )
            recorded += client.call(client.holdout.RecordTrainingTexts, request, seconds=LONG_SECONDS).recorded
    answer({"recorded": recorded}, lambda out: out.print(f"{recorded} texts were new"), as_json=as_json)


def _name(tenant: str, policy: str) -> str:
    return f"tenants/{tenant}/policies/{policy}"


def _cases(file: Path) -> Iterator[tuple[int, pb.HoldoutCase]]:
    """Read a file's lines with their numbers. Raises FileRefused with the number of the bad line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, ParseDict(json.loads(line), pb.HoldoutCase())
        except (ValueError, ParseError) as error:
            raise FileRefused(f"{file}, line {number}: {first_line(error)}") from error


def _answerers(file: Path) -> pb.PutAnswererRequest:
    """Read who answers. Raises FileRefused."""
    try:
        return ParseDict(json.loads(file.read_text(encoding="utf-8")), pb.PutAnswererRequest())
    except (OSError, ValueError, ParseError) as error:
        raise FileRefused(f"{file}: {first_line(error)}") from error


def _running(holdout: pb.Holdout) -> Any:
    return next((entry for entry in holdout.ledger if not entry.HasField("close_time")), None)


def _show(out: Console, holdout: pb.Holdout) -> None:
    power = holdout.power
    version = f"{holdout.version_number}, {holdout.version[:12]}" if holdout.version else "none yet"
    rows = [
        ("version", version),
        ("cases", f"{holdout.gate_cases} gate, {holdout.adversarial_cases} adversarial, {holdout.sensor_cases} sensor"),
        ("kinds", ", ".join(f"{one.cases} {one.kind}" for one in holdout.checks)),
        ("promotion", "possible" if power.promotion_possible else "not possible"),
        (
            "next query",
            f"at {power.next_alpha:.4f}, an equal candidate passes in {power.equal_passes:.0%} of all cases",
        ),
        ("sees a true lift", f"from {power.detectable_lift:+.3f} on, in 80 of 100"),
        (
            "sees a hack",
            f"after {power.visible_after_days:g} days" if power.visible_after_days else "not within a year",
        ),
        ("rotations", f"{holdout.rotations_in_year} of 4 within a year"),
    ]
    out.print(table(f"Holdout of {holdout.policy}", ("what", "is"), rows))
    heads = ("query", "proposal", "alpha", "verdict", "cases")
    entries = [
        (one.query, one.proposal.rpartition("/")[2], one.alpha, one.verdict or "running", f"{one.done}/{one.total}")
        for one in holdout.ledger
    ]
    if entries:
        out.print(table("Peek ledger", heads, entries))
    for sentence in holdout.advice:
        out.print(f"[yellow]·[/] {escape(sentence)}", highlight=False)
