"""Test the published vector: formula, simplex over extreme states, caps, and what is refused when written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge_bandit.domain.allocation import allocate, baseline_only, check_exploration, check_simplex
from kedge_bandit.domain.errors import ExplorationRefused, NumericalFailure
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.learners.learner import EvidenceTable, believe


@st.composite
def requests(draw: st.DrawFn) -> dict[str, object]:
    """Any belief, subset, floor, slice and caps that can be written."""
    actions = draw(st.integers(1, 36))
    baseline = draw(st.integers(0, actions - 1))
    subset = np.array(draw(st.lists(st.booleans(), min_size=actions, max_size=actions)))
    subset[baseline] = True
    q = np.array(draw(st.lists(st.floats(0.0, 1.0), min_size=actions, max_size=actions)))
    caps = draw(st.none() | st.lists(st.floats(0.0, 1.0), min_size=actions, max_size=actions).map(np.array))
    return {
        "q": q / max(q.sum(), 1.0),
        "subset": subset,
        "baseline": baseline,
        "floor": draw(st.floats(0.05, 1.0)),
        "uniform_slice": draw(st.floats(1e-6, 0.5)),
        "caps": caps,
    }


def test_it_is_the_documented_formula() -> None:
    q = np.array([0.1, 0.6, 0.3, 0.0])

    p = allocate(q, subset=np.array([True, True, False, True]), baseline=3, floor=0.4, uniform_slice=0.2)

    expected = [0.6 * (0.8 * 0.1 / 0.7 + 0.2 / 3), 0.6 * (0.8 * 0.6 / 0.7 + 0.2 / 3), 0.0, 0.4 + 0.6 * 0.2 / 3]
    assert p.tolist() == pytest.approx(expected, abs=1e-15)


def test_a_subset_without_any_belief_is_explored_evenly() -> None:
    q = np.array([0.0, 0.0, 1.0])

    p = allocate(q, subset=np.array([True, True, False]), baseline=0, floor=0.8, uniform_slice=0.1)

    assert p.tolist() == pytest.approx([0.9, 0.1, 0.0], abs=1e-15)


def test_belief_below_a_billionth_counts_as_none() -> None:
    q = np.array([9e-10, 0.0, 1.0 - 9e-10])

    p = allocate(q, subset=np.array([True, True, False]), baseline=1, floor=0.5, uniform_slice=0.1)

    assert p.tolist() == pytest.approx([0.25, 0.75, 0.0], abs=1e-15)


def test_what_exceeds_a_cap_goes_to_the_baseline() -> None:
    q = np.array([0.0, 1.0, 0.0])

    p = allocate(q, subset=np.ones(3, bool), baseline=0, floor=0.2, uniform_slice=0.3, caps=np.array([0.0, 0.05, 1.0]))

    assert p.tolist() == pytest.approx([0.87, 0.05, 0.08], abs=1e-15)


@settings(max_examples=300, deadline=None)
@given(requests())
def test_every_vector_is_a_simplex_with_its_floor_and_under_its_caps(request: dict[str, object]) -> None:
    p = allocate(**request)  # type: ignore[arg-type]  # the strategy draws exactly the arguments

    check_simplex(p, baseline=request["baseline"], floor=request["floor"])  # type: ignore[arg-type]
    subset, caps = np.asarray(request["subset"]), request["caps"]
    assert (p[~subset] == 0.0).all()
    if caps is not None:
        bounded = np.arange(p.size) != request["baseline"]
        assert (p[bounded] <= np.asarray(caps)[bounded]).all()


@settings(max_examples=100, deadline=None)
@given(requests())
def test_plain_sequences_give_the_same_bits_as_arrays(request: dict[str, object]) -> None:
    plain = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in request.items()}

    assert (allocate(**plain) == allocate(**request)).all()  # type: ignore[arg-type]  # as above


def test_ten_thousand_random_and_extreme_states_publish_a_simplex() -> None:
    rng = np.random.default_rng(3)
    learner = LEARNERS["beta"]
    for state in range(10_000):
        actions, buckets = int(rng.integers(1, 13)), int(rng.integers(1, 4))
        n = 10.0 ** rng.uniform(-12.0, 9.0, (buckets, actions)) * (rng.random((buckets, actions)) < 0.8)
        mean = np.clip(rng.normal(rng.random(), 10.0 ** rng.uniform(-6.0, 0.0), (buckets, actions)), 0.0, 1.0)
        eligible = rng.random(actions) < 0.8
        baseline = int(rng.integers(actions))
        eligible[baseline] = True
        floor, uniform_slice = float(rng.uniform(0.05, 1.0)), float(rng.uniform(0.001, 0.5))

        belief = believe(
            learner,
            EvidenceTable(n, n * mean, n * mean * mean),
            bucket=None if state % 7 == 0 else int(rng.integers(buckets)),
            eligible=eligible,
            strength=6.0,
            seed=state,
        )
        p = allocate(belief.q, subset=eligible, baseline=baseline, floor=floor, uniform_slice=uniform_slice)

        assert np.isfinite(p).all()
        assert p.min() >= 0.0
        assert abs(p.sum() - 1.0) < 1e-9
        assert p[baseline] >= floor
        assert (p[eligible] >= (1.0 - floor) * uniform_slice / eligible.sum() * (1.0 - 1e-12)).all()


def test_a_request_without_the_baseline_is_not_narrowed() -> None:
    with pytest.raises(ValueError, match="highest mean"):
        allocate(np.ones(2) / 2, subset=np.array([False, True]), baseline=0, floor=0.8, uniform_slice=0.1)


def test_a_belief_that_is_no_number_is_never_published() -> None:
    with pytest.raises(NumericalFailure):
        allocate(np.array([np.nan, 0.5]), subset=np.ones(2, bool), baseline=0, floor=0.8, uniform_slice=0.1)


@pytest.mark.parametrize(
    ("p", "quantity"),
    [
        ([0.8, 0.2 + 2e-9], "sum"),
        ([np.inf, 0.2], "sum"),
        ([1.1, -0.1], "smallest"),
        ([0.79, 0.21], "baseline"),
    ],
)
def test_a_vector_that_is_no_simplex_is_refused_with_its_fault(p: list[float], quantity: str) -> None:
    with pytest.raises(NumericalFailure) as caught:
        check_simplex(np.array(p), baseline=0, floor=0.8)

    assert quantity in caught.value.quantity
    assert caught.value.reason == "NUMERICAL_FAILURE"


def test_the_baseline_alone_is_a_simplex_for_any_floor() -> None:
    check_simplex(baseline_only(4, 2), baseline=2, floor=1.0)


@pytest.mark.parametrize("floor", [0.05, 0.8, 1.0])
@pytest.mark.parametrize("uniform_slice", [1e-9, 0.1, 0.5])
def test_floors_and_slices_in_range_are_accepted(floor: float, uniform_slice: float) -> None:
    check_exploration(floor=floor, uniform_slice=uniform_slice, actions=36)


@pytest.mark.parametrize("floor", [0.0499, 1.0001, -0.1, float("nan"), float("inf")])
def test_a_floor_out_of_range_is_refused(floor: float) -> None:
    with pytest.raises(ExplorationRefused, match="floor"):
        check_exploration(floor=floor, uniform_slice=0.1, actions=3)


@pytest.mark.parametrize("uniform_slice", [0.0, 0.51, -0.1, float("nan")])
def test_a_slice_out_of_range_is_refused(uniform_slice: float) -> None:
    with pytest.raises(ExplorationRefused, match="slice"):
        check_exploration(floor=0.8, uniform_slice=uniform_slice, actions=3)


def test_a_cap_that_would_cut_into_the_slice_is_refused_by_name() -> None:
    least = 0.2 * 0.1 / 4

    check_exploration(floor=0.8, uniform_slice=0.1, actions=4, caps={"new": least})
    with pytest.raises(ExplorationRefused, match="cap of new"):
        check_exploration(floor=0.8, uniform_slice=0.1, actions=4, caps={"new": least * 0.999})


def test_a_refusal_names_everything_that_is_wrong_at_once() -> None:
    with pytest.raises(ExplorationRefused) as caught:
        check_exploration(floor=2.0, uniform_slice=0.0, actions=4)

    assert len(caught.value.problems) == 2
    assert caught.value.reason == "INVALID_EXPLORATION"
