"""The command line: `kedge`. One file a noun under `commands`; only the file of the command that runs is loaded.

`kedge freeze` has to be quick, and what serves and proves needs a database toolkit that the switch does not.
"""

from importlib import import_module
from typing import Any

import typer

from kedge_bandit.entrypoints.printing import KedgeGroup, with_plain_flags

COMMANDS = {
    "serve": "serve:serve",
    "demo": "demo:demo",
    "up": "up:up",
    "down": "up:down",
    "tenant": "tenants:tenants",
    "erase-user": "tenants:erase_user",
    "key": "credentials:keys",
    "identity": "credentials:identities",
    "can": "can:may",
    "policy": "policies:policies",
    "proposal": "proposals:proposals",
    "holdout": "holdouts:holdouts",
    "plan": "files:plan",
    "apply": "files:apply",
    "export": "files:export",
    "ramp": "ramps:ramps",
    "incident": "incidents:incidents",
    "experiment": "experiments:experiments",
    "kpi": "kpis:kpi",
    "divergence": "divergence:divergence",
    "webhook": "webhooks:webhooks",
    "decide": "decisions:decide",
    "explain": "decisions:explain",
    "decisions": "look:decisions",
    "episodes": "look:episodes",
    "episode": "look:episode",
    "belief": "look:belief",
    "history": "look:history",
    "freeze": "govern:freeze",
    "unfreeze": "govern:unfreeze",
    "mode": "govern:mode",
    "status": "status:status",
    "evaluate": "evaluate:evaluate",
    "readiness": "readiness:readiness",
    "rebuild": "rebuild:rebuild",
    "replay": "replay:replay",
    "log": "log:log",
    "retain": "retain:retain",
    "import": "imports:imports",
    "audit": "audit:audit",
    "console": "console_links:console",
    "bench": "bench:bench",
}
"""File under `commands` and name in it, by command: a function, or a Typer with commands of its own."""


class Kedge(KedgeGroup):
    """The first word after `kedge`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name every command, in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"kedge_bandit.entrypoints.commands.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(cmd_name)(found)
            return with_plain_flags(typer.main.get_command(alone), ctx)
        group = typer.main.get_group(found)
        group.name = cmd_name
        return group


app = typer.Typer(cls=Kedge, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def kedge() -> None:
    """Choose model route, reasoning depth and prompt variant; learn from outcomes; stay safe."""


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
