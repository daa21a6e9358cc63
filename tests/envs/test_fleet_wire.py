"""The learned policy over the wire: from observation JSON of a server in another process it scores as in process."""

from fleet_oversight_env import ground
from fleet_oversight_env.client import connected
from fleet_oversight_env.scenarios import DEV_SEEDS
from tests.fixtures.openenv import Host
from tests.trust.size import of


def test_the_learned_policy_scores_the_same_through_the_client_as_in_process(openenv_host: Host) -> None:
    grades, returns = [], []
    with connected(openenv_host.urls[ground.NAME]) as client:
        for number, seed in enumerate(DEV_SEEDS[: of(10, 100)]):
            task = ("nexacrm_easy", "nexacrm_hard")[number % 2]
            policy, paid = ground.policy("learned", task, seed), 0.0
            answer = client.reset(task, seed)
            while not answer.done:
                answer = client.step(policy(answer.seen()))
                paid += answer.reward or 0.0
            assert client.state().finished
            here, same = ground.start(task, seed), ground.policy("learned", task, seed)
            turns = []
            while not here.over:
                turns.append(here.step(same(here.observe())))
            grades.append((answer.metadata["grade"], turns[-1].grade))
            returns.append((paid, sum(turn.reward for turn in turns)))
    assert [there for there, _ in grades] == [in_process for _, in_process in grades]
    assert [there for there, _ in returns] == [in_process for _, in_process in returns]
    assert sum(there for there, _ in grades) / len(grades) > 0.6


def test_an_action_that_is_none_costs_a_step_and_is_told_so(openenv_host: Host) -> None:
    with connected(openenv_host.urls[ground.NAME]) as client:
        client.reset("nexacrm_easy", DEV_SEEDS.start)
        answer = client.step({"action_type": "reboot"})
    assert (answer.step, answer.invalid_actions, answer.reward) == (2, 1, 0.0)
    assert answer.error == "unreadable is not possible while planning: allocate"
