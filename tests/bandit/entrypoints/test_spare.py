"""What the collector of a server spares is freed in the end."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from kedge_bandit.entrypoints.server import spare


class Ring:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.collect()


@pytest.mark.usefixtures("collector")
def test_a_cycle_that_was_spared_alive_is_freed_by_the_next_look_at_all() -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    spare(look_at_all=False)
    del ring
    spare(look_at_all=False)
    assert seen() is not None

    spare(look_at_all=True)

    assert seen() is None


@pytest.mark.usefixtures("collector")
def test_a_cycle_that_outlived_a_young_look_and_died_is_freed_by_the_next() -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    gc.collect(0)
    del ring

    spare(look_at_all=False)

    assert seen() is None
