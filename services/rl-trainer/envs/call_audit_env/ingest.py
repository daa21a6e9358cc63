"""Take a contact center's log in: personal data out first, then the checks, then the store.

    python -m call_audit_env.ingest log.jsonl --to tenants/acme

The folder must hold the tenant's `rubric.toml`. It gets `calls.jsonl`, redacted, and `patterns.json`, which says what
kinds of failure the log has and repeats nothing of it. A call that cannot be used is told by its line and left out.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from call_audit_env.book import Book
from call_audit_env.calls import Call, Speaker
from call_audit_env.lint import silences
from call_audit_env.patterns import mined
from call_audit_env.records import Record, UnusableCall, call_of_record, read, turns_of
from call_audit_env.redact import Redactor, redact
from call_audit_env.tenant import CALLS, RUBRIC

PATTERNS = "patterns.json"


@dataclass(frozen=True, slots=True)
class Ingested:
    """A log as far as it can be used.

    Attributes:
        records, calls: of the same calls, redacted.
        refused: line number and reason of what was left out.
    """

    records: tuple[Record, ...]
    calls: tuple[Call, ...]
    refused: tuple[tuple[int, str], ...]


def redacted(record: Record) -> Record:
    """Give a record without personal data, in what was said and in what was written about it."""
    turns = turns_of(record.turns)
    redactor = Redactor.of(turns)
    said = [one.model_copy(update={"text": redactor.turn(turns, place)}) for place, one in enumerate(record.turns)]

    def clean(text: str) -> str:
        return redact(text, redactor.names, speaker=Speaker.AGENT)

    return record.model_copy(
        update={
            "turns": said,
            "summary": clean(record.summary),
            "reason": clean(record.reason),
            "source": clean(record.source),
            "moods": [one.model_copy(update={"mood": clean(one.mood)}) for one in record.moods],
            "labels": [one.model_copy(update={"detail": clean(one.detail)}) for one in record.labels],
        }
    )


def ingest(lines: Iterable[str], tenant: str, book: Book) -> Ingested:
    """Read, redact and check a log of one tenant."""
    records, calls, refused = [], [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record, call = _taken(line, tenant, book)
        except UnusableCall as problem:
            refused.append((number, str(problem)))
            continue
        records.append(record)
        calls.append(call)
    return Ingested(tuple(records), tuple(calls), tuple(refused))


def _taken(line: str, tenant: str, book: Book) -> tuple[Record, Call]:
    raw = read(line)
    if raw.tenant != tenant:
        raise UnusableCall("the call belongs to another tenant")
    record = redacted(raw)
    call = call_of_record(record, book)
    for problem in silences(call):
        raise UnusableCall(problem)
    return record, call


def written(found: Ingested) -> Iterator[tuple[str, str]]:
    """Give the files that are stored, by name."""
    yield CALLS, "".join(one.model_dump_json(exclude_defaults=True) + "\n" for one in found.records)
    shapes = [{**pattern._asdict(), "count": count} for pattern, count in mined(found.calls)]
    yield PATTERNS, json.dumps(shapes, indent=1) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Ingest a log; exits with 1 where no call can be used."""
    parser = argparse.ArgumentParser(prog="python -m call_audit_env.ingest", description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--to", type=Path, required=True, help="the tenant's folder, named after the tenant")
    asked = parser.parse_args(arguments)
    book = Book.read((asked.to / RUBRIC).read_text(encoding="utf-8"))
    with asked.log.open(encoding="utf-8") as lines:
        found = ingest(lines, asked.to.name, book)
    for number, reason in found.refused:
        sys.stderr.write(f"line {number}: {reason}\n")
    for name, text in written(found) if found.records else ():
        (asked.to / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(found.records)} calls taken in, {len(found.refused)} left out\n")
    if not found.records:
        sys.exit(1)


if __name__ == "__main__":
    main()
