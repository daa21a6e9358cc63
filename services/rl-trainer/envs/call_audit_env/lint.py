"""Hold transcripts to the rubric before they are played: nothing wrong without a label, and no label without cause.

It goes by wording, as the cues do; what it cannot read, the labels' author vouches for.
"""

import re
from collections.abc import Iterator

from call_audit_env.calls import Breach, Call, Speaker
from call_audit_env.cues import (
    ACCOUNT,
    ASKS_LESS,
    ASKS_MAIDEN,
    ASKS_SOCIAL,
    DEBT_NOTICE,
    NOTICE,
    OFFERS_SUPERVISOR,
    SILENT,
    WANTS_SUPERVISOR,
    asked_to_wait,
    heard,
)

_JUDGING = re.compile(r"violat|breach|improper|unauthor|illegal|without (?:approval|notice)|complian", re.IGNORECASE)


def problems(call: Call) -> list[str]:
    """List what is wrong with a transcript, a sentence each; none for one that may be played."""
    return [*_form(call), *_notices(call), *silences(call), *_holds(call), *_requests(call), *_supervisors(call)]


def _labelled(call: Call, policy: str) -> list[Breach]:
    return [one for one in call.breaches if one.policy == policy]


def _spans(call: Call, policy: str) -> set[int]:
    return {index for one in _labelled(call, policy) for index in one.span}


def _form(call: Call) -> Iterator[str]:
    """Check turns, times, moods and the summary."""
    for index, turn in enumerate(call.turns):
        if turn.end < turn.start:
            yield f"turn {index} ends before it starts"
        if index and turn.start < call.turns[index - 1].end:
            yield f"turn {index} starts before turn {index - 1} ends"
        if index and turn.continues != (turn.speaker is call.turns[index - 1].speaker):
            yield f"turn {index} is said by the same side, and not marked so"
    if call.seconds != round(call.turns[-1].end):
        yield "the duration is not the end of the last turn"
    for shift in call.shifts:
        if not 0 <= shift.turn < len(call.turns) or call.turns[shift.turn].speaker is not Speaker.CUSTOMER:
            yield f"a mood changes at turn {shift.turn}, which is no turn of the customer"
    if _JUDGING.search(call.summary):
        yield "the summary judges"


def _notices(call: Call) -> Iterator[str]:
    """Check the opening against its label, both ways."""
    opening = call.turns[0].text
    told = NOTICE.search(opening) and (call.department != "collections" or DEBT_NOTICE.search(opening))
    labelled = bool(_labelled(call, "regulatory_disclosure_failure"))
    if not told and not labelled:
        yield "the opening has no notice, and no label says so"
    if told and labelled:
        yield "the opening has its notice, and a label says that it has not"


def silences(call: Call) -> Iterator[str]:
    """Find long silences that nobody consented to and no label names."""
    said, spans = heard(call.turns), _spans(call, "incorrect_hold_procedure")
    for one in said:
        if one.pause >= SILENT and one.turn not in spans and not asked_to_wait(said, one.turn):
            yield f"{one.pause:.0f} seconds of silence before turn {one.turn} without consent, estimate or label"


def _holds(call: Call) -> Iterator[str]:
    """Find labels of holds during which nobody is silent."""
    for breach in _labelled(call, "incorrect_hold_procedure"):
        if not any(call.silence_before(index) >= SILENT for index in breach.span):
            yield f"a hold is labelled at turn {breach.at}, and nobody is silent there"


def _requests(call: Call) -> Iterator[str]:
    """Find requests for more personal data than needed that no label names, and numbers read aloud by the agent."""
    spans = _spans(call, "pii_exposure_risk")
    for index, turn in enumerate(call.turns):
        if turn.speaker is not Speaker.AGENT or index in spans:
            continue
        social = ASKS_SOCIAL.search(turn.text) and not ASKS_LESS.search(turn.text)
        if social or ASKS_MAIDEN.search(turn.text) or ACCOUNT.search(turn.text):
            yield f"turn {index} asks for or says more personal data than needed, and no label says so"


def _supervisors(call: Call) -> Iterator[str]:
    """Find requests for a supervisor without an offer in the agent's next two turns that no label names."""
    spans = _spans(call, "failed_escalation")
    for index, turn in enumerate(call.turns):
        if turn.speaker is Speaker.CUSTOMER and WANTS_SUPERVISOR.search(turn.text) and index not in spans:
            answers = [later.text for later in call.turns[index + 1 :] if later.speaker is Speaker.AGENT][:2]
            if not any(OFFERS_SUPERVISOR.search(answer) for answer in answers):
                yield f"turn {index} asks for a supervisor, nobody offers one, and no label says so"
