"""Tamper with the audit chain of a running service as somebody with the database's superuser could; each is found.

The owner of the database switches off what guards the tables and changes what he likes; he has no private key.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.adapters.anchors import ANCHOR_FILE, PUBLIC_KEY_FILE, of_tenant, read_anchors
from kedge_bandit.domain.audit import GENESIS, ChainedEvent, row_hash
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, wait_for

TENANT = "tampered"
POLICY = f"tenants/{TENANT}/policies/support"
SCHEMA = f"t_{TENANT}"
COLUMNS = "audit_sequence, event_time, actor, verb, subject, because, payload_hash, previous_hash, row_hash"

Row = tuple[Any, ...]


def anchored(stack: Stack) -> int:
    """Read up to which event the file of anchors goes; 0 without one."""
    folder = stack.data_dir
    if not (folder / PUBLIC_KEY_FILE).exists() or not (folder / ANCHOR_FILE).exists():
        return 0
    found = of_tenant(read_anchors(folder / ANCHOR_FILE, folder / PUBLIC_KEY_FILE), TENANT)
    return found[-1].sequence if found else 0


def head(stack: Stack) -> int:
    with stack.connect() as connection:
        found = connection.execute(f"SELECT audit_sequence FROM {SCHEMA}.audit_head").fetchone()
    assert found is not None
    sequence: int = found[0]
    return sequence


@pytest.fixture(scope="module")
def audited(stack: Stack) -> Stack:
    """Give a chain of a dozen events, frozen and unfrozen, whose head the worker has anchored by itself."""
    key = stack.tenant(TENANT)
    stack.put_policy(two_models(TENANT))
    with stack.services(key) as services:
        for number in range(4):
            freeze = governance_service_pb2.FreezeRequest(name=POLICY, because=f"number {number}")
            services.governance.Freeze(freeze)
            wait_for(lambda: anchored(stack) == head(stack), "the freeze to be anchored")
            services.governance.Unfreeze(governance_service_pb2.UnfreezeRequest(name=POLICY, because="go on"))
    wait_for(lambda: anchored(stack) == head(stack), "the head to be anchored")
    return stack


def verified(stack: Stack, *options: str) -> tuple[int, str]:
    done = stack.kedge_here("audit", "verify", TENANT, *options)
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def read(connection: psycopg.Connection[Row]) -> list[Row]:
    return connection.execute(f"SELECT {COLUMNS} FROM {SCHEMA}.audit_event ORDER BY 1").fetchall()


def write(connection: psycopg.Connection[Row], rows: Sequence[Row], *, with_head: bool) -> None:
    connection.execute(f"DELETE FROM {SCHEMA}.audit_event")
    for row in rows:
        places = ", ".join(["%s"] * len(row))
        connection.execute(f"INSERT INTO {SCHEMA}.audit_event ({COLUMNS}) VALUES ({places})", row)
    if with_head:
        connection.execute(
            f"UPDATE {SCHEMA}.audit_head SET audit_sequence = %s, row_hash = %s", (rows[-1][0], rows[-1][-1])
        )


def rehashed(rows: Sequence[Row]) -> list[Row]:
    """Compute sequence and hashes of a whole chain anew, as a forger would."""
    made: list[Row] = []
    for sequence, row in enumerate(rows, start=1):
        event = ChainedEvent(
            sequence=sequence,
            time=row[1],
            actor=row[2],
            verb=row[3],
            subject=row[4],
            because=row[5],
            payload="",
            payload_hash=row[6],
            previous_hash=made[-1][-1] if made else GENESIS,
            row_hash="",
        )
        made.append((sequence, *row[1:7], event.previous_hash, row_hash(event)))
    return made


@contextmanager
def tampering(stack: Stack) -> Iterator[psycopg.Connection[Row]]:
    """Let the database's owner change the chain, and put it back afterwards."""
    with stack.connect() as connection:
        kept = read(connection)
        try:
            yield connection
        finally:
            write(connection, kept, with_head=True)


