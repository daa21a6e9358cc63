"""`kedge-trainer envs`: list, describe, evaluate, headline, play, serve and infer, for whatever is registered."""

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from kedge_trainer.adapters.environments import GROUNDS, load
from kedge_trainer.adapters.openenv_client import session
from kedge_trainer.adapters.reports import as_json, write_json
from kedge_trainer.adapters.server_process import become_server
from kedge_trainer.application.evaluate import HELD_OUT, Evaluation, allow, evaluate, seeds_of
from kedge_trainer.application.infer import SUCCESS, Move, infer
from kedge_trainer.application.ports import Ground
from kedge_trainer.domain.errors import CannotWrite, UnknownTask
from kedge_trainer.domain.splits import TrainingSplit, seed_of
from kedge_trainer.entrypoints import show
from kedge_trainer.entrypoints.gym import serve_gym
from kedge_trainer.entrypoints.headlines import RESULTS, figures, show_headline
from kedge_trainer.entrypoints.playing import play_in_terminal
from kedge_trainer.entrypoints.settings import model_from_environment

envs = typer.Typer(no_args_is_help=True, help="Environments: verified training grounds.")
envs.command("headline")(show_headline)
envs.command("gym")(serve_gym)

Name = Annotated[str, typer.Argument(help="an environment of `envs list`")]
Task = Annotated[str | None, typer.Option(help="a task of the environment; the first unless told")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]


def _task(ground: Ground, asked: str | None) -> str:
    if asked is not None and asked not in ground.TASKS:
        raise UnknownTask(asked, ground.TASKS)
    return asked or next(iter(ground.TASKS))


@envs.command("list")
def list_environments(*, as_document: Json = False) -> None:
    """List what is registered."""
    grounds = [load(name) for name in GROUNDS]
    if as_document:
        show.print_json([{"name": one.NAME, "version": one.VERSION, "summary": one.SUMMARY} for one in grounds])
        return
    show.print_rows(["environment", "version", "what"], ([one.NAME, one.VERSION, one.SUMMARY] for one in grounds))


@envs.command()
def describe(name: Name, *, as_document: Json = False) -> None:
    """Show tasks, policies, splits, action schema and what a language model is told."""
    ground = load(name)
    task = next(iter(ground.TASKS))
    if as_document:
        show.print_json(
            {
                "name": ground.NAME,
                "version": ground.VERSION,
                "summary": ground.SUMMARY,
                "tasks": dict(ground.TASKS),
                "policies": dict(ground.POLICIES),
                "privileged": sorted(ground.PRIVILEGED),
                "splits": {split: [seeds[0], seeds[-1]] for split, seeds in ground.SPLITS.items()},
                "maximum": dict(ground.MAXIMUM),
                "action_schema": dict(ground.ACTION_SCHEMA),
                "instructions": ground.instructions(task),
            }
        )
        return
    show.out.print(f"{ground.NAME} {ground.VERSION}: {ground.SUMMARY}\n", highlight=False)
    maxima = ground.MAXIMUM
    show.print_rows(
        ["task", "oracle's grade", "what"], ([t, f"{maxima[t]:.2f}", ground.TASKS[t]] for t in ground.TASKS)
    )
    show.out.print()
    show.print_rows(
        ["policy", "sees", "what"],
        ([p, "all" if p in ground.PRIVILEGED else "observations", text] for p, text in ground.POLICIES.items()),
    )
    show.out.print(f"\nA language model is told:\n{ground.instructions(task)}", markup=False, highlight=False)


