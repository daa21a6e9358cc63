"""`kedge retain`: let months go that are older than a tenant keeps them, without waiting for the worker's next hour."""

import asyncio
from datetime import date

from kedge_bandit.domain.identifiers import TenantId, tenant_id
from kedge_bandit.entrypoints.direct import open_database
from kedge_bandit.entrypoints.printing import JsonFlag, TenantName, answer
from kedge_bandit.entrypoints.retention import let_months_go


def retain(tenant: TenantName, *, as_json: JsonFlag = False) -> None:
    """Drop every month of raw rows that is due, after its evidence is folded into the signed snapshot."""
    gone = asyncio.run(_gone(tenant_id(tenant)))
    document = [{"month": month.isoformat()[:7], "rows": rows} for month, rows in gone]
    lines = [f"{each['month']} is gone: {each['rows']} rows" for each in document] or ["no month is due"]
    answer(document, lambda out: out.print("\n".join(lines), highlight=False), as_json=as_json)


async def _gone(tenant: TenantId) -> list[tuple[date, int]]:
    async with open_database() as engine:
        return await let_months_go(engine, tenant)
