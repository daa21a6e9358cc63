"""`kedge incident`: alarms that tripped, until a person has written down their cause."""

from typing import Annotated

import typer
from rich.console import Console

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.entrypoints.client import connected
from kedge_bandit.entrypoints.documents import document_of, enum_text
from kedge_bandit.entrypoints.printing import Because, JsonFlag, KedgeGroup, TenantName, answer, table

incidents = typer.Typer(cls=KedgeGroup, help="Take on and close alarms that tripped.", no_args_is_help=True)

IncidentName = Annotated[str, typer.Argument(metavar="INCIDENT", help="tenants/TENANT/incidents/NUMBER, as listed.")]


@incidents.command("list")
def list_incidents(
    tenant: TenantName,
    *,
    limit: Annotated[int, typer.Option(help="How many of the newest.", min=1, max=1000)] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List incidents, newest first."""
    with connected() as client:
        request = pb.ListIncidentsRequest(parent=f"tenants/{tenant}", page_size=limit)
        found = client.call(client.governance.ListIncidents, request).incidents
    rows = [
        (
            incident.name,
            incident.policy.rpartition("/")[2],
            enum_text(pb.IncidentState.DESCRIPTOR, incident.state),
            incident.detector,
            incident.open_time.ToJsonString(),
            incident.owner,
            incident.cause or incident.evidence,
        )
        for incident in found
    ]
    columns = ("incident", "policy", "state", "detector", "opened", "owner", "cause, or what tripped")

    def show(out: Console) -> None:
        out.print(table("Incidents", columns, rows))

    answer([document_of(incident) for incident in found], show, as_json=as_json)


@incidents.command()
def acknowledge(incident: IncidentName, *, because: Because, as_json: JsonFlag = False) -> None:
    """Take an incident on: you are its owner then."""
    with connected() as client:
        request = pb.AcknowledgeIncidentRequest(name=incident, because=because)
        found = client.call(client.governance.AcknowledgeIncident, request).incident
    line = f"{found.name} belongs to {found.owner}"
    answer(document_of(found), lambda out: out.print(line, highlight=False, markup=False), as_json=as_json)


@incidents.command()
def close(
    incident: IncidentName,
    *,
    cause: Annotated[str, typer.Option("--cause", help="What it was, for the audit log; 1 to 1,000 characters.")],
    as_json: JsonFlag = False,
) -> None:
    """Close an incident with its cause; ramps of its policy go on."""
    with connected() as client:
        request = pb.CloseIncidentRequest(name=incident, cause=cause)
        found = client.call(client.governance.CloseIncident, request).incident
    line = f"{found.name} is closed"
    answer(document_of(found), lambda out: out.print(line, highlight=False, markup=False), as_json=as_json)
