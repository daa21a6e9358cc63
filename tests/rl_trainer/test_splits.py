"""Hold the promise that training cannot reach the test split: by type, by range, and in the servers."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge_trainer.adapters.environments import GROUNDS, for_training, load
from kedge_trainer.application.evaluate import seeds_of
from kedge_trainer.domain.errors import SeedOutOfSplit, SplitTooSmall, UnknownEnvironment, UnknownSplit, UnknownTask
from kedge_trainer.domain.held_out import SEEDS, TEST
from kedge_trainer.domain.splits import RANGES, TrainingSplit, seed_of


def test_the_split_of_training_has_no_test_member() -> None:
    assert list(TrainingSplit) == ["train", "dev"]
    assert list(RANGES) == list(TrainingSplit)


@given(split=st.sampled_from(TrainingSplit), index=st.integers(-3_000_000, 3_000_000))
def test_no_index_of_a_training_split_reaches_another_split(split: TrainingSplit, index: int) -> None:
    if 0 <= index < len(RANGES[split]):
        assert seed_of(split, index) in RANGES[split]
        assert seed_of(split, index) not in SEEDS
    else:
        with pytest.raises(SeedOutOfSplit, match=split):
            seed_of(split, index)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_evaluation_takes_no_more_seeds_than_a_split_has(split: str) -> None:
    size = len(load("relocation_env").SPLITS[split])
    assert seeds_of(split, size)[-1] == load("relocation_env").SPLITS[split][-1]
    with pytest.raises(SplitTooSmall, match=f"{size} seeds, not {size + 1}"):
        seeds_of(split, size + 1)


def test_evaluation_knows_three_splits() -> None:
    with pytest.raises(UnknownSplit, match="test, train, dev"):
        seeds_of("tst", 1)


@pytest.mark.parametrize("name", GROUNDS)
def test_environments_and_registry_know_the_same_splits(name: str) -> None:
    assert dict(load(name).SPLITS) == {**{str(split): seeds for split, seeds in RANGES.items()}, TEST: SEEDS}


@pytest.mark.parametrize("name", GROUNDS)
def test_training_cannot_name_the_test_split_or_play_a_task_for_testing(name: str) -> None:
    ground = for_training(name)
    with pytest.raises(ValueError, match="test"):
        ground.start(ground.tasks[0], cast("TrainingSplit", "test"), 0)
    with pytest.raises(SeedOutOfSplit):
        ground.start(ground.tasks[0], TrainingSplit.TRAIN, 2_000_000)
    for task in load(name).TEST_ONLY:
        with pytest.raises(UnknownTask):
            ground.start(task, TrainingSplit.TRAIN, 0)
    assert ground.start(ground.tasks[0], TrainingSplit.DEV, 0).observe()


def test_an_unknown_environment_is_named_with_what_there_is() -> None:
    with pytest.raises(UnknownEnvironment, match="relocation_env") as caught:
        load("moon_env")
    assert caught.value.reason == "UNKNOWN_ENVIRONMENT"


def test_evaluation_takes_the_first_seeds_of_any_split() -> None:
    assert [seeds_of(split, 2) for split in ("train", "dev", "test")] == [
        [0, 1],
        [1_000_000, 1_000_001],
        [2_000_000, 2_000_001],
    ]
