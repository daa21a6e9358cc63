"""One policy in one process, without a database: the service's own code decides, settles, folds and publishes.

What the worker does in its passes it does here too: `application.settle.rule`, `PolicyFold.replace`,
`application.publish.publish`. A decision is `domain.eligibility.choose` on the published vector, as `Decide` makes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.learned import EpisodeFile, EpisodeKey, LearnedRecord
from kedge_bandit.application.publish import publish
from kedge_bandit.application.settle import Task, rule
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.dossier import Chosen, Event, EventKind
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import PLAIN, Choice, choose
from kedge_bandit.domain.episode import GuardrailEvent, GuardrailKind, Trajectory
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.learners import LEARNERS
from kedge_bandit.domain.mode import Mode, PolicyClock
from kedge_bandit.domain.outcome import Outcome, Provenance, SignalKind
from kedge_bandit.domain.policy import Exploration, Policy, PolicySpec, Settlement
from kedge_bandit.domain.published import COLD, Allocation
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.settlement import Arrival
from kedge_bandit.entrypoints.scenarios.stream import BEGIN, HALF_LIFE_TURNS, TURN, Signal

TENANT = TenantId("scenarios")
AT_ONCE = Settlement()
"""Nothing is waited for that does not come with the log; what comes later amends."""
CLEAN = Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),), terminated=True)
DEFAULT_HALF_LIFE = HALF_LIFE_TURNS * TURN
FOREVER = timedelta(days=36_500_000)
"""A half-life that discounts nothing that counts."""
EXPLORATION = Exploration(floor=0.05, uniform_slice=0.05, budget_off=True)
"""The least floor there is and no budget: what is measured is how belief moves traffic."""
VERIFIED = RewardSpec(
    cost_reference_usd=1.0, latency_reference_ms=1.0, weight_human=0.4, weight_judge=0.2, weight_task_success=0.4,
    weight_cost=0.0, weight_latency=0.0,
)  # fmt: skip
"""The default's proportions; cost and latency, which the scenarios do not have, count nothing."""


def spec_of(arms: int, *, half_life: timedelta = DEFAULT_HALF_LIFE, settlement: Settlement = AT_ONCE) -> PolicySpec:
    """Configure a policy of some prompts, the first of them the baseline."""
    prompts = tuple(Arm(dimension=Dimension.PROMPT_VARIANT, name=f"a{i}", content=f"prompt {i}") for i in range(arms))
    return PolicySpec(
        arms=prompts,
        baseline={Dimension.PROMPT_VARIANT: "a0"},
        reward=VERIFIED,
        settlement=settlement,
        exploration=EXPLORATION,
        half_life=half_life,
    )


@dataclass(slots=True, kw_only=True)
class Served:
    """A policy that serves and learns.

    Attributes:
        log: all evidence there was, in its order.
    """

    policy: Policy
    fold: PolicyFold
    allocation: Allocation | None = None
    files: dict[EpisodeId, EpisodeFile] = field(default_factory=dict)
    newest: dict[EpisodeId, EvidenceEntry] = field(default_factory=dict)
    log: list[EvidenceEntry] = field(default_factory=list)

    @classmethod
    def start(cls, name: str, spec: PolicySpec) -> "Served":
        """Start a policy that has seen nothing, and publish its first vector."""
        policy = Policy(
            name=PolicyName(name),
            version=1,
            configuration_version=1,
            mode=Mode.APPLY,
            seed_epoch=0,
            spec=spec,
            create_time=BEGIN,
            update_time=BEGIN,
        )
        served = cls(policy=policy, fold=_fold(policy, LearnedRecord()))
        served.publish(BEGIN)
        return served

    def configure(self, spec: PolicySpec, now: datetime) -> None:
        """Put another configuration in force, as PutPolicy does."""
        version = self.policy.version + 1
        self.policy = replace(self.policy, version=version, configuration_version=version, spec=spec, update_time=now)
        self.fold = _fold(self.policy, self.fold.record)
        self.publish(now)

    def decide(self, episode: EpisodeId, now: datetime) -> Choice:
        """Choose for an episode, and remember what learning needs of it."""
        allocation = self.allocation
        assert allocation is not None  # noqa: S101 - the first one was published at the start
        u = uniform(TENANT, self.policy.name, episode, allocation.seed_epoch, allocation.version)
        choice = choose(allocation, PLAIN, self.policy.mode, u)
        chosen = Chosen(
            decision_id=DecisionId(f"decision of {episode}"),
            time=now,
            bucket="",
            action=allocation.actions[choice.index],
            policy_version=allocation.policy_version,
            reason=choice.reason,
            judge_requested=judge_requested(TENANT, self.policy.name, episode, self.policy.spec.settlement.judge_rate),
        )
        file = EpisodeFile(key=EpisodeKey(self.policy.name, episode), open_time=now)
        file.dossier = file.dossier.extended(chosen=chosen)
        self.files[episode] = file
        return choice

    def hear(
        self, episode: EpisodeId, signals: Sequence[Signal], now: datetime, *, ended: bool, times: int = 1
    ) -> None:
        """Take what is said of an episode, its log with it where it has ended, and settle it if it can be.

        Args:
            times: how often the same message comes, as from a caller that retries.
        """
        arrivals = [Arrival(self._outcome(episode, signal, now), now) for signal in signals]
        events = [Event(f"log of {episode}", EventKind.LOG, now, trajectory=CLEAN)] if ended else []
        for _ in range(times):
            file = self.files[episode]
            file.dossier = file.dossier.extended(events=events, arrivals=arrivals)
            self._settle(Task(file=file, trigger_time=now, events=events, arrivals=arrivals), now)

    def publish(self, now: datetime) -> None:
        """Renew the vector if it has to be."""
        done = publish(TENANT, self.fold, LEARNERS, now=now, evidence_sequence=len(self.log))
        own = [each for each in done.allocations if each.bucket == COLD]
        self.allocation = own[-1] if own else self.allocation

    def _settle(self, task: Task, now: datetime) -> None:
        episode = task.file.key.episode_id
        task.previous = self.newest.get(episode)
        entry = rule(task, self.fold, now=now).entry
        if entry is not None:
            entry = replace(entry, sequence=len(self.log) + 1)
            self.fold.replace(task.previous, entry)
            self.log.append(entry)
            self.newest[episode] = entry

    def _outcome(self, episode: EpisodeId, signal: Signal, now: datetime) -> Outcome:
        is_human = signal.kind is SignalKind.HUMAN
        return Outcome(
            key=f"{signal.kind} of {episode}",
            signal=signal.kind,
            source="core-app",
            observed_time=now,
            value=2.0 * signal.value - 1.0 if is_human else signal.value,
            provenance=Provenance.THUMB if is_human else None,
        )


def _fold(policy: Policy, record: LearnedRecord) -> PolicyFold:
    return PolicyFold(
        policy=policy,
        clock=PolicyClock(),
        mode=policy.mode,
        record=record,
        live=frozenset(policy.spec.action_keys),
    )
