"""The office as it stands, and what a move makes of it: no rewards, no wire types, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from brief_routing_env import analyst, finance, memos, strategy
from brief_routing_env.ledger import Cleaning, balance
from brief_routing_env.refine import GAP, Room, answer
from brief_routing_env.reports import Brief, Report, compose
from brief_routing_env.scenarios import Case
from brief_routing_env.tasks import QUESTIONS, UPSTREAM, Expert


class Verb(StrEnum):
    """What a router can do."""

    CONSULT = "consult"
    ASK = "ask"
    SUMMARIZE = "summarize"
    SUBMIT = "submit"
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Move:
    """An action as it was understood; `expert` of consult and ask, `question` of ask."""

    verb: Verb
    expert: Expert | None = None
    question: str = ""


class Event(StrEnum):
    """What became of a move."""

    FIRST = "first report of a required expert"
    EXTRA = "first report of another expert"
    LACKING = "a report whose inputs are missing"
    RENEWED = "a report on changed inputs"
    REPEATED = "a second report on the same"
    REPEATED_AGAIN = "a third report on the same, or a later one"
    ANSWERED = "a sub-question that the task asks for"
    ANSWERED_BESIDE = "a sub-question beside the task"
    SUMMARIZED = "a first summary"
    EARLY = "a summary before everybody has reported"
    SUMMARIZED_AGAIN = "another summary"
    SUBMITTED = "the submission"
    IDLE = "nothing"
    REFUSED = "no action"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A report in hand.

    Args:
        version: Rises whenever what the report says has changed.
        built_on: Versions of the reports that it was written from.
        repeats: How often it was asked for again without need.
    """

    report: Report
    version: int = 1
    built_on: tuple[tuple[Expert, int], ...] = ()
    repeats: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An episode in progress.

    Args:
        held: Reports, in the order in which they first came.
        cleaning: How the analyst treated the file, once asked.
        credited: Experts whose first whole report was counted.
        asked: Sub-questions that need no other answer.
        reported_at, summarized_at: Step of the last news, and of the last summary; 0 for none.
        summaries: How many there were with everybody's report.
    """

    case: Case = field(compare=False)
    held: Mapping[Expert, Held] = field(default_factory=lambda: MappingProxyType({}))
    cleaning: Cleaning | None = None
    credited: frozenset[Expert] = frozenset()
    asked: frozenset[str] = frozenset()
    steps: int = 0
    reported_at: int = 0
    summarized_at: int = 0
    summaries: int = 0
    brief: Brief | None = None
    over: bool = False
    truncated: bool = False

    @property
    def reports(self) -> dict[Expert, Report]:
        """The reports alone."""
        return {expert: one.report for expert, one in self.held.items()}

    @property
    def complete(self) -> bool:
        """Whether every required expert has reported."""
        return all(expert in self.held for expert in self.case.task.required)


def play(world: World, move: Move | None) -> tuple[World, Event, str]:
    """Make one move; what is over stays as it is.

    Args:
        world: The office before.
        move: What was understood, None for something that is no action.

    Returns:
        The office after, what became of the move, and why it did nothing if it did not.
    """
    if world.over:
        return world, Event.REFUSED, "the brief is submitted"
    world = replace(world, steps=world.steps + 1)
    after, event, why = _act(world, move)
    if not after.over and after.steps >= world.case.task.max_steps:
        after = replace(_filled(after), over=True, truncated=True)
        after = replace(after, brief=compose(after.reports))
    return after, event, why


def _act(world: World, move: Move | None) -> tuple[World, Event, str]:
    match move:
        case None:
            return world, Event.REFUSED, "there is no such action; consult and ask name an expert"
        case Move(Verb.CONSULT, Expert() as expert, _):
            return (*_consult(world, expert), "")
        case Move(Verb.ASK, Expert() as expert, question):
            return (*_consult(world, expert), "") if world.case.compat else _ask(world, expert, question)
        case Move(Verb.SUMMARIZE, _, _):
            return (*_summarize(world), "")
        case Move(Verb.SUBMIT, _, _):
            done = _filled(world)
            return replace(done, brief=compose(done.reports), over=True), Event.SUBMITTED, ""
        case Move(Verb.NOOP, _, _):
            return world, Event.IDLE, ""
        case _:
            return world, Event.REFUSED, f"{move.verb} needs an expert"


def _consult(world: World, expert: Expert) -> tuple[World, Event]:
    """Have an expert report; the report replaces the one before, and answers given on other inputs go with it."""
    report, cleaning = report_of(world, expert)
    before = world.held.get(expert)
    on = tuple((one, world.held[one].version) for one in world.held if one in inputs(expert))
    event, repeats = _rated(world, expert, report, on)
    asked = world.asked
    if before is not None and event in (Event.REPEATED, Event.REPEATED_AGAIN):
        report = replace(report, sections=before.report.sections)
    else:
        asked -= set(QUESTIONS[expert])
    said = before is not None and _same(before.report, report)
    version = (before.version if before else 0) + (not said)
    held = Held(report=report, version=version, built_on=on, repeats=repeats)
    after = replace(
        world,
        held=MappingProxyType({**world.held, expert: held}),
        cleaning=cleaning,
        credited=world.credited | ({expert} if event in (Event.FIRST, Event.EXTRA) else set()),
        asked=asked,
        reported_at=world.reported_at if said else world.steps,
    )
    return after, event


def inputs(expert: Expert) -> tuple[Expert, ...]:
    """List whose reports an expert builds on; HR takes strategy's where there is one."""
    return (*UPSTREAM[expert], Expert.STRATEGY) if expert is Expert.HR else UPSTREAM[expert]


