"""Make cases for every language, of 64 features with Unicode and edges among them, and what must come of each."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from random import Random

from google.protobuf import proto

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, policy_pb2
from kedge_bandit.domain.context import CategoricalFeature, Context, Feature, NumericFeature, bucket
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import Wish, choose
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation
from kedge_client.local import LocalPolicy, Made
from kedge_client.question import PLAIN, Question
from kedge_client.question import Wish as ClientWish
from tests.client.stepped_clock import SteppedClock
from tests.golden.choose import allocation

NAME = "tenants/acme/policies/support"
JUDGE_RATE = 0.3
FEATURES = 64
POOL = 200
VALUES = ("math", "code", "caf\u00e9", "cafe\u0301", "a|b=c%d~e", "会話", "محادثة", "🦊🧪", "", "x" * 256)
EDGES = (0.0, -0.0, 10.0, 9.999999999999998, 1e300, -1e300, 5e-324, 20.5)


@dataclass(frozen=True, slots=True)
class Case:
    """One question."""

    episode: str
    context: Context
    wish: Wish


def features() -> tuple[Feature, ...]:
    """Declare 64 features of both kinds; the wire allows a policy 16, the rules are the same."""
    found: list[Feature] = []
    for number in range(FEATURES // 2):
        found.append(CategoricalFeature(f"c{number}", VALUES[number % 3 : number % 3 + 6]))
        found.append(NumericFeature(f"n{number}", tuple(sorted({0.0, 10.0, 20.5, float(number) + 0.25}))))
    return tuple(found)


def contexts(random: Random) -> list[Context]:
    """Draw contexts; a quarter of their features are missing."""
    found = []
    for _ in range(POOL):
        categories = {f"c{n}": random.choice(VALUES) for n in range(FEATURES // 2) if random.random() < 0.75}
        numbers = {
            f"n{n}": random.choice((*EDGES, random.uniform(-50, 50)))
            for n in range(FEATURES // 2)
            if random.random() < 0.75
        }
        found.append(Context(categories, numbers))
    return found


def allocations(pool: list[Context]) -> dict[str, Allocation]:
    """Publish a vector for some buckets of the pool and the one for all others; one is closed, half have caps."""
    named = ["", *(bucket(context, features()) for context in pool[:7])]
    sizes = (5, 2, 3, 36, 4, 11, 1, 8)
    return {
        name: replace(
            allocation(place, sizes[place], Reason.BUDGET if place == 4 else None, capped=place % 2 == 1), bucket=name
        )
        for place, name in enumerate(named)
    }


def cases(count: int) -> Iterator[Case]:
    """Cross contexts and wishes at random, with a fixed seed; the first contexts, which have vectors, come often."""
    random = Random(42)
    pool = contexts(random)
    vectors = allocations(pool)
    for number in range(count):
        context = random.choice(pool[:7]) if random.random() < 0.5 else random.choice(pool)
        source = vectors.get(bucket(context, features()), vectors[""])
        some = tuple(key for key in source.actions if random.random() < 0.6)
        wishes = [Wish()] * 4 + [Wish(available=some), Wish(no_exploration=True), Wish(in_tool_loop=True)]
        wishes.append(Wish(pinned=random.choice(source.actions)))
        yield Case(f"{random.choice(VALUES[:9])}-{number}", context, random.choice(wishes))


def by_the_server(count: int) -> Iterator[str]:
    """Decide by the server's rules."""
    vectors, declared = allocations(contexts(Random(42))), features()
    tenant, policy = TenantId("acme"), PolicyName("support")
    for case in cases(count):
        name = bucket(case.context, declared)
        source = vectors.get(name, vectors[""])
        episode = EpisodeId(case.episode)
        u = uniform(tenant, policy, episode, source.seed_epoch, source.version)
        choice = choose(source, case.wish, Mode.APPLY, u)
        asked = judge_requested(tenant, policy, episode, JUDGE_RATE)
        reason = decision_pb2.DecisionReason.Value(f"DECISION_REASON_{choice.reason.value}")
        yield line(name, source.actions[choice.index], choice.propensity, reason, choice.is_randomised, asked)


def by_the_client(count: int, message: decision_service_pb2.WatchAllocationsResponse) -> Iterator[str]:
    """Decide by the Python client."""
    made: list[Made] = []
    local = LocalPolicy(NAME, clock=SteppedClock(), random=Random(7), report=made.append)
    local.begin()
    local.take(message)
    for case in cases(count):
        wish = case.wish
        plain = not (wish.available or wish.pinned or wish.no_exploration or wish.in_tool_loop)
        asked = (
            PLAIN
            if plain
            else ClientWish(
                available=tuple(wish.available),
                pinned=wish.pinned,
                no_exploration=wish.no_exploration,
                in_tool_loop=wish.in_tool_loop,
            )
        )
        local.decide(Question(case.episode, "", case.context.categories, case.context.numbers, asked))
        one = made.pop()
        yield line(one.bucket, one.action_key, one.propensity, one.reason, one.is_randomised, one.judge_requested)


def line(name: str, action: str, propensity: float, reason: int, randomised: bool, judged: bool) -> str:
    """Spell a decision; the propensity by its bits."""
    bits = f"{struct.unpack('>Q', struct.pack('>d', propensity))[0]:x}"
    return "\t".join((name, action, bits, str(reason), str(randomised).lower(), str(judged).lower()))


def watched() -> decision_service_pb2.WatchAllocationsResponse:
    """Spell what a client hears: the policy and every vector."""
    message = decision_service_pb2.WatchAllocationsResponse(effective_mode=policy_pb2.MODE_APPLY)
    message.lease.FromSeconds(5)
    message.policy.policy_version = 1
    message.policy.settlement.judge_rate = JUDGE_RATE
    for feature in features():
        added = message.policy.features.add(name=feature.name)
        if isinstance(feature, CategoricalFeature):
            added.categorical.values.extend(feature.values)
        else:
            added.numeric.cut_points.extend(feature.cut_points)
    for source in allocations(contexts(Random(42))).values():
        message.allocations.add(
            bucket=source.bucket,
            allocation_version=source.version,
            policy_version=source.policy_version,
            seed_epoch=source.seed_epoch,
            action_keys=source.actions,
            probability_best=source.q,
            propensities=source.p,
            means=source.mean,
            eligible=source.eligible,
            closed_reason=f"DECISION_REASON_{source.closed.value}" if source.closed else "DECISION_REASON_UNSPECIFIED",
            exploitation_floor=source.floor,
            uniform_slice=source.uniform_slice,
            caps=source.caps or (),
            baseline_index=source.baseline,
        )
        message.policy.action_keys.extend(source.actions)
    return message


def write(folder: Path, count: int) -> None:
    """Write what a JVM reads: the message, and every question with its length before it."""
    (folder / "cases.watch").write_bytes(watched().SerializeToString())
    out = BytesIO()
    for case in cases(count):
        request = decision_service_pb2.DecideRequest(
            episode_id=case.episode,
            context=decision_pb2.Context(categories=case.context.categories, numbers=case.context.numbers),
            available_action_keys=case.wish.available or (),
            pinned_action_key=case.wish.pinned or "",
            no_exploration=case.wish.no_exploration,
            in_tool_loop=case.wish.in_tool_loop,
        )
        proto.serialize_length_prefixed(request, out)
    (folder / "cases.asked").write_bytes(out.getvalue())
