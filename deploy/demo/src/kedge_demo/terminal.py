"""Print the report on a terminal: figures, planted arms, checks, freeze."""

from rich.console import Console
from rich.table import Table

from kedge_demo.page_model import Facts, Page
from kedge_demo.verdicts import verdicts
from kedge_demo.words import between, interval, percent, planted_sentences, points


def print_report(page: Page, facts: Facts, console: Console) -> None:
    """Print everything that the page says in figures."""
    console.print(_quality(page))
    for tenant in page.tenants:
        for sentence in planted_sentences(tenant):
            console.print(f"{tenant.name}: {sentence}", highlight=False, markup=False)
    console.print(_checks(page, facts))
    frozen = facts.frozen
    if frozen is not None:
        console.print(
            f"{frozen.tenant} was frozen: asked {frozen.asked} times, it served the baseline {frozen.baseline} "
            f"{frozen.baseline_served} times.",
            highlight=False,
            markup=False,
        )


def _quality(page: Page) -> Table:
    table = Table(title="Last third of each run, floor and slice included", title_justify="left")
    table.add_column("tenant")
    for name in ("decisions", "quality", "95 %", "best single", "points", "95 %", "bucket oracle", "baseline", "value"):
        table.add_column(name, justify="right")
    for tenant in page.tenants:
        found = tenant.figures
        table.add_row(
            tenant.name,
            f"{found.decisions:,}",
            percent(found.quality_last_third),
            interval(found.quality_interval),
            percent(found.best_single_same_turns),
            points(found.lift_interval.mean),
            between(found.lift_interval),
            percent(found.bucket_oracle_quality),
            percent(found.baseline_quality),
            f"{points(tenant.value_lift.mean)} ({between(tenant.value_lift)})",
        )
    table.caption = "value: true reward with cost and latency priced in, points against the best single action"
    table.caption_justify = "left"
    return table


def _checks(page: Page, facts: Facts) -> Table:
    table = Table(title="Checks, from the export and the truth alone", title_justify="left")
    table.add_column("check")
    for tenant in page.tenants:
        table.add_column(tenant.name, justify="right")
    table.add_column("must be")
    table.add_column("")
    for verdict in verdicts(page, facts):
        mark = "[green]✓[/]" if verdict.passed else "[bold red]✗[/]"
        table.add_row(verdict.name, *verdict.values, verdict.bar, mark)
    return table
