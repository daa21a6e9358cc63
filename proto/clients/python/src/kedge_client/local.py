"""Decide in this process: the vectors that a replica streams, the seeded draw, and a lease that runs out.

The server recomputes what is reported and refuses what differs, so everything here follows its rules to the bit.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from kedge.bandit.v1 import decision_pb2, policy_pb2
from kedge.bandit.v1.decision_service_pb2 import WatchAllocationsResponse
from kedge_client.buckets import bucket, check_context
from kedge_client.choice import Choice, reason_name
from kedge_client.clock import Clock
from kedge_client.draw import judge_requested, uniform
from kedge_client.question import Question, Wish
from kedge_client.vectors import STOPPED, Chosen, Rules, Vector, choose, rules_of, vector_of

REMEMBERED: Final = 20_000
"""Episodes whose choice a process remembers."""
COLD: Final = ""
"""Name of the vector of every bucket that has none of its own."""
READINGS: Final = 60
"""Messages over which the server's clock is estimated: the one that travelled fastest says most."""
_STALE: Final = int(decision_pb2.DECISION_REASON_STALE)
_NAMES: Final[dict[int, str]] = {int(number): reason_name(number) for number in decision_pb2.DecisionReason.values()}
_WITHOUT_VECTOR: Final = {
    int(policy_pb2.MODE_FROZEN): int(decision_pb2.DECISION_REASON_FROZEN),
    int(policy_pb2.MODE_BYPASS): int(decision_pb2.DECISION_REASON_BYPASS),
}


class Made(NamedTuple):
    """A decision that waits to be reported; a tuple, because one is made in every local decision.

    Everything that is kept of a decision brings the next run of Python's collector nearer, so it is kept in one piece.

    Attributes:
        request_id: empty where the caller gave none.
        features: categorical ones are text, numeric ones are floats.
        milliseconds: server's time of the decision since the Unix epoch; its id says the same.
        available: action keys that could be served; empty: all.
        reason: number of the DecisionReason.
        shadow_key: what would have been drawn, in OBSERVE.
    """

    episode_id: str
    request_id: str
    features: dict[str, str | float]
    decision_id: str
    milliseconds: int
    bucket: str
    available: tuple[str, ...]
    action_key: str
    propensity: float
    reason: int
    is_randomised: bool
    shadow_key: str
    policy_version: int
    allocation_version: int
    seed_epoch: int
    mode: int
    judge_requested: bool
    judge_rate: float


