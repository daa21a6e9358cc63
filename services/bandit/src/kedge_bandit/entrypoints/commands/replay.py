"""`kedge replay`: recompute decisions from the database alone, in a process of its own."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.replay import Replay, Replayed
from kedge_bandit.domain.identifiers import PolicyName, TenantId, policy_name, tenant_id
from kedge_bandit.entrypoints.direct import open_database
from kedge_bandit.entrypoints.documents import Document
from kedge_bandit.entrypoints.printing import FailedCheck, JsonFlag, TenantName, answer, table

_SHOWN = 20


def replay(
    tenant: TenantName,
    policy: Annotated[str, typer.Argument(metavar="POLICY", help="One policy; left out: all of the tenant.")] = "",
    *,
    sample: Annotated[int, typer.Option(min=1, help="Decisions of each policy, picked at random.")] = 1000,
    as_json: JsonFlag = False,
) -> None:
    """Recompute decisions from the database alone, in this process; ends with 1 where one differs."""
    replayed = asyncio.run(_replayed(tenant_id(tenant), policy, sample))
    wrong = [each for each in replayed if not each.matches]
    document = {
        "replayed": len(replayed),
        "mismatches": len(wrong),
        "max_error": max((each.vector_error for each in replayed), default=0.0),
        "differing": [_document(each) for each in wrong[:_SHOWN]],
    }
    answer(document, lambda out: _show(out, replayed, wrong), as_json=as_json)
    if wrong:
        raise FailedCheck(f"{len(wrong)} of {len(replayed)} decisions cannot be recomputed from the log")


async def _replayed(tenant: TenantId, policy: str, size: int) -> list[Replayed]:
    async with open_database() as engine:
        ledgers = PostgresLedgers(engine)
        names = [await _existing(ledgers, tenant, policy_name(policy))] if policy else await _policies(ledgers, tenant)
        replays = Replay(ledgers)
        done: list[Replayed] = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for name in progress.track(names, description="replaying"):
                done += await replays.sample(tenant, name, size=size)
        return done


async def _policies(ledgers: PostgresLedgers, tenant: TenantId) -> Sequence[PolicyName]:
    async with ledgers.open(tenant) as ledger:
        return [policy.name for policy in await ledger.policies.list()]


async def _existing(ledgers: PostgresLedgers, tenant: TenantId, name: PolicyName) -> PolicyName:
    async with ledgers.open(tenant) as ledger:
        return (await ledger.policies.get(name)).name


def _document(replayed: Replayed) -> Document:
    return {
        "decision_id": replayed.decision_id,
        "vector_error": replayed.vector_error,
        "stored_action": replayed.stored_action,
        "recomputed_action": replayed.recomputed_action,
        "detail": replayed.detail,
    }


def _show(out: Console, replayed: Sequence[Replayed], wrong: Sequence[Replayed]) -> None:
    largest = max((each.vector_error for each in replayed), default=0.0)
    out.print(f"{len(replayed)} decisions replayed, {len(wrong)} differ; largest difference {largest:.2g}")
    if wrong:
        rows = [(each.decision_id, each.detail) for each in wrong[:_SHOWN]]
        out.print(table("Differing", ("decision", "what differs"), rows))
