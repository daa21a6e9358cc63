"""Choose against the golden file, which clients in every language read as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import PLAIN, Wish, choose
from kedge_bandit.domain.mode import Mode
from tests.golden import choose as golden

FILE = Path(golden.__file__).with_suffix(".json")
GOLDEN: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))


def test_the_golden_file_is_what_its_writer_writes() -> None:
    built = json.loads(json.dumps(golden.build()))

    for part in ("allocations", "choices", "judges"):
        assert built[part] == GOLDEN[part]


def test_the_golden_choices_meet_every_reason_that_a_choice_can_have() -> None:
    met = {row["reason"] for row in GOLDEN["choices"]}

    of_the_server = {Reason.STALE, Reason.ERROR, Reason.BEST_ACTION, Reason.CAP, Reason.OVER_QUOTA}
    assert met == set(Reason) - of_the_server


@pytest.mark.parametrize("place", range(len(golden.ALLOCATIONS)))
def test_every_golden_choice_holds_bit_for_bit(place: int) -> None:
    source = golden.ALLOCATIONS[place]
    for row in GOLDEN["choices"]:
        if row["allocation"] != place:
            continue
        wish = Wish(
            available=tuple(row["available"]),
            pinned=row["pinned"],
            no_exploration=row["no_exploration"],
            in_tool_loop=row["in_tool_loop"],
        )
        u = uniform("acme", "support", row["episode_id"], source.seed_epoch, source.version)
        made = choose(source, PLAIN if wish == PLAIN else wish, Mode(row["mode"]), u)
        assert (made.index, made.propensity, made.reason, made.is_randomised) == (
            row["chosen"],
            row["propensity"],
            row["reason"],
            row["is_randomised"],
        )
        assert (-1 if made.shadow is None else made.shadow) == row["shadow"]


def test_every_golden_judge_holds() -> None:
    for row in GOLDEN["judges"]:
        asked = judge_requested(row["tenant"], row["policy"], row["episode_id"], row["rate"])
        assert asked is row["requested"]