class LocalPolicy:
    """Hold one policy's vectors and decide from them.

    Args:
        name: `tenants/{tenant}/policies/{policy}`.
        clock: its monotonic seconds are all the time there is; the server's clock is estimated from its messages.
        random: seeds the random part of the decisions' ids, which need only be unlike those of other processes.
        report: takes each new decision; must not wait.
    """

    def __init__(self, name: str, *, clock: Clock, random: Random, report: Callable[[Made], None]) -> None:
        self.name = name
        _, self._tenant, _, self._policy = name.split("/")
        self._monotonic, self._report = clock.monotonic, report
        self._bits = Random(random.getrandbits(256)).getrandbits  # noqa: S311 - the system's own costs a call into it
        self._rules: Rules | None = None
        self._vectors: dict[str, Vector] = {}
        self._coming: dict[str, Vector] | None = None
        self._mode = 0
        self._readings: deque[float] = deque(maxlen=READINGS)
        self._offset = 0.0
        self._lease_end = float("-inf")
        # By whether the mode stopped everything: an episode that was decided before is decided anew then.
        self._remembered: dict[bool, OrderedDict[str, Choice]] = {False: OrderedDict(), True: OrderedDict()}

    @property
    def is_held(self) -> bool:
        """Whether everything came at least once, so that there is something to decide by."""
        return self._lease_end > float("-inf")

    @property
    def is_live(self) -> bool:
        """Whether the lease lasts; without it the baseline is served."""
        return self._monotonic() < self._lease_end

    def begin(self) -> None:
        """Expect everything anew: a stream begins. What is held goes on serving until it is all there."""
        self._coming = {}

    def take(self, message: WatchAllocationsResponse) -> None:
        """Take in a message of the stream; its lease counts from when it was sent, however long it travelled."""
        if message.HasField("policy"):
            self._rules = rules_of(message.policy)
        vectors = self._vectors if self._coming is None else self._coming
        vectors.update({allocation.bucket: vector_of(allocation) for allocation in message.allocations})
        self._mode = int(message.effective_mode)
        sent = message.server_time.seconds + message.server_time.nanos * 1e-9
        self._readings.append(sent - self._monotonic())
        self._offset = max(self._readings)
        if message.HasField("lease") and self._rules is not None:
            self._vectors, self._coming = vectors, None
            self._lease_end = sent + message.lease.seconds + message.lease.nanos * 1e-9 - self._offset

    def decide(self, question: Question) -> Choice:
        """Choose for an episode; the same again for one that was decided here, unless a freeze came between.

        Raises:
            QuestionRefused: the server would refuse it, too.
        """
        rules, mode, now = self._rules, self._mode, self._monotonic()
        if rules is None:
            raise RuntimeError("nothing to decide by yet: look at `is_held` first")
        check_context(rules.kinds, question.categories, question.numbers)
        is_stopped = mode in STOPPED
        remembered = self._remembered[is_stopped]
        known = remembered.get(question.episode_id)
        if known is not None:
            return known
        if now >= self._lease_end and not is_stopped:
            made = self._baseline(question, rules, now, COLD, _STALE)
        else:
            made = self._chosen(question, rules, now)
        choice = self._choice(made, rules)
        remembered[question.episode_id] = choice
        if len(remembered) > REMEMBERED:
            remembered.popitem(last=False)
        self._report(made)
        return choice

    def _chosen(self, question: Question, rules: Rules, now: float) -> Made:
        name = bucket(rules.features, question.categories, question.numbers)
        vector = self._vectors.get(name) or self._vectors.get(COLD)
        if vector is None or (vector.policy_version != rules.version and rules.baseline_key not in vector.index):
            return self._baseline(question, rules, now, name, _WITHOUT_VECTOR.get(self._mode, _STALE))
        u = uniform(self._tenant, self._policy, question.episode_id, vector.seed_epoch, vector.version)
        wish = _without_retired(question.wish, vector, rules)
        chosen = choose(vector, wish, self._mode, u)
        return self._made(
            question,
            rules,
            now,
            name,
            wish.available,
            vector.actions[chosen.place],
            chosen,
            "" if chosen.shadow is None else vector.actions[chosen.shadow],
            (vector.policy_version, vector.version, vector.seed_epoch),
        )

    def _baseline(self, question: Question, rules: Rules, now: float, name: str, reason: int) -> Made:
        chosen, versions = Chosen(0, 1.0, reason, False), (rules.version, 0, rules.seed_epoch)
        return self._made(question, rules, now, name, question.wish.available, rules.baseline_key, chosen, "", versions)

    def _made(
        self,
        question: Question,
        rules: Rules,
        now: float,
        bucket: str,
        available: tuple[str, ...],
        action_key: str,
        chosen: Chosen,
        shadow_key: str,
        versions: tuple[int, int, int],
    ) -> Made:
        milliseconds = int((now + self._offset) * 1e3)
        rate = rules.judge_rate
        asked = judge_requested(self._tenant, self._policy, question.episode_id, rate)
        return Made(
            question.episode_id,
            question.request_id,
            {**question.categories, **question.numbers},
            _uuid7(milliseconds, self._bits(74)),
            milliseconds,
            bucket,
            available,
            action_key,
            chosen.propensity,
            chosen.reason,
            chosen.is_randomised,
            shadow_key,
            *versions,
            self._mode,
            asked,
            rate,
        )

    def _choice(self, made: Made, rules: Rules) -> Choice:
        return Choice(
            policy=self.name,
            episode_id=made.episode_id,
            action=rules.action(made.action_key),
            action_key=made.action_key,
            propensity=made.propensity,
            is_randomised=made.is_randomised,
            judge_requested=made.judge_requested,
            token=b"",
            decision=f"tenants/{self._tenant}/decisions/{made.decision_id}",
            reason=_NAMES[made.reason],
            fallback=False,
        )


def _without_retired(wish: Wish, vector: Vector, rules: Rules) -> Wish:
    """Leave out actions that the policy no longer has, while the vector made before still serves."""
    if vector.policy_version == rules.version or vector.actions == rules.live:
        return wish
    able = tuple(key for key in wish.available or vector.actions if key in rules.live)
    return replace(wish, available=able)


def _uuid7(milliseconds: int, randomness: int) -> str:
    """Make a UUIDv7 (RFC 9562 §5.7) of a time and 74 random bits.

    >>> _uuid7(0x0123456789AB, 0)
    '01234567-89ab-7000-8000-000000000000'
    """
    high = f"{milliseconds:012x}"
    low = f"{0x8000000000000000 | (randomness >> 12):016x}"
    return f"{high[:8]}-{high[8:]}-7{randomness & 0xFFF:03x}-{low[:4]}-{low[4:]}"
