"""Contexts fall into buckets, and arms into actions, as the golden file fixes it for every language."""

import json
from pathlib import Path
from typing import Any

import pytest

from kedge_bandit.domain.context import (
    MAX_BUCKET_BYTES,
    CategoricalFeature,
    Context,
    NumericFeature,
    bucket,
    check_context,
    check_features,
)
from kedge_bandit.domain.dimension import Arm, Dimension, joint_actions
from kedge_bandit.domain.errors import ContextTooLarge, InvalidPolicy, InvalidValue, UndeclaredFeature

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "buckets.json").read_text(encoding="ascii"))
TASK = CategoricalFeature("task", tuple(GOLDEN["features"][0]["values"]))
WORDS = NumericFeature("words", tuple(GOLDEN["features"][1]["cut_points"]))


@pytest.mark.parametrize("case", GOLDEN["buckets"], ids=lambda case: str(case["bucket"]))
def test_a_context_falls_into_its_golden_bucket(case: dict[str, Any]) -> None:
    context = Context(case["categories"], case["numbers"])
    check_context(context, (TASK, WORDS))
    assert bucket(context, (TASK, WORDS)) == case["bucket"]


def test_joint_actions_come_in_the_golden_order() -> None:
    arms = tuple(Arm(dimension=Dimension(dimension), name=name, content="") for dimension, name in GOLDEN["arms"])
    names = ["|".join(arm.name for arm in action.arms) for action in joint_actions(arms)]
    assert names == GOLDEN["order"]


@pytest.mark.parametrize(
    ("error", "context"),
    [
        (UndeclaredFeature, Context({"colour": "red"}, {})),
        (UndeclaredFeature, Context({"words": "ten"}, {})),
        (UndeclaredFeature, Context({}, {"task": 1.0})),
        (ContextTooLarge, Context({"task": "x" * 257}, {})),
        (ContextTooLarge, Context({"task": "é" * 129}, {})),
        (ContextTooLarge, Context({f"f{i}": "x" for i in range(65)}, {})),
        (InvalidValue, Context({"task": "zero \0"}, {})),
        (InvalidValue, Context({}, {"words": float("nan")})),
        (InvalidValue, Context({}, {"words": float("-inf")})),
    ],
)
def test_a_context_that_cannot_be_bucketed_is_refused(error: type[Exception], context: Context) -> None:
    with pytest.raises(error):
        check_context(context, (TASK, WORDS))


def test_features_whose_bucket_could_not_be_a_key_are_refused() -> None:
    wide = tuple(CategoricalFeature(f"f{i}", ("v" * 256,)) for i in range(MAX_BUCKET_BYTES // 256 + 1))
    with pytest.raises(InvalidPolicy, match="bucket"):
        check_features(wide)
    check_features(wide[:5])


@pytest.mark.parametrize("cut_points", [(1.0, 1.0), (2.0, 1.0), (float("nan"),), (float("inf"),)])
def test_cut_points_that_do_not_increase_are_refused(cut_points: tuple[float, ...]) -> None:
    with pytest.raises(InvalidPolicy):
        NumericFeature("words", cut_points)
