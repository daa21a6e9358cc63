"""What keeping the holdout and asking it needs from the outside."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from kedge_bandit.application.proposal_ports import ProposingLedger
from kedge_bandit.domain.case_effects import CaseLifts
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.divergence_check import DivergenceCheck
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.gate import AskedOf
from kedge_bandit.domain.holdout import HoldoutCase, Part, Reserved
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.rotation import Held

MAX_TIMEOUT_SECONDS: Final = 600.0
MAX_PARALLEL: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a policy's holdout.

    Attributes:
        number: counts from 1.
        digest: hash of its cases' hashes.
        since: number of the newest rotation, or of the first version: what the peek ledger counts from.
        actor: who imported its cases, or rotated, as the audit log names them.
        stale_because: a provider's model changed under it; empty: none did.
    """

    number: int
    digest: str
    since: int
    create_time: datetime
    actor: str = ""
    stale_because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One query of the peek ledger; `close_time` is None while it runs."""

    version_number: int
    query: int
    proposal: str
    alpha: float
    open_time: datetime
    lease_until: datetime
    done: int
    total: int
    close_time: datetime | None = None
    verdict: str = ""
    discordance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one side answered to a case, and what that cost; `vetoed` where a guardrail tripped.

    Attributes:
        model_id: as the provider names what answered; empty: unknown.
        score: where the answerer itself scores, as an environment does; None: it is checked.
    """

    output: str
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    vetoed: bool = False
    model_id: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """An answer as it is kept with its score, until its case leaves."""

    case_hash: str
    side: str
    answer: Answer
    score: float


class AnswererKind(StrEnum):
    """How answers are fetched; REPORTED is a platform's own harness."""

    OPENAI = "OPENAI"
    SCRIPT = "SCRIPT"
    CORE_APP = "CORE_APP"
    ENVIRONMENT = "ENVIRONMENT"
    REPORTED = "REPORTED"


_PLACE: Final = re.compile(r"(?:tls://)?(?:\[([0-9a-f:]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})", re.ASCII)


def core_app_place(address: str) -> tuple[str, int]:
    """Read host and port of a core application: what is checked is what is dialled. Raises InvalidValue.

    >>> core_app_place("tls://answers.example:443")
    ('answers.example', 443)
    >>> core_app_place("[::1]:50053")
    ('::1', 50053)
    """
    found = _PLACE.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 65_536:
        raise InvalidValue("address", repr(address[:80]), "host:port of the core application, or tls://host:port")
    return (found[1] or found[2]).lower(), int(found[3])


class AnswererPart(StrEnum):
    """What an answerer is asked for."""

    ANSWERER = "ANSWERER"
    JUDGE = "JUDGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswererSettings:
    """Who answers, or judges.

    Attributes:
        address: an http(s) URL up to /v1, (tls://)host:port of the core application, or the name of a program.
        model: where the action names none; the judge's pinned one.
        secret_name: file in the tenant's own folder of the gate's secrets; empty: none.
        timeout_seconds: of one answer.
        parallel: answers asked for at once.
    """

    kind: AnswererKind
    address: str
    model: str = ""
    usd_per_million_prompt_tokens: float = 0.0
    usd_per_million_completion_tokens: float = 0.0
    secret_name: str = ""
    timeout_seconds: float = 60.0
    parallel: int = 4

    def __post_init__(self) -> None:
        """Refuse what could never answer. Raises InvalidValue."""
        if self.kind is AnswererKind.REPORTED or not self.address:
            raise InvalidValue("answerer", f"{self.kind} at {self.address!r}", "a kind that is asked, and its address")
        if self.kind is AnswererKind.OPENAI and not self.address.startswith(("http://", "https://")):
            raise InvalidValue("address", repr(self.address[:80]), "an http:// or https:// URL, up to /v1")
        if self.kind is AnswererKind.CORE_APP:
            core_app_place(self.address)
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT_SECONDS or not 1 <= self.parallel <= MAX_PARALLEL:
            found = f"{self.timeout_seconds} s, {self.parallel} at once"
            raise InvalidValue("answerer", found, f"at most {MAX_TIMEOUT_SECONDS:g} s, 1 to {MAX_PARALLEL} at once")
        named = self.secret_name and not self.secret_name.replace("-", "").replace("_", "").isalnum()
        if named or len(self.secret_name) > 64:
            raise InvalidValue("secret_name", repr(self.secret_name[:80]), "a file name of letters, digits, - and _")
        prices = (self.usd_per_million_prompt_tokens, self.usd_per_million_completion_tokens)
        if not all(0 <= price < float("inf") for price in prices):
            raise InvalidValue("price", str(prices), "US dollars per million tokens, 0 or more")