def altered(rows: list[Row]) -> list[Row]:
    return [(*row[:5], row[5][:-1] + "X", *row[6:]) if row[0] == 3 else row for row in rows]


def cut(rows: list[Row]) -> list[Row]:
    return rows[:-2]


def rewritten(rows: list[Row]) -> list[Row]:
    return rehashed(altered(rows))


def put_in(rows: list[Row]) -> list[Row]:
    return rehashed([*rows[:5], rows[4], *rows[5:]])


def removed(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[0] != 4]


def test_the_worker_anchors_every_freeze_and_the_chain_agrees(audited: Stack) -> None:
    anchors = read_anchors(audited.data_dir / ANCHOR_FILE, audited.data_dir / PUBLIC_KEY_FILE)
    assert len(of_tenant(anchors, TENANT)) >= 5
    code, said = verified(audited, "--anchor", str(audited.data_dir / ANCHOR_FILE))
    assert (code, "holds" in said, "anchors agree" in said) == (0, True, True), said


@pytest.mark.parametrize(
    ("tamper", "named", "is_seen_without_an_anchor"),
    [(altered, "altered", True), (cut, "missing", False), (rewritten, "rewritten", False), (put_in, "rewritten", False),
     (removed, "removed", True)],
)  # fmt: skip
def test_what_an_owner_of_the_database_did_is_found_and_named(
    audited: Stack, tamper: Callable[[list[Row]], list[Row]], named: str, is_seen_without_an_anchor: bool
) -> None:
    anchor = ("--anchor", str(audited.data_dir / ANCHOR_FILE))
    with tampering(audited) as connection:
        write(connection, tamper(read(connection)), with_head=True)
        without, with_anchor = verified(audited), verified(audited, *anchor)
        exported = audited.kedge_here("audit", "export", TENANT)
    print(f"\n{tamper.__name__}: {with_anchor[1]}")
    assert without[0] == int(is_seen_without_an_anchor), without
    assert with_anchor[0] == 1, with_anchor
    assert named in with_anchor[1] or is_seen_without_an_anchor, with_anchor
    file = audited.data_dir / "export.jsonl"
    file.write_text(exported.stdout, encoding="utf-8")
    offline = verified_offline(audited, file, *anchor)
    assert offline[0] == 1, offline
    assert named in offline[1], offline
    assert verified(audited, *anchor)[0] == 0


def verified_offline(stack: Stack, file: Path, *options: str) -> tuple[int, str]:
    """Verify an export with no server in reach."""
    done = stack.kedge_here("audit", "verify", TENANT, "--events", str(file), *options, KEDGE_ADDRESS="127.0.0.1:1")
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def test_an_export_is_checked_without_a_server(audited: Stack) -> None:
    exported = audited.kedge_here("audit", "export", TENANT).stdout
    file = audited.data_dir / "whole.jsonl"
    file.write_text(exported, encoding="utf-8")
    events = [json.loads(line) for line in exported.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, head(audited) + 1))
    code, said = verified_offline(audited, file, "--anchor", str(audited.data_dir / ANCHOR_FILE))
    assert code == 0, said
    file.write_text(exported[: len(exported) // 2], encoding="utf-8")
    assert verified_offline(audited, file)[0] == 1


def test_anchors_that_cannot_be_written_are_logged_and_counted_and_tried_again(audited: Stack) -> None:
    file = audited.data_dir / ANCHOR_FILE
    kept = file.read_bytes()
    file.unlink()
    file.mkdir()
    with audited.services() as services:
        services.governance.Freeze(governance_service_pb2.FreezeRequest(name=POLICY, because="full disk"))
    log = audited.data_dir / "serve.log"
    wait_for(lambda: "audit.not_anchored" in log.read_text(encoding="utf-8"), "the failure to be logged")
    file.rmdir()
    file.write_bytes(kept)
    os.sync()
    wait_for(lambda: anchored(audited) == head(audited), "the head to be anchored after all")