def _rated(world: World, expert: Expert, report: Report, on: tuple[tuple[Expert, int], ...]) -> tuple[Event, int]:
    """Say what a report is worth asking for; the published rules know no changed inputs."""
    before = world.held.get(expert)
    if before is not None and (world.case.compat or before.built_on == on):
        again = Event.REPEATED_AGAIN if before.repeats else Event.REPEATED
        return again, before.repeats + 1
    repeats = before.repeats if before else 0
    if report.lacks:
        return Event.LACKING, repeats
    if expert in world.credited:
        return Event.RENEWED, repeats
    return (Event.FIRST if expert in world.case.task.required else Event.EXTRA), repeats


def _same(one: Report, other: Report) -> bool:
    return (one.metrics, one.bullets, one.memo, one.issues) == (other.metrics, other.bullets, other.memo, other.issues)


def report_of(world: World, expert: Expert) -> tuple[Report, Cleaning | None]:
    """Have an expert write a report on what is in hand.

    The published rules compute what is missing silently, and count nobody as consulted for it; ours do not.
    """
    case, desk, given = world.case, world.case.desk, world.reports
    usual = analyst.cleaning_of(desk, lies=case.lies)
    cleaning = world.cleaning or usual
    if expert is Expert.ANALYST:
        return analyst.analyse(desk, case.orders, cleaning), cleaning
    if case.compat:
        silent = given.get(Expert.ANALYST) or analyst.analyse(desk, case.orders, usual)
        given = {Expert.ANALYST: silent, **given}
    if expert is Expert.FINANCE:
        return finance.report(desk, given.get(Expert.ANALYST), balance(case.orders, cleaning)), world.cleaning
    if case.compat and Expert.FINANCE not in given:
        given[Expert.FINANCE] = finance.report(desk, given[Expert.ANALYST], balance(case.orders, cleaning))
    if expert is Expert.STRATEGY:
        return strategy.report(desk, given.get(Expert.ANALYST), given.get(Expert.FINANCE)), world.cleaning
    return memos.write(desk, given), world.cleaning


def _ask(world: World, expert: Expert, question: str) -> tuple[World, Event, str]:
    """Have a report refined; a question that was answered is answered again only once more is known."""
    if question not in QUESTIONS[expert]:
        return world, Event.REFUSED, f"{expert} answers {', '.join(QUESTIONS[expert])}"
    if expert not in world.held:
        return world, Event.REFUSED, f"consult {expert} first: there is no report to refine"
    if question in world.asked:
        return world, Event.REPEATED, ""
    before = world.held[expert]
    room = Room(case=world.case, reports=world.reports, cleaning=world.cleaning or Cleaning())
    found = answer(question, expert, room)
    changed = not _same(before.report, found.report)
    held = replace(before, report=found.report, version=before.version + changed)
    asked = world.asked | {question}
    if GAP in found.report.issues and expert is Expert.FINANCE:
        asked -= {"recheck_duplicates"}
    after = replace(
        world,
        held=MappingProxyType({**world.held, expert: held}),
        cleaning=found.cleaning if world.cleaning else None,
        asked=asked,
        reported_at=world.steps,
    )
    return after, Event.ANSWERED if question in world.case.task.useful else Event.ANSWERED_BESIDE, ""


def _summarize(world: World) -> tuple[World, Event]:
    """Compose the brief as of now."""
    early = not world.complete
    after = _filled(world)
    event = Event.EARLY if early else Event.SUMMARIZED_AGAIN if world.summaries else Event.SUMMARIZED
    composed = replace(after, brief=compose(after.reports), summarized_at=world.steps)
    return replace(composed, summaries=world.summaries + (not early)), event


def _filled(world: World) -> World:
    """With the net on, run every required expert who has not reported; on its own a policy gets nothing."""
    if world.case.strict:
        return world
    for expert in world.case.task.required:
        if expert not in world.held:
            world, _ = _consult(world, expert)
    return world