@envs.command("evaluate")
def evaluate_policies(
    name: Name,
    *,
    policy: Annotated[
        list[str] | None, typer.Option(help="may be given several times; random and the oracle unless told")
    ] = None,
    task: Task = None,
    seeds: Annotated[int, typer.Option(min=1, help="episodes, on the first seeds of the split")] = 500,
    split: Annotated[str, typer.Option(help="test, or dev or train while something is being chosen")] = HELD_OUT,
    url: Annotated[str | None, typer.Option(help="play on a running server instead of in this process")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="write PNG and SVG too")] = False,
    out: Annotated[
        Path | None, typer.Option(help="file stem of what is written; build/envs-results/NAME-TASK-SPLIT unless told")
    ] = None,
    as_document: Json = False,
) -> None:
    """Measure policies on held-out seeds: means with 95 % intervals, written as JSON."""
    ground = load(name)
    chosen_task, drawing = _task(ground, task), figures() if plot else None
    found: list[Evaluation] = []
    for one in policy or ["random", ground.ORACLE]:
        measure = partial(
            evaluate, ground, task=chosen_task, policy=one, split=split, episodes=seeds,
            watch=partial(show.with_progress, one),
        )  # fmt: skip
        if url is None:
            found.append(measure())
            continue
        with session(url) as remote:
            found.append(measure(start=remote.start))
    written = _write(found, out, drawing)
    if as_document:
        show.print_json([as_json(one) for one in found])
        return
    show.print_evaluations(found)
    show.out.print(f"written: {', '.join(map(str, written))}", highlight=False, markup=False, soft_wrap=True)


def _write(found: list[Evaluation], out: Path | None, drawing: ModuleType | None) -> list[Path]:
    """Write what was found; figures of an earlier run under our own name go, since they would show other numbers."""
    first = found[0]
    stem = out or RESULTS / f"{first.environment}-{first.task}-{first.split}"
    try:
        if out is None:
            for drawn in (Path(f"{stem}.png"), Path(f"{stem}.svg")):
                drawn.unlink(missing_ok=True)
        return [write_json(found, stem), *(drawing.draw(found, stem) if drawing else [])]
    except OSError as failure:
        raise CannotWrite(failure.filename or stem, failure.strerror or str(failure)) from failure


@envs.command()
def play(
    name: Name,
    *,
    task: Task = None,
    seed: Annotated[int, typer.Option(help="index of a seed of the split")] = 0,
    split: Annotated[TrainingSplit, typer.Option(help="train or dev")] = TrainingSplit.TRAIN,
    policy: Annotated[str | None, typer.Option(help="let a policy play instead of asking for each action")] = None,
) -> None:
    """Step through one episode in the terminal."""
    ground = load(name)
    chosen = _task(ground, task)
    allow(ground, chosen, split)
    play_in_terminal(ground, chosen, seed_of(split, seed), policy)


@envs.command()
def serve(
    name: Name,
    *,
    host: Annotated[str, typer.Option()] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="the manifest's port unless told")] = None,
    python: Annotated[
        str, typer.Option(help="the interpreter that has OpenEnv; in a checkout build/envs/bin/python")
    ] = sys.executable,
    held_out: Annotated[bool, typer.Option("--held-out", help="also play the test split: for evaluation only")] = False,
) -> None:
    """Serve an environment by the OpenEnv protocol until stopped."""
    asked = load(name).PORT if port is None else port
    become_server(name, python=python, host=host, port=asked, held_out=held_out)


@envs.command("infer")
def infer_with_model(
    name: Name,
    *,
    task: Task = None,
    split: Annotated[str, typer.Option(help="train, dev or test")] = HELD_OUT,
    seeds: Annotated[int, typer.Option(min=1, help="episodes, on the first seeds of the split")] = 1,
) -> None:
    """Let the model of API_BASE_URL, MODEL_NAME and HF_TOKEN play; prints START, STEP and END lines."""
    ground, model = load(name), model_from_environment()
    chosen, to_play = _task(ground, task), seeds_of(split, seeds)
    allow(ground, chosen, split)
    for seed in to_play:
        show.out.print(f"START task={chosen} env={name} model={model.name} seed={seed}", highlight=False, markup=False)
        rewards: list[float] = []
        metrics = infer(ground, chosen, seed, model=model, watch=partial(_print_step, rewards))
        success = str(metrics["grade"] >= SUCCESS).lower()
        listed = ",".join(f"{reward:.2f}" for reward in rewards)
        line = f"END success={success} steps={len(rewards)} score={metrics['grade']:.4f} rewards={listed}"
        show.out.print(line, highlight=False, markup=False, soft_wrap=True)


def _print_step(rewards: list[float], move: Move) -> None:
    rewards.append(move.reward)
    action = json.dumps(dict(move.action), separators=(",", ":"))
    line = f"STEP n={move.number} action={action} reward={move.reward:.2f} done={str(move.over).lower()}"
    line += f" error={move.error or 'null'}"
    show.out.print(line, highlight=False, markup=False, soft_wrap=True)
