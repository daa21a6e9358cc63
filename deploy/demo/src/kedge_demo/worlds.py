"""Know the three tenants of the demo: what they choose between, what their turns are, and what is true.

| tenant | chooses | buckets | baseline | verifier | turns |
|---|---|---|---|---|---|
| a-routing | MODEL_ROUTE: nine models with prices | 14 tasks | gemma-2-9b-it | every turn | 45,810 |
| b-arithmetic | MODEL_ROUTE {6B, 175B} × REASONING_DEPTH {single, verified} | 4 lengths | 6b + single | half | 11,871 |
| c-prompting | PROMPT_VARIANT: direct, chain of thought; length as COST | 27 tasks | direct | every turn | 20,400 |

Each has two planted arms in its main dimension. Numbers of turns are multiples of three; in A and B the last third asks
every item equally often, two and a half and three times. Reference scales are in `TARIFFS`: in A and B so wide that
quality decides; in C length is what the tenant prices (weight .15, latency left out since it is length again).
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from google.protobuf.json_format import MessageToJson

from kedge.bandit.v1 import decision_pb2 as decisions
from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.arms import DemoArm, Part
from kedge_demo.build_world import Plan, Tariff, build_world
from kedge_demo.datasets import Floats, number_categories, read_table
from kedge_demo.truth import Source
from kedge_demo.world import World

SEED = 20
ROUTE, DEPTH, PROMPT = (
    policies.DIMENSION_MODEL_ROUTE,
    policies.DIMENSION_REASONING_DEPTH,
    policies.DIMENSION_PROMPT_VARIANT,
)
FLATTERER, BREAKER = "planted-flatterer", "planted-breaker"
TARIFFS = {
    "a-routing": Tariff(cost_usd=0.005, latency_ms=20_000.0),
    "b-arithmetic": Tariff(cost_usd=0.29, latency_ms=20_000.0),
    "c-prompting": Tariff(cost_usd=0.0025, latency_ms=20_000.0, weight_cost=0.15, weight_latency=0.0),
}
WORD_CUTS = (33.0, 43.0, 55.0)
CHARACTERS_PER_TOKEN = 4
USD_PER_CHARACTER = 2.5e-6
ANSWER_TOKENS = 200


def build_worlds(*, seed: int = SEED, scale: float = 1.0) -> tuple[World, World, World]:
    """Build all three tenants; `scale` shortens the streams for trials.

    >>> [world.turns for world in build_worlds()]
    [45810, 11871, 20400]
    """
    a, b, c = (build_world(plan, seed=seed, scale=scale) for plan in (_routing(), _arithmetic(), _prompting()))
    return a, b, c


def _planted(dimension: policies.Dimension.ValueType) -> tuple[DemoArm, DemoArm]:
    flatterer = DemoArm(dimension=dimension, name=FLATTERER, content="nonsense that praises", part=Part.FLATTERER)
    breaker = DemoArm(dimension=dimension, name=BREAKER, content="good answers that leak", part=Part.BREAKER)
    return flatterer, breaker


def _widen(columns: Floats, *planted: float) -> Floats:
    """Add one constant column per planted arm."""
    extra = np.broadcast_to(np.array(planted, dtype=np.float64), (len(columns), len(planted)))
    return np.hstack([columns, extra])


def _by_task(tasks: tuple[str, ...]) -> policies.Feature:
    return policies.Feature(name="task", categorical=policies.CategoricalFeature(values=tasks))


def _routing() -> Plan:
    """Route between nine models. Their answers' lengths and latencies are not in the set: 200 tokens, paced by size."""
    table, prices = read_table("llmrouter9_scores.csv"), read_table("llmrouter9_prices.csv")
    tasks, bucket = number_categories(table.texts("task"))
    models = prices.texts("model")
    price = prices.numbers("output_price_usd_per_mtok")[:, 0]
    size = np.array([float(text.removesuffix("B")) for text in prices.texts("size")])
    prompt = table.numbers("prompt_chars") / CHARACTERS_PER_TOKEN
    planted = _planted(ROUTE)
    cost = (prompt + ANSWER_TOKENS) * np.append(price, [0.2, 0.2]) * 1e-6
    pace = 300.0 + ANSWER_TOKENS * (6.0 + 0.25 * np.append(size, [7.0, 7.0]))
    honest = tuple(
        DemoArm(dimension=ROUTE, name=model, content=model, price_usd=float(usd))
        for model, usd in zip(models, price, strict=True)
    )
    source = Source(
        score=_widen(table.numbers(*models), 0.0, 0.0),
        cost_usd=cost,
        latency_ms=np.broadcast_to(pace, cost.shape),
        completion_tokens=np.full(cost.shape, ANSWER_TOKENS, dtype=np.int64),
        prompt_tokens=prompt[:, 0].astype(np.int64),
    )
    return Plan(
        tenant="a-routing",
        policy_id="model-route",
        title="A · Which of nine models answers",
        about="6,108 real questions of 14 kinds, nine models with real scores and prices; a verifier on every turn.",
        number=1,
        turns=45_810,
        arms=((*honest, *planted),),
        baseline="gemma-2-9b-it",
        reference="llama-3.1-nemotron-51b-instruct",
        features=(_by_task(tasks),),
        bucket_names=tasks,
        bucket_of_item=bucket,
        contexts=tuple(decisions.Context(categories={"task": task}) for task in table.texts("task")),
        source=source,
        tariff=TARIFFS["a-routing"],
    )


