"""Test how benches are run and judged, with benches that measure nothing."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.figures import Bar, Bench, Control, Report, Row, Setting, Verdict
from tests.bench.http2_load import percentile
from tests.bench.registry import BENCHES
from tests.bench.runner import RERUNS, Finished, run_benches, succeeded

STILL = Control("still", [1.0, 1.29])
DRIFTED = Control("drifted", [1.0, 1.31])


def bench_of(*reports: Report) -> Bench:
    """Make a bench that gives one report after another, and the last one for ever."""
    left: Iterator[Report] = iter(reports)
    last = reports[-1]

    def bench(_setting: Setting) -> Report:
        return next(left, last)

    return bench


def timed(value: float, *controls: Control) -> Report:
    return Report(rows=[Row(name="ratio", value=value, bar=Bar(at_most=1.0), timed=True)], controls=list(controls))


def run(folder: Path, **benches: Bench) -> tuple[list[Finished], str]:
    out = StringIO()
    finished = run_benches(benches, folder=folder, console=Console(file=out, width=160))
    return finished, out.getvalue()


def test_the_benches_of_this_issue_are_registered() -> None:
    assert {"exact_p", "beta_regret", "reward_masks", "decide"} <= set(BENCHES)


def test_a_figure_within_its_bar_passes_and_is_written_as_table_and_json(tmp_path: Path) -> None:
    (finished,), table = run(tmp_path, fast=bench_of(timed(0.5, STILL)))

    assert succeeded([finished])
    assert "ratio" in table
    assert "<= 1" in table
    written = json.loads((tmp_path / "fast.json").read_text(encoding="utf-8"))
    assert written["verdict"] == "pass"
    assert {k: written["rows"][0][k] for k in ("name", "value", "bar", "pass")} == {
        "name": "ratio",
        "value": 0.5,
        "bar": "<= 1",
        "pass": True,
    }
    assert written["controls"] == [{"name": "still", "drift": 0.29, "rounds": [1.0, 1.29]}]
    assert {"cores", "python", "versions", "revision", "load_average"} <= set(written["machine"])
    assert {"time", "seconds", "seeds", "runs"} <= set(written)


def test_a_figure_beyond_its_bar_fails(tmp_path: Path) -> None:
    finished, _ = run(tmp_path, slow=bench_of(timed(1.5, STILL)), fast=bench_of(timed(0.5, STILL)))

    assert [bench.verdict for bench in finished] == [Verdict.FAIL, Verdict.PASS]
    assert not succeeded(finished)


def test_a_bench_whose_control_drifted_is_run_again_until_it_holds_still(tmp_path: Path) -> None:
    (finished,), _ = run(tmp_path, fast=bench_of(timed(0.5, DRIFTED), timed(0.5, STILL)))

    assert (finished.verdict, finished.runs) == (Verdict.PASS, 2)


def test_a_control_that_never_holds_still_ends_without_a_verdict_which_is_no_success(tmp_path: Path) -> None:
    (finished,), _ = run(tmp_path, fast=bench_of(timed(0.5, STILL, DRIFTED)))

    assert (finished.verdict, finished.runs) == (Verdict.NO_VERDICT, 1 + RERUNS)
    assert not succeeded([finished])


def test_what_needs_no_quiet_machine_fails_at_once_even_if_a_control_drifted(tmp_path: Path) -> None:
    wrong = Report(rows=[Row(name="lost rows", value=1.0, bar=Bar(at_most=0.0))], controls=[DRIFTED])
    (finished,), _ = run(tmp_path, wrong=bench_of(wrong))

    assert (finished.verdict, finished.runs) == (Verdict.FAIL, 1)


def test_a_broken_bench_is_no_success_and_hides_no_other(tmp_path: Path) -> None:
    def broken(_setting: Setting) -> Report:
        raise RuntimeError("no tool")

    finished, shown = run(tmp_path, broken=broken, fast=bench_of(timed(0.5)))

    assert [bench.verdict for bench in finished] == [Verdict.BROKEN, Verdict.PASS]
    assert not succeeded(finished)
    assert "no tool" in shown
    assert "no tool" in json.loads((tmp_path / "broken.json").read_text(encoding="utf-8"))["error"]


@pytest.mark.parametrize(("value", "admitted"), [(0.24, False), (0.25, True), (0.7, True), (0.71, False)])
def test_a_bar_admits_its_own_bounds(value: float, admitted: bool) -> None:
    assert Bar(at_least=0.25, at_most=0.7).admits(value) is admitted


def test_no_bar_admits_a_figure_that_is_not_a_number() -> None:
    assert not Bar(at_most=1.0).admits(float("nan"))
    assert not Bar(at_least=0.0).admits(float("nan"))


def test_a_figure_without_a_bar_is_only_shown(tmp_path: Path) -> None:
    (finished,), _ = run(tmp_path, shown=bench_of(Report(rows=[Row(name="speed", value=5.0)], controls=[DRIFTED])))

    assert finished.verdict is Verdict.PASS


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(i) for i in range(1, 101)], 0.99) == 99.0
