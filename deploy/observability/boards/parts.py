"""What the boards are made of: variables, annotations, links, and panels that differ in their queries alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.dashboard import DataSourceRef

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
CONSOLE = {
    "Tenant": "/tenants/${tenant}",
    "Incidents": "/tenants/${tenant}/incidents",
    "Audit": "/tenants/${tenant}/audit",
}
"""Pages of the console that every board leads to."""
POLICY = 'tenant=~"$tenant", policy=~"$policy"'
"""Selects the series of the chosen policies."""
TENANT = 'tenant=~"$tenant"'
HEIGHT = 8


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel, and how its series are named."""

    expr: str
    legend: str


Panel = Builder[models.Panel]


def lines(title: str, about: str, *queries: Query, unit: str = "short", width: int = 12) -> timeseries.Panel:
    """Draw series over time.

    Args:
        about: what a person reads off it, in a sentence.
        unit: Grafana's id of a unit.
        width: of 24 columns.
    """
    panel = timeseries.Panel().title(title).description(about).unit(unit).span(width).height(HEIGHT)
    panel = panel.datasource(SOURCE).line_width(2).fill_opacity(0).show_points(common_models.VisibilityMode.NEVER)
    panel = panel.tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
    return panel.targets([_target(number, query) for number, query in enumerate(queries)])


def number(title: str, about: str, query: Query, *, unit: str = "short", width: int = 4) -> stat.Panel:
    """Show the newest value of each series as a number."""
    panel = stat.Panel().title(title).description(about).unit(unit).span(width).height(HEIGHT // 2)
    reduced = common.ReduceDataOptions().calcs(["lastNotNull"])
    return panel.datasource(SOURCE).reduce_options(reduced).targets([_target(0, query, is_instant=True)])


def _target(place: int, query: Query, *, is_instant: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().datasource(SOURCE).ref_id(chr(ord("A") + place))
    target = target.expr(query.expr).legend_format(query.legend)
    return target.instant() if is_instant else target.range()


def banded(panel: timeseries.Panel, name: str, color: str) -> timeseries.Panel:
    """Draw a series of a panel in a colour, with the band between `NAME lower` and `NAME upper`."""
    fixed = {"mode": "fixed", "fixedColor": color}
    hidden = {"legend": True, "tooltip": False, "viz": False}
    edge = [("color", fixed), ("custom.lineWidth", 0), ("custom.hideFrom", hidden)]
    upper = [*edge, ("custom.fillBelowTo", f"{name} lower"), ("custom.fillOpacity", 15)]
    for series, properties in ((name, [("color", fixed)]), (f"{name} lower", edge), (f"{name} upper", upper)):
        panel = panel.override_by_name(series, [models.DynamicConfigValue(key, value) for key, value in properties])
    return panel


def board(uid: str, title: str, about: str, rows: Sequence[tuple[str, Sequence[Panel]]]) -> models.Dashboard:
    """Lay a board out: panels under headings, with the variables, annotations and links that all boards have."""
    made = dashboard.Dashboard(f"Kedge: {title}").uid(f"kedge-{uid}").description(about).tags(["kedge"])
    made = made.time("now-24h", "now").refresh("1m").timezone("utc").tooltip(models.DashboardCursorSync.CROSSHAIR)
    made = made.editable().variables(_variables()).annotations(_annotations()).links(_links())
    for heading, panels in rows:
        made = made.with_row(dashboard.Row(heading))
        for panel in panels:
            made = made.with_panel(panel)
    return _tidied(made.build())


def _tidied(made: models.Dashboard) -> models.Dashboard:
    """Number the panels, and leave out what the builder writes and Grafana's types do not know."""
    for place, panel in enumerate(made.panels or (), start=1):
        panel.id_val = place
    for variable in made.templating.list_val or ():
        variable.auto = variable.auto_min = variable.auto_count = None
    return made


def _variables() -> list[Builder[models.VariableModel]]:
    tenant = _choice("tenant", "label_values(kedge_mode, tenant)")
    policy = _choice("policy", 'label_values(kedge_mode{tenant=~"$tenant"}, policy)').include_all(True).multi(True)
    everything = models.VariableOption(selected=True, text="All", value="$__all")
    return [
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        tenant,
        policy.current(everything),
        dashboard.IntervalVariable("interval").label("Interval").values("5m,15m,1h,6h,1d"),
        dashboard.TextBoxVariable("console").label("Console").default_value("http://127.0.0.1:8090"),
    ]


def _choice(name: str, query: str) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(name).label(name.capitalize()).datasource(SOURCE).query(query)
    made = made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return made.sort(models.VariableSort.ALPHABETICAL_ASC)


_EVENTS = {
    "Freeze": (f"kedge_mode{{{POLICY}}} >= 2 unless kedge_mode{{{POLICY}}} offset 1m >= 2", "red"),
    "Unfreeze": (f"kedge_mode{{{POLICY}}} < 2 and kedge_mode{{{POLICY}}} offset 1m >= 2", "green"),
    "Promotion": (f'delta(kedge_proposals{{{TENANT}, state="SERVING"}}[2m]) > 0', "purple"),
    "Ramp step": (f"increase(kedge_ramp_steps_total{{{POLICY}}}[2m]) > 0", "blue"),
    "Model change": (f"increase(kedge_known_changes_total{{{POLICY}}}[2m]) > 0", "orange"),
    "Configuration": (f"changes(kedge_policy_version{{{POLICY}}}[2m]) > 0", "gray"),
}


def _annotations() -> list[Builder[models.AnnotationQuery]]:
    return [
        dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color).expr(expr)
        for name, (expr, color) in _EVENTS.items()
    ]


def _links() -> list[Builder[models.DashboardLink]]:
    pages = [
        dashboard.DashboardLink(title).type(models.DashboardLinkType.LINK).url(f"${{console}}{path}").target_blank(True)
        for title, path in CONSOLE.items()
    ]
    boards = dashboard.DashboardLink("Boards").type(models.DashboardLinkType.DASHBOARDS).tags(["kedge"])
    return [*pages, boards.as_dropdown(True).include_vars(True).keep_time(True)]


def to_json(made: models.Dashboard) -> str:
    """Write a board as the file that Grafana imports, the same text every time."""
    return json.dumps(made, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
