"""Weights that nothing held to their base are not promoted, whatever they score."""

import json

import pytest

from kedge_bandit.domain.conditions import MAX_KL_STOP, far_from_base


def test_weights_that_stayed_within_their_recipes_bound_meet_the_condition() -> None:
    assert far_from_base(json.dumps({"kl": 0.02, "kl_stop": 0.05})) == []


@pytest.mark.parametrize(
    "lineage",
    [
        {},
        {"kl": 0.02},
        {"kl_stop": 0.05},
        {"kl": None, "kl_stop": 0.05},
        {"kl": "0.02", "kl_stop": 0.05},
        {"kl": -1.0, "kl_stop": 0.05},
        {"kl": 0.02, "kl_stop": 0.0},
        {"kl": 0.06, "kl_stop": 0.05},
        {"kl": 0.02, "kl_stop": 10 * MAX_KL_STOP},
    ],
)
def test_a_bound_that_is_missing_zero_broken_or_too_wide_fails_the_gate(lineage: dict[str, object]) -> None:
    assert len(far_from_base(json.dumps(lineage))) == 1