def _arithmetic() -> Plan:
    """Choose model and depth together. Relative cost 1, 100, 29, 2,900; latencies are made up."""
    table = read_table("gsm8k_2x2.csv")
    kinds = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    words = table.numbers("prompt_words")[:, 0]
    samples = np.array([1, 100, 1, 100])
    scale = np.ones((len(words), 1))
    small, large = (DemoArm(dimension=ROUTE, name=name, content=f"gpt-3 {name}") for name in ("6b", "175b"))
    single = DemoArm(dimension=DEPTH, name="single", content="samples=1")
    verified = DemoArm(dimension=DEPTH, name="verified", content="samples=100 verifier=on")
    tokens = table.numbers(*(f"chars_{kind}" for kind in kinds)) / CHARACTERS_PER_TOKEN * samples
    source = Source(
        score=_widen(table.numbers(*(f"correct_{kind}" for kind in kinds)), 0.0, 0.0, 0.0, 0.0),
        cost_usd=scale * np.array([1, 100, 29, 2_900, 1, 100, 1, 100]) * 1e-4,
        latency_ms=scale * np.array([1, 3, 3, 8, 1, 3, 1, 3]) * 1_000.0,
        completion_tokens=_widen(tokens, 60.0, 6_000.0, 60.0, 6_000.0).astype(np.int64),
        prompt_tokens=(words * 1.3).astype(np.int64),
    )
    names = ("up to 32 words", "33 to 42 words", "43 to 54 words", "55 words and more")
    return Plan(
        tenant="b-arithmetic",
        policy_id="model-and-depth",
        title="B · Which model, and how hard it thinks",
        about="1,319 real word problems, two models with one sample or a hundred; a verifier on half of the turns.",
        number=2,
        turns=11_871,
        arms=((small, large, *_planted(ROUTE)), (single, verified)),
        baseline="6b + single",
        reference=None,
        features=(policies.Feature(name="prompt_words", numeric=policies.NumericFeature(cut_points=WORD_CUTS)),),
        bucket_names=names,
        bucket_of_item=np.searchsorted(np.array(WORD_CUTS), words, side="right").astype(np.int64),
        contexts=tuple(decisions.Context(numbers={"prompt_words": float(count)}) for count in words),
        source=source,
        tariff=TARIFFS["b-arithmetic"],
        verifier_share=0.5,
    )


def _prompting() -> Plan:
    """Choose the prompt. Cost is the answer's length at a fixed price per character."""
    table = read_table("bbh_direct_cot.csv")
    tasks, bucket = number_categories(table.texts("task"))
    characters = _widen(table.numbers("chars_direct", "chars_cot"), 60.0, 60.0)
    direct = DemoArm(dimension=PROMPT, name="direct", content="Give the answer and nothing else.")
    reasoned = DemoArm(dimension=PROMPT, name="chain-of-thought", content="Reason in steps, then give the answer.")
    source = Source(
        score=_widen(table.numbers("correct_direct", "correct_cot"), 0.0, 0.0),
        cost_usd=characters * USD_PER_CHARACTER,
        latency_ms=400.0 + 5.0 * characters,
        completion_tokens=np.ceil(characters / CHARACTERS_PER_TOKEN).astype(np.int64),
        prompt_tokens=(table.numbers("prompt_chars")[:, 0] / CHARACTERS_PER_TOKEN).astype(np.int64),
    )
    return Plan(
        tenant="c-prompting",
        policy_id="prompt-variant",
        title="C · Answer at once or reason first",
        about="6,511 real questions of 27 kinds, asked directly or with chain of thought; the tenant prices length.",
        number=3,
        turns=20_400,
        arms=((direct, reasoned, *_planted(PROMPT)),),
        baseline="direct",
        reference=None,
        features=(_by_task(tasks),),
        bucket_names=tasks,
        bucket_of_item=bucket,
        contexts=tuple(decisions.Context(categories={"task": task}) for task in table.texts("task")),
        source=source,
        tariff=TARIFFS["c-prompting"],
    )


def main() -> int:
    """Write each tenant's policy as protobuf JSON into a folder: `python -m kedge_demo.worlds --out DIR`."""
    parser = argparse.ArgumentParser(prog="kedge_demo.worlds", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for <tenant>.json")
    parser.add_argument("--floor", type=float, help="exploitation floor, where it is not the demo's own")
    options = parser.parse_args()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    for world in build_worlds(scale=0.0):
        if options.floor is not None:
            world.policy.exploration.exploitation_floor = options.floor
        text = MessageToJson(world.policy, preserving_proto_field_name=True)
        (folder / f"{world.tenant}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