class HoldoutCases(Protocol):
    """The versions and cases of the open tenant, and what may be trained on."""

    async def lock(self, policy: PolicyName) -> None:
        """Let nobody else change this policy's holdout, or open a query of it, until the transaction ends."""

    async def newest(self, policy: PolicyName) -> Version | None:
        """Read the version in force."""

    async def rotations(self, policy: PolicyName, since: datetime) -> int:
        """Count rotations since a time."""

    async def read(self, policy: PolicyName, part: Part, through: int) -> Sequence[HoldoutCase]:
        """Read unopened cases of one part up to a version; of GATE only after its query is in the ledger."""

    async def sizes(self, policy: PolicyName, through: int) -> tuple[int, int]:
        """Count the cases of the gate part that a query asks: those that count for quality, and adversarial ones."""

    async def added(self, policy: PolicyName, after: int, through: int) -> Mapping[str, int]:
        """Count the cases of the gate part that a query asks and that came after a version, by who imported them."""

    async def of(self, policy: PolicyName, case_hashes: Collection[str]) -> Sequence[HoldoutCase]:
        """Read cases by hash, also those that have left."""

    async def held(self, policy: PolicyName) -> Sequence[Held]:
        """Read what a rotation needs to know of the cases in force."""

    async def kinds(self, policy: PolicyName) -> Mapping[tuple[str, Part, bool], int]:
        """Count the cases in force by kind, part and whether they are adversarial."""

    async def ids(self, policy: PolicyName) -> Collection[str]:
        """Read the names of the cases in force, and the hashes of all that ever were."""

    async def add(
        self, policy: PolicyName, version: Version, added: Sequence[HoldoutCase], removed: Collection[str]
    ) -> None:
        """Make the next version; it is a rotation where `since` is its own number."""

    async def training_like(self, policy: PolicyName, words: Collection[int]) -> Sequence[frozenset[int]]:
        """Read the word sequences of training texts that share any of these."""

    async def add_training(self, policy: PolicyName, texts: Mapping[str, frozenset[int]], at: datetime) -> int:
        """Remember texts by hash, and which cases are like them. Gives how many were new."""

    async def mark_opened(self, policy: PolicyName, case_hashes: Collection[str], at: datetime, by: str) -> None:
        """Say that somebody saw them."""

    async def openers(self, policy: PolicyName, since: int) -> Collection[str]:
        """Name who saw cases since a version was made."""

    async def add_lifts(self, policy: PolicyName, lifts: Mapping[str, float]) -> CaseLifts:
        """Add what a divergence check saw of cases, by hash; gives the sensor part's sums over all checks."""

    async def mark_stale(self, policy: PolicyName, because: str) -> None:
        """Say that the version in force is not comparable any more."""

    async def secret(self, fresh: bytes) -> bytes:
        """Read the tenant's secret; a fresh one is kept where there is none."""


class PeekLedger(Protocol):
    """The ledger of queries, with the answers that they got."""

    async def rows(self, policy: PolicyName, since: int) -> Sequence[LedgerRow]:
        """Read the queries of the versions from a number on, oldest first."""

    async def of_proposal(self, proposal: str) -> tuple[PolicyName, LedgerRow] | None:
        """Read a proposal's newest query."""

    async def open(self, policy: PolicyName, row: LedgerRow) -> None:
        """Write a query down, before the gate part is opened."""

    async def beat(self, policy: PolicyName, row: LedgerRow) -> bool:
        """Say that it runs on, with `done` and `lease_until`; False where somebody closed it meanwhile."""

    async def close(self, policy: PolicyName, row: LedgerRow) -> None:
        """Write how it ended."""

    async def keep(self, policy: PolicyName, row: LedgerRow, answers: Sequence[KeptAnswer]) -> None:
        """Keep answers of a query."""

    async def answers(self, policy: PolicyName, row: LedgerRow) -> Sequence[KeptAnswer]:
        """Read them."""


class Answerers(Protocol):
    """Who answers and judges, by policy."""

    async def get(self, policy: PolicyName, part: AnswererPart) -> tuple[AnswererSettings, str] | None:
        """Read the settings, and the model that was seen to answer last."""

    async def put(self, policy: PolicyName, part: AnswererPart, settings: AnswererSettings, change: Change) -> None:
        """Replace the settings, and remember who did."""

    async def asked(self, policy: PolicyName) -> tuple[AskedOf, ...]:
        """Say who is asked, by part, and who set that."""

    async def seen(self, policy: PolicyName, part: AnswererPart, model_id: str) -> None:
        """Remember the model that answered."""


class HoldoutRecord(Protocol):
    """One tenant's holdout, open for one transaction, with a way into the tenant's own record."""

    @property
    def cases(self) -> HoldoutCases:
        """Versions and cases."""

    @property
    def ledger(self) -> PeekLedger:
        """Queries."""

    @property
    def answerers(self) -> Answerers:
        """Who answers."""

    def tenant(self) -> AbstractAsyncContextManager[ProposingLedger]:
        """Go on under the tenant's role for a while, in the same transaction."""

    async def add_check(self, check: DivergenceCheck) -> None:
        """Add a divergence check to the tenant's record, as the gate's login, which alone may."""

    async def reserved(self, policy: PolicyName, *, after: str, limit: int) -> Sequence[Reserved]:
        """Read reserved episodes by id."""


class Holdouts(Protocol):
    """Opens holdouts."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[HoldoutRecord]:
        """Open one tenant's holdout. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""

    async def waiting(self) -> Sequence[tuple[TenantId, str]]:
        """Name the proposals of all tenants that the gate is to run, oldest first."""
