import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kedge_demo.audit import load_audit, save_audit
from kedge_demo.counts import Play, Stage, TenantCounts, write_play
from kedge_demo.export_log import write_export
from kedge_demo.facts import read_facts
from kedge_demo.page import whole_page
from kedge_demo.page_model import Event, Facts, Frozen, Page
from kedge_demo.plain import read_plain
from kedge_demo.trajectory import final_state, trajectory
from kedge_demo.verdicts import verdicts
from kedge_demo.world import episode_id
from kedge_demo.worlds import SEED, build_worlds
from tests.demo.stand_in import TenantRecord

SCALE = 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run's folder as play and measure leave it."""
    out = tmp_path_factory.mktemp("run")
    (out / "export").mkdir()
    tenants = {}
    for world in build_worlds(scale=SCALE):
        record, counted = TenantRecord(world=world), TenantCounts(episodes=world.turns)
        counted.stages = [Stage(turn=0, floor=0.8, uniform_slice=0.1), Stage(turn=9, floor=0.05, uniform_slice=0.02)]
        for turn in range(world.turns):
            action = record.decide(episode_id(turn))
            record.logged[episode_id(turn)] = trajectory(world, turn, action)
            state = final_state(world, turn, action, judged=bool(record.judged[turn]))
            counted.states[state] = counted.states.get(state, 0) + 1
        write_export(out / "export" / f"{world.tenant}.bin", record.export())
        tenants[world.tenant] = counted
    write_play(out, Play(seed=SEED, scale=SCALE, seconds=2.0, tenants=tenants))
    subprocess.run([sys.executable, "-m", "kedge_demo.measure", "--out", str(out)], check=True)
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return read_plain(Page, json.loads((folder / "page.json").read_text(encoding="utf-8")))


def test_the_report_has_every_promised_key(folder: Path) -> None:
    tenants = json.loads((folder / "report.json").read_text(encoding="utf-8"))["tenants"]
    promised = {
        "name", "decisions", "quality_last_third", "best_single_same_turns", "bucket_oracle_quality",
        "flatterer_share_late", "breaker_share_late", "replay_mismatches", "rebuild_max_error", "self_check_p",
        "episodes_unaccounted",
    }  # fmt: skip
    assert [tenant["name"] for tenant in tenants] == ["a-routing", "b-arithmetic", "c-prompting"]
    assert all(promised <= set(tenant) for tenant in tenants)


def test_the_page_asks_nothing_of_anyone(page: Page) -> None:
    html = whole_page(page, Facts())
    assert re.findall(r"https?:|//[a-z]|<script|<link|<img|<iframe|@import|url\(|src=", html) == []


def test_every_drawing_is_well_formed_and_has_a_label(page: Page) -> None:
    drawings = re.findall(r"<svg.*?</svg>", whole_page(page, Facts()), re.DOTALL)
    assert len(drawings) == 6 * len(page.tenants)
    for drawing in drawings:
        assert ElementTree.fromstring(drawing).get("aria-label")  # noqa: S314 - our own page
        assert "nan" not in drawing


def test_what_others_said_is_escaped(page: Page) -> None:
    frozen = Frozen(
        tenant="a-routing",
        asked=3,
        baseline_served=3,
        reasons={"FROZEN": 3},
        baseline="gemma-2-9b-it",
        because="<script>alert(1)</script>",
    )
    assert "<script" not in whole_page(page, Facts(frozen=frozen))


def test_a_planted_share_over_five_percent_fails_its_check(page: Page) -> None:
    first = page.tenants[0]
    greedy = replace(first, figures=replace(first.figures, flatterer_share_late=0.07))
    judged = verdicts(replace(page, scale=1.0, tenants=[greedy, *page.tenants[1:]]), Facts())
    failed = {one.name for one in judged if not one.passed}
    assert "flatterer's late traffic" in failed
    assert "decisions that do not replay" not in failed


def test_a_second_computation_that_differs_is_shown_and_fails(folder: Path, page: Page) -> None:
    inside = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    inside["tenants"][1]["decisions"] += 1
    (folder / "inside.json").write_text(json.dumps(inside), encoding="utf-8")
    facts = read_facts(folder, None)
    (folder / "inside.json").unlink()
    assert facts.differences is not None
    assert len(facts.differences) == 1
    verdict = next(one for one in verdicts(page, facts) if one.name.startswith("second computation"))
    assert (verdict.passed, verdict.values[1]) == (False, "1 keys differ")


def test_the_conductors_facts_are_read_and_what_is_not_known_is_left_alone(folder: Path, tmp_path: Path) -> None:
    given = {
        "proofs": {
            "a-routing": {
                "rebuild": {"evidence_rows": 9, "cells": 3, "max_error": 1e-15, "agrees": True},
                "replay": {"replayed": 1000, "mismatches": 0, "max_error": 0.0, "differing": []},
            }
        },
        "freeze": {"tenant": "a-routing"},
    }
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    facts = read_facts(folder, path)
    assert facts.rebuilt["a-routing"].agrees
    assert facts.replayed["a-routing"].replayed == 1000
    assert facts.frozen is None


def test_an_audit_log_read_again_takes_the_place_of_the_older_one(tmp_path: Path) -> None:
    event = Event(sequence=1, time="12:00:00", actor="operator", verb="policy.put", subject="p", because="demo")
    save_audit(tmp_path, {"a": [event], "b": [event]})
    save_audit(tmp_path, {"a": [event, replace(event, sequence=2)]})
    assert {tenant: len(events) for tenant, events in load_audit(tmp_path).items()} == {"a": 2, "b": 1}


def test_the_report_writes_the_page_and_says_by_its_exit_whether_all_holds(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kedge_demo.report", "--out", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == (0 if all(check["passed"] for check in checks) else 1)
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_unknown_fields_of_plain_data_are_refused(page: Page) -> None:
    with pytest.raises(ValueError, match="surprise"):
        read_plain(Page, asdict(page) | {"surprise": 1})
