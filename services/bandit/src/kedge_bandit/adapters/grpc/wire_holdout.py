"""Map cases, holdouts and answerers between the wire and the domain."""

from collections.abc import Iterable
from typing import Final

from kedge.bandit.v1 import answer_service_pb2, decision_pb2, episode_pb2
from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge_bandit.adapters.grpc.wire import timestamp
from kedge_bandit.application.holdout_ports import Answer, AnswererKind, AnswererSettings, LedgerRow
from kedge_bandit.application.keep_holdout import RefusedCase
from kedge_bandit.application.read_holdout import HoldoutStatus, OpenedCase
from kedge_bandit.domain.errors import InvalidValue, KedgeError
from kedge_bandit.domain.holdout import (
    Check,
    EpisodeCheck,
    ExactCheck,
    HoldoutCase,
    Message,
    RegexCheck,
    Reserved,
    RubricCheck,
    SchemaCheck,
    ToolCallCheck,
)
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.proposal import proposal_name

_ASKED: Final[list[AnswererKind]] = [kind for kind in AnswererKind if kind is not AnswererKind.REPORTED]
_NUMBERS: Final = {kind: pb.AnswererKind.Value(f"ANSWERER_KIND_{kind}") for kind in _ASKED}
_KINDS: Final[dict[int, AnswererKind]] = {int(number): kind for kind, number in _NUMBERS.items()}
_DEFAULT_TIMEOUT: Final = 60.0
_DEFAULT_PARALLEL: Final = 4


def cases_of(messages: Iterable[pb.HoldoutCase]) -> list[HoldoutCase | KedgeError]:
    """Read cases; one that cannot be read comes back as its error, so that the others go on."""
    found: list[HoldoutCase | KedgeError] = []
    for message in messages:
        try:
            found.append(_case(message))
        except KedgeError as error:
            found.append(error)
    return found


def answerer_of(message: pb.Answerer) -> AnswererSettings:
    """Read who answers. Raises InvalidValue."""
    kind = _KINDS.get(message.kind)
    if kind is None:
        raise InvalidValue("kind", str(message.kind), "OPENAI, SCRIPT, CORE_APP or ENVIRONMENT")
    return AnswererSettings(
        kind=kind,
        address=message.address,
        model=message.model,
        usd_per_million_prompt_tokens=message.usd_per_million_prompt_tokens,
        usd_per_million_completion_tokens=message.usd_per_million_completion_tokens,
        secret_name=message.secret_name,
        timeout_seconds=message.timeout_seconds or _DEFAULT_TIMEOUT,
        parallel=message.parallel or _DEFAULT_PARALLEL,
    )


def answerer_message(settings: AnswererSettings | None) -> pb.Answerer | None:
    """Put on the wire who answers; the secret's name goes out, never the secret."""
    if settings is None:
        return None
    return pb.Answerer(
        kind=_NUMBERS[settings.kind],
        address=settings.address,
        model=settings.model,
        usd_per_million_prompt_tokens=settings.usd_per_million_prompt_tokens,
        usd_per_million_completion_tokens=settings.usd_per_million_completion_tokens,
        secret_name=settings.secret_name,
        timeout_seconds=settings.timeout_seconds,
        parallel=settings.parallel,
    )


def holdout_message(tenant: TenantId, policy: PolicyName, status: HoldoutStatus) -> pb.Holdout:
    """Put a holdout on the wire: numbers only."""
    message = pb.Holdout(
        policy=f"tenants/{tenant}/policies/{policy}",
        sensor_cases=status.sensor,
        gate_cases=status.gate,
        adversarial_cases=status.adversarial,
        checks=[pb.CheckCount(kind=kind, cases=count) for kind, count in status.kinds.items()],
        power=pb.HoldoutPower(
            next_alpha=status.power.next_alpha,
            equal_passes=status.power.equal_passes,
            detectable_lift=status.power.detectable_lift,
            promotion_possible=status.power.promotion_possible,
            visible_hack=status.power.visible_hack,
            visible_after_days=status.power.visible_after_days,
        ),
        ledger=[_ledger_message(tenant, row) for row in status.ledger],
        rotations_in_year=status.rotations,
        opened_cases=status.opened,
        reserved_episodes=status.reserved,
        advice=status.advice,
    )
    if status.version is not None:
        message.version = status.version.digest
        message.version_number = status.version.number
        message.create_time.CopyFrom(timestamp(status.version.create_time))
        message.stale = bool(status.version.stale_because)
        message.stale_because = status.version.stale_because
    return message


