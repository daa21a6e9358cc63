"""The command line: `kedge-trainer`."""

import sys

import typer

from kedge_trainer.domain.errors import TrainerError
from kedge_trainer.entrypoints.envs import envs
from kedge_trainer.entrypoints.show import complain

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
app.add_typer(envs, name="envs")


@app.callback()
def kedge_trainer() -> None:
    """Play, measure and serve the verified training grounds."""


def main() -> None:
    """Run the command line; an expected failure is one sentence with its reason, and the exit code 1."""
    try:
        app()
    except TrainerError as failure:
        complain(failure)
        sys.exit(1)


if __name__ == "__main__":
    main()
