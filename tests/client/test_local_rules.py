"""The client's own rules against the golden files that the server is held to as well."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kedge.bandit.v1 import decision_pb2, policy_pb2
from kedge.bandit.v1.decision_service_pb2 import Allocation
from kedge_client.buckets import bucket, check_context, feature_of
from kedge_client.draw import judge_requested, narrow, pick, uniform
from kedge_client.errors import QuestionRefused
from kedge_client.question import PLAIN, Wish
from kedge_client.vectors import choose, vector_of

FOLDER = Path(__file__).parents[1] / "golden"


def golden(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return read


DRAW, CHOOSE, BUCKETS = golden("draw"), golden("choose"), golden("buckets")
TASK, WORDS = BUCKETS["features"]
FEATURES = (
    feature_of(policy_pb2.Feature(name=TASK["name"], categorical=policy_pb2.CategoricalFeature(values=TASK["values"]))),
    feature_of(
        policy_pb2.Feature(name=WORDS["name"], numeric=policy_pb2.NumericFeature(cut_points=WORDS["cut_points"]))
    ),
)
KINDS = {feature.name: type(feature) for feature in FEATURES}


def test_every_golden_draw_is_the_same() -> None:
    for row in DRAW["draws"]:
        u = uniform(
            row["tenant"], row["policy"], row["episode_id"], int(row["seed_epoch"]), int(row["allocation_version"])
        )
        assert u == row["u_times_2_53"] * 2.0**-53
        assert pick(row["p"], u) == row["picked"]


def test_every_golden_pick_is_the_same() -> None:
    assert [pick(row["p"], row["u"]) for row in DRAW["picks"]] == [row["picked"] for row in DRAW["picks"]]


def test_every_golden_narrowing_is_the_same_to_the_bit() -> None:
    for row in DRAW["narrowings"]:
        p = narrow(
            row["q"],
            subset=row["subset"],
            baseline=row["baseline"],
            floor=row["floor"],
            uniform_slice=row["uniform_slice"],
            caps=row["caps"] or (),
        )
        assert list(p) == row["p"]


@pytest.mark.parametrize("case", BUCKETS["buckets"], ids=lambda case: str(case["bucket"]))
def test_every_golden_context_falls_into_its_bucket(case: dict[str, Any]) -> None:
    check_context(KINDS, case["categories"], case["numbers"])

    assert bucket(FEATURES, case["categories"], case["numbers"]) == case["bucket"]


@pytest.mark.parametrize(
    ("reason", "categories", "numbers"),
    [
        ("UNDECLARED_FEATURE", {"colour": "red"}, {}),
        ("UNDECLARED_FEATURE", {"words": "ten"}, {}),
        ("UNDECLARED_FEATURE", {}, {"task": 1.0}),
        ("CONTEXT_TOO_LARGE", {"task": "é" * 129}, {}),
        ("CONTEXT_TOO_LARGE", {f"f{i}": "x" for i in range(65)}, {}),
        ("INVALID_VALUE", {"task": "zero \0"}, {}),
        ("INVALID_VALUE", {}, {"words": float("nan")}),
        ("INVALID_VALUE", {}, {"words": float("-inf")}),
    ],
)
def test_a_context_that_the_server_refuses_is_refused_here(
    reason: str, categories: dict[str, str], numbers: dict[str, float]
) -> None:
    with pytest.raises(QuestionRefused) as caught:
        check_context(KINDS, categories, numbers)

    assert caught.value.reason == reason


@pytest.mark.parametrize("place", range(len(CHOOSE["allocations"])))
def test_every_golden_choice_is_the_same_to_the_bit(place: int) -> None:
    fields = dict(CHOOSE["allocations"][place])
    fields |= {name: int(fields[name]) for name in ("allocation_version", "seed_epoch")}
    closed = fields.pop("closed_reason") or "UNSPECIFIED"
    vector = vector_of(Allocation(**fields, closed_reason=reason_number(closed)))
    for row in CHOOSE["choices"]:
        if row["allocation"] != place:
            continue
        wish = Wish(
            available=tuple(row["available"]),
            pinned=row["pinned"],
            no_exploration=row["no_exploration"],
            in_tool_loop=row["in_tool_loop"],
        )
        u = uniform("acme", "support", row["episode_id"], vector.seed_epoch, vector.version)
        chosen = choose(vector, PLAIN if wish == PLAIN else wish, policy_pb2.Mode.Value(f"MODE_{row['mode']}"), u)
        assert (chosen.place, chosen.propensity, chosen.reason, chosen.is_randomised) == (
            row["chosen"],
            row["propensity"],
            reason_number(row["reason"]),
            row["is_randomised"],
        )
        assert (-1 if chosen.shadow is None else chosen.shadow) == row["shadow"]


def test_every_golden_judge_is_the_same() -> None:
    for row in CHOOSE["judges"]:
        asked = judge_requested(row["tenant"], row["policy"], row["episode_id"], row["rate"])
        assert asked is row["requested"]


def test_a_message_for_the_draw_is_what_the_golden_hash_says() -> None:
    row = DRAW["draws"][0]
    parts = ("kedge.draw.v1", row["tenant"], row["policy"], row["episode_id"], row["seed_epoch"])
    assert sha256("\0".join((*parts, row["allocation_version"])).encode()).hexdigest() == row["sha256"]


def reason_number(name: str) -> decision_pb2.DecisionReason.ValueType:
    return decision_pb2.DecisionReason.Value(f"DECISION_REASON_{name}")