def refused_message(refused: RefusedCase) -> pb.RefusedCase:
    """Put on the wire why a case was refused."""
    return pb.RefusedCase(position=refused.position, reason=refused.reason, message=refused.message)


def reserved_message(episode: Reserved) -> pb.ReservedEpisode:
    """Put a reserved episode on the wire."""
    return pb.ReservedEpisode(
        episode_id=episode.episode_id,
        bucket=episode.bucket,
        end_time=timestamp(episode.decision_time),
        context=decision_pb2.Context(categories=episode.categories, numbers=episode.numbers),
    )


def opened_message(opened: OpenedCase) -> pb.OpenedCase:
    """Put an opened case on the wire, to who may see it."""
    return pb.OpenedCase(
        case=_case_message(opened.case),
        candidate=_answer_message(opened.candidate),
        incumbent=_answer_message(opened.incumbent),
        candidate_score=opened.candidate_score,
        incumbent_score=opened.incumbent_score,
    )


def _ledger_message(tenant: TenantId, row: LedgerRow) -> pb.LedgerEntry:
    message = pb.LedgerEntry(
        query=row.query,
        proposal=proposal_name(tenant, row.proposal),
        alpha=row.alpha,
        open_time=timestamp(row.open_time),
        verdict=row.verdict,
        done=row.done,
        total=row.total,
    )
    if row.close_time is not None:
        message.close_time.CopyFrom(timestamp(row.close_time))
    return message


def _case(message: pb.HoldoutCase) -> HoldoutCase:
    return HoldoutCase(
        check=_check(message),
        messages=tuple(Message(one.role, one.text) for one in message.messages),
        categories=dict(message.context.categories),
        numbers=dict(message.context.numbers),
        adversarial=message.adversarial,
        slice=message.slice,
        case_id=message.case_id,
        source_episode_id=message.source_episode_id,
    )


def _check(message: pb.HoldoutCase) -> Check:
    match message.WhichOneof("check"):
        case "exact":
            return ExactCheck(message.exact.expected, message.exact.ignore_case)
        case "regex":
            return RegexCheck(message.regex.pattern)
        case "json_schema":
            return SchemaCheck(message.json_schema.schema_json)
        case "tool_call":
            return ToolCallCheck(message.tool_call.tool_name, message.tool_call.arguments_json or "{}")
        case "rubric":
            return RubricCheck(message.rubric.rubric, message.rubric.judge_model)
        case "episode":
            return EpisodeCheck(message.episode.environment, message.episode.number)
        case _:
            raise InvalidValue("check", "missing", "one of exact, regex, json_schema, tool_call, rubric and episode")


def _case_message(case: HoldoutCase) -> pb.HoldoutCase:
    message = pb.HoldoutCase(
        case_id=case.name,
        slice=case.slice,
        adversarial=case.adversarial,
        messages=[episode_pb2.ContentMessage(role=one.role, text=one.text) for one in case.messages],
        context=decision_pb2.Context(categories=case.categories, numbers=case.numbers),
        source_episode_id=case.source_episode_id,
    )
    check = case.check
    if isinstance(check, ExactCheck):
        message.exact.expected, message.exact.ignore_case = check.expected, check.ignore_case
    elif isinstance(check, RegexCheck):
        message.regex.pattern = check.pattern
    elif isinstance(check, SchemaCheck):
        message.json_schema.schema_json = check.schema_json
    elif isinstance(check, ToolCallCheck):
        message.tool_call.tool_name, message.tool_call.arguments_json = check.tool_name, check.arguments_json
    elif isinstance(check, RubricCheck):
        message.rubric.rubric, message.rubric.judge_model = check.rubric, check.judge_model
    else:
        message.episode.environment, message.episode.number = check.environment, check.number
    return message


def _answer_message(answer: Answer) -> answer_service_pb2.AnswerResponse:
    return answer_service_pb2.AnswerResponse(
        output=answer.output, cost_usd=answer.cost_usd, latency_ms=answer.latency_ms, model_id=answer.model_id
    )
