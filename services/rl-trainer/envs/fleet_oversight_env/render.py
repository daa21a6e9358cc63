"""The fleet as text for a language model, and the way back from its answer. Part of the environment's version."""

from collections.abc import Mapping
from typing import cast

from fleet_oversight_env.answer import find_action
from fleet_oversight_env.laws import GOVERNANCE_BUDGET, LOCKED_STEPS, WORKERS
from fleet_oversight_env.observation import PLANNING, Configured, Oversight, Planning
from fleet_oversight_env.planning import CHUNK_SIZES, CHUNK_STRATEGIES, EMBEDDING_MODELS, TOP_KS
from fleet_oversight_env.scenarios import TASKS
from fleet_oversight_env.view import VERDICTS


def instructions(task: str) -> str:
    """Tell the rules of the game and the form of an answer; the example names a worker by placeholder."""
    window = TASKS[task].domain.window
    return (
        "You oversee five pipeline workers for 20 steps, one action a step. Steps 1 to 3 plan: allocate a "
        f"configuration to every worker (chunk_strategy {_options(CHUNK_STRATEGIES)}; chunk_size "
        f"{_options(CHUNK_SIZES)}; embedding_model {_options(EMBEDDING_MODELS)}; top_k {_options(TOP_KS)}) that suits "
        "the data and fits its capacity. A poor plan makes the workers noisier.\n"
        "Steps 4 to 20 oversee. One or two workers are faulty: budget_dump (its budget falls by 3 more in one step), "
        "invalid_burst (about 30 % of its steps are invalid), constraint_violation (quality drops and retries rise, "
        "never a flag), silent_drift (its reward is zero and it stalls). Flags are wrong one time in five, and sound "
        "workers misbehave for two steps at times. Keep account of what you saw: only the last three actions are "
        "shown.\n"
        f"Actions and prices, out of {GOVERNANCE_BUDGET}: monitor (1; the next observation tells quality and "
        "zero_reward of a worker), intervene (6; resolves a fault), escalate (2; hands a fault over), hold (0; "
        "approves a worker, or waits without one), submit_audit (0; ends the episode with a verdict per worker). "
        f"An alarm on a worker without an active fault is needless and locks it for {LOCKED_STEPS} steps. "
        f"A fault can be resolved in the {window} steps from its start on; later alarms are needless.\n"
        "A missed fault costs most, then a needless intervention, then a needless escalation.\n"
        'Answer with one JSON object and nothing else: {"action_type": "...", "worker": "worker_N"}; to allocate '
        '{"action_type": "allocate", "allocation": {"worker_N": {"chunk_strategy": "...", "chunk_size": 0, '
        '"embedding_model": "...", "top_k": 0}}}; to end {"action_type": "submit_audit", "report": {"worker_N": '
        f'{{"verdict": "...", "reason": "..."}}}}}}, where a verdict is one of {_options(VERDICTS)}.'
    )


def _options(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


def render(observation: Mapping[str, object]) -> str:
    """Write an observation, one fact a line."""
    lines = [f"Step {observation['step']} of 20, {observation['phase']}"]
    if observation["phase"] == PLANNING:
        lines += _planning(cast("Planning", observation))
    else:
        lines += _oversight(cast("Oversight", observation))
    if observation["error"]:
        lines.append(f"Your last action did nothing: {observation['error']}")
    if observation["invalid_actions"]:
        lines.append(f"Actions that did nothing so far: {observation['invalid_actions']}")
    return "\n".join(lines)


def _planning(seen: Planning) -> list[str]:
    limits = seen["budget_constraints"]
    profile = ", ".join(f"{name} {value}" for name, value in seen["dataset_profile"].items())
    lines = [f"Data: {profile}", f"Governance budget: {limits['governance_budget']}"]
    for name in WORKERS:
        told = _config(seen["allocations"][name])
        capacity, budget = seen["worker_capacities"][name], limits["worker_budgets"][name]
        lines.append(f"{name}: capacity {capacity}, budget {budget}, {told}")
    return lines


def _oversight(seen: Oversight) -> list[str]:
    lines = [f"Governance budget left: {seen['governance_budget']}"]
    for name in WORKERS:
        worker = seen["workers"][name]
        log = ", ".join(f"{operation} {result}" for operation, result in worker["last_actions"])
        flag = "FLAGGED" if worker["flag"] else "no flag"
        locked = "" if worker["targetable"] else ", cannot be targeted now"
        lines.append(f"{name}: {worker['status']}, {flag}, budget {worker['budget_remaining']}, last: {log}{locked}")
    probe = seen["probe"]
    if probe:
        zero = "yes" if probe["zero_reward"] else "no"
        lines.append(f"Monitor of {probe['worker']}: quality {probe['quality']:.2f}, zero_reward={zero}")
    return lines


def _config(config: Configured | None) -> str:
    if config is None:
        return "nothing allocated"
    return "allocated " + ", ".join(f"{name} {value}" for name, value in config.items())


def parse(text: str) -> dict[str, object]:
    """Read the first JSON object of an answer that has an `action_type`.

    >>> parse('So {"action_type": "hold", "worker": "worker_4"} it is')
    {'action_type': 'hold', 'worker': 'worker_4'}
    >>> parse("pause them all")
    {'action_type': 'unreadable'}
    """
    return find_action(text)
