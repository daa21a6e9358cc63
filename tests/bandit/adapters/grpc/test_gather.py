"""Calls that arrive together are run together, and each gets its own answer."""

import asyncio

import pytest

from kedge_bandit.adapters.grpc.gather import MOST, Gather


class Refused(Exception):
    """A stage's own error."""


def odd_only(call: int) -> int:
    if call % 2 == 0:
        raise Refused
    return call


async def test_a_call_that_comes_alone_is_answered() -> None:
    gather: Gather[int, str] = Gather(str)

    assert await gather(7) == "7"
    assert await gather(8) == "8"


async def test_each_stage_is_run_for_all_that_came_together_before_the_next_stage() -> None:
    order: list[tuple[str, int]] = []

    def first(call: int) -> int:
        order.append(("first", call))
        return call * 10

    def second(made: int) -> int:
        order.append(("second", made))
        return made + 1

    gather: Gather[int, int] = Gather(first, second)

    assert list(await asyncio.gather(gather(1), gather(2))) == [11, 21]
    assert order == [("first", 1), ("first", 2), ("second", 10), ("second", 20)]


async def test_what_a_stage_raises_reaches_its_own_caller_alone() -> None:
    gather: Gather[int, str] = Gather(odd_only, str)

    answers = [gather(call) for call in (1, 2, 3)]

    assert await answers[0] == "1"
    with pytest.raises(Refused):
        await answers[1]
    assert await answers[2] == "3"


@pytest.mark.parametrize("call", [1, 2])
async def test_a_caller_that_hung_up_disturbs_nobody(call: int) -> None:
    gather: Gather[int, str] = Gather(odd_only, str)
    gone = gather(call)
    stays = gather(3)
    gone.cancel()

    assert await stays == "3"
    assert gone.cancelled()


async def test_no_more_than_a_bounded_number_waits_for_each_other() -> None:
    unanswered: list[int] = []
    answers: list[asyncio.Future[int]] = []

    def look(call: int) -> int:
        unanswered.append(sum(not answer.done() for answer in answers))
        return call

    gather: Gather[int, int] = Gather(look)

    async def arrive(call: int) -> None:
        answers.append(gather(call))

    for call in range(3 * MOST):  # one a turn of the loop, without a pause
        await asyncio.create_task(arrive(call))

    assert list(await asyncio.gather(*answers)) == list(range(3 * MOST))
    assert max(unanswered) <= MOST
