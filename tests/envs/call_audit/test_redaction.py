"""Personal data never reaches whoever audits: the behaviors of the original's tests, and those that it got wrong."""

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from call_audit_env import shapes as making
from call_audit_env.book import default
from call_audit_env.calls import Speaker, Turn
from call_audit_env.names import private
from call_audit_env.redact import Redactor, redact
from call_audit_env.shapes import Shape, make, shapes
from tests.trust.size import of

CUSTOMER, AGENT = "[CUSTOMER_NAME]", "[AGENT_NAME]"
MAP = {"Maria Lopez": CUSTOMER, "Maria": CUSTOMER, "Lopez": CUSTOMER, "Tom Reyes": AGENT, "Tom": AGENT, "Reyes": AGENT}

SAMPLES = [
    # account
    ("It is 4821-9930, thanks", "It is [ACCOUNT_NUMBER], thanks"),
    ("My account is 4821-9930-1127.", "My account is [ACCOUNT_NUMBER]."),
    ("Card 4821-9930-1127-5560 expired", "Card [ACCOUNT_NUMBER] expired"),
    ("4821-9930-1127", "[ACCOUNT_NUMBER]"),
    ("four groups 4821 9930 1127 5560 as heard", "four groups [ACCOUNT_NUMBER] as heard"),
    ("I joined in 2017 and never left", None),
    # social security
    ("My social is 512-48-7731.", "My social is [SSN_REDACTED]."),
    ("It's 512 48 7731, yes", "It's [SSN_REDACTED], yes"),
    ("The last four of my SSN are 7731.", "The last four of my SSN are [SSN_REDACTED]."),
    (
        "The last four digits of your social security number, 7731, right?",
        "The last four digits of your social security number, [SSN_REDACTED], right?",
    ),
    # phone
    ("Call (415) 555-0142 after six", "Call [PHONE_REDACTED] after six"),
    ("Call 415-555-0142 after six", "Call [PHONE_REDACTED] after six"),
    ("Call 415.555.0142 after six", "Call [PHONE_REDACTED] after six"),
    # e-mail
    ("ann@example.com", "[EMAIL_REDACTED]"),
    ("Write to ann_lee42@mail.example.org, please", "Write to [EMAIL_REDACTED], please"),
    # money and shares
    ("a fee of $25.00", None),
    ("the balance is $12,340.75 and $4000 of it is yours", None),
    ("a rate of 5.25% or 12 percent", None),
    # edges
    ("", None),
    ("Nothing personal in here.", None),
    (
        "I'm at 415-555-0142, a@b.example, account 4821-9930, SSN 512-48-7731",
        "I'm at [PHONE_REDACTED], [EMAIL_REDACTED], account [ACCOUNT_NUMBER], SSN [SSN_REDACTED]",
    ),
    ("Your number [SSN_REDACTED] and [ACCOUNT_NUMBER] are hidden, [CUSTOMER_NAME]", None),
    # what the original got wrong
    ("from 2019-2024 and 2019 2024", None),
    ("My SSN ending 4532 is right", "My SSN ending [SSN_REDACTED] is right"),
    ("The last four of my account are 4532", "The last four of my account are [ACCOUNT_ENDING]"),
    ("The card ends in 4532.", "The card ends in [ACCOUNT_ENDING]."),
    ("I was born on March 9, 1984.", "I was born on [BIRTH_DATE]."),
    ("Date of birth: 03/09/1984", "Date of birth: [BIRTH_DATE]"),
    ("born the 9th of March 1984", "born [BIRTH_DATE]"),
    ("My birthday is Feb. 9, 1984", "My birthday is [BIRTH_DATE]"),
    ("The bill of March 9, 2024 is open", None),
    ("512487731 and 4821993011275560", "[SSN_REDACTED] and [ACCOUNT_NUMBER]"),
    ("Good morning, Mr. Okafor", f"Good morning, Mr. {AGENT}"),
    # questions stay what they are
    ("What are the last four digits of your social security number?", None),
    ("Read me your full social security number, all nine digits.", None),
    ("What's your mother's maiden name and date of birth?", None),
    ("The last four of your SSN, please.", None),
]

NAMED = [
    ("Maria Lopez called", f"{CUSTOMER} called"),
    ("Thank you, Maria.", f"Thank you, {CUSTOMER}."),
    ("This is Tom Reyes.", f"This is {AGENT}."),
    ("MARIA LOPEZ and maria", f"{CUSTOMER} and {CUSTOMER}"),
    ("Tom, this is Maria", f"{AGENT}, this is {CUSTOMER}"),
    ("Mr. Reyes and Ms. Lopez", f"Mr. {AGENT} and Ms. {CUSTOMER}"),
    ("Maria's card, Tomorrow, Mariana, the Lopezes", f"{CUSTOMER}'s card, Tomorrow, Mariana, the Lopezes"),
    ("That's L-O-P-E-Z, capital L", f"That's {CUSTOMER}, capital L"),
    ("I spell it: M, A, R, Y, A", f"I spell it: {CUSTOMER}"),
]


@pytest.mark.parametrize(("text", "wanted"), SAMPLES)
def test_a_text_is_shown_without_its_personal_data(text: str, wanted: str | None) -> None:
    assert redact(text) == (text if wanted is None else wanted)


@pytest.mark.parametrize(("text", "wanted"), NAMED)
def test_names_are_taken_out_whole_word_for_whole_word(text: str, wanted: str) -> None:
    assert redact(text, MAP) == wanted


def test_without_a_map_names_stay() -> None:
    assert redact("Maria Lopez called Tom") == "Maria Lopez called Tom"


@pytest.mark.parametrize("text", [text for text, _ in (*SAMPLES, *NAMED)])
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text, MAP)
    assert redact(once, MAP) == once


@given(text=st.text() | st.lists(st.sampled_from([text for text, _ in SAMPLES]), max_size=4).map(" ".join))
def test_redacting_any_text_twice_changes_nothing(text: str) -> None:
    once = redact(text, MAP)
    assert redact(once, MAP) == once


def said(*lines: tuple[str, str]) -> list[Turn]:
    return [
        Turn(speaker=Speaker(speaker), text=text, start=float(place), end=place + 0.5)
        for place, (speaker, text) in enumerate(lines)
    ]


def shown(*lines: tuple[str, str]) -> list[str]:
    turns = said(*lines)
    redactor = Redactor.of(turns)
    return [redactor.turn(turns, place) for place in range(len(turns))]


def test_people_are_known_by_how_they_introduce_themselves_and_by_who_speaks() -> None:
    assert shown(
        ("agent", "Rivet Bank, Ann Cole speaking."),
        ("customer", "Hello Ann, my name is Will May."),
        ("agent", "Will you wait, Will? Annual fees may change in May."),
        ("customer", "Ann Cole said so. Is Ms. Cole there?"),
    ) == [
        f"Rivet Bank, {AGENT} speaking.",
        f"Hello {AGENT}, my name is {CUSTOMER}.",
        f"{CUSTOMER} you wait, {CUSTOMER}? Annual fees may change in {CUSTOMER}.",
        f"{AGENT} said so. Is Ms. {AGENT} there?",
    ]


def test_a_name_that_is_given_late_or_for_somebody_else_is_taken_out_everywhere() -> None:
    lines = [("agent", "Go on."), ("customer", "Yes.")] * 5
    told = shown(*lines, ("agent", "And hers?"), ("customer", "Her name is Ida Holm-Berg, Ida for short."))
    assert told[-1] == f"Her name is {CUSTOMER}, {CUSTOMER} for short."


def test_what_was_asked_says_what_four_digits_or_a_date_are() -> None:
    assert shown(
        ("agent", "The last four digits of your social security number?"),
        ("customer", "4532."),
        ("agent", "And the last four of the card?"),
        ("customer", "1989, and I have it since 2015."),
        ("agent", "Your date of birth?"),
        ("customer", "June 5, 1971"),
        ("agent", "Your mother's maiden name?"),
        ("customer", "It's Holm."),
        ("agent", "Noted. When did you pay?"),
        ("customer", "June 5, 2024, to Mrs. Holm."),
    ) == [
        "The last four digits of your social security number?",
        "[SSN_REDACTED].",
        "And the last four of the card?",
        "[ACCOUNT_ENDING], and I have it since 2015.",
        "Your date of birth?",
        "[BIRTH_DATE]",
        "Your mother's maiden name?",
        f"It's {CUSTOMER}.",
        "Noted. When did you pay?",
        f"June 5, 2024, to Mrs. {CUSTOMER}.",
    ]


def test_everyday_words_are_not_taken_for_names() -> None:
    lines = [
        ("agent", "I'm here. Anyone here, too? Right here, I am OK."),
        ("customer", "I'm Sorry, who am I speaking with? That's fine, I'm OK here."),
        ("agent", "He's here, she's there, it's right. You speaking to me?"),
        ("customer", "Nobody here, everybody there. This is Élodie O'Brien's sister, I'm Zoë Brien."),
        ("agent", "OK, Zoë. Anyone else? Élodie O'Brien?"),
    ]
    assert shown(*lines) == [
        *(text for _, text in lines[:3]),
        f"Nobody here, everybody there. This is {CUSTOMER}'s sister, I'm {CUSTOMER}.",
        f"OK, {CUSTOMER}. Anyone else? {CUSTOMER}?",
    ]


def test_a_company_a_day_and_a_month_are_no_names() -> None:
    told = ("agent", "Good day, this is Rivet Savings Bank. I'm Monday, no, I am April."), ("customer", "Fine.")
    assert shown(*told)[0] == told[0][1]


@pytest.mark.parametrize("shape", list(shapes().values()), ids=lambda shape: shape.name)
def test_no_private_value_of_any_variant_is_ever_shown_and_redaction_is_idempotent(
    shape: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, str] = {}

    def noted(draw: Random) -> dict[str, str]:
        values.update(private(draw))
        return dict(values)

    monkeypatch.setattr(making, "private", noted)
    for seed in range(of(10, 400)):
        draw = Random(seed)
        active = frozenset(key for key in sorted(shape.faults) if draw.random() < 0.5)
        call = make(shape, active, default(), call_id="x", draw=draw)
        redactor = Redactor.of(call.turns)
        told = [redactor.turn(call.turns, place) for place in range(len(call.turns))]
        people = [part for slot in ("customer", "agent", "third") for part in values[slot].split()]
        spoken = " ".join(turn.text for turn in call.turns)
        hidden = [one for one in (*values.values(), *people) if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", spoken)]
        assert len(hidden) >= 4
        assert [one for one in hidden if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", " ".join(told))] == []
        again = tuple(replace(turn, text=text) for turn, text in zip(call.turns, told, strict=True))
        second = Redactor.of(again)
        assert [second.turn(again, place) for place in range(len(again))] == told


def test_questions_of_the_agent_are_shown_as_they_were_asked() -> None:
    asked = re.compile("last four|full|entire|social security number|maiden name|date of birth")
    for shape in shapes().values():
        call = make(shape, frozenset(shape.faults), default(), call_id="x")
        redactor = Redactor.of(call.turns)
        for place, turn in enumerate(call.turns):
            assert asked.findall(redactor.turn(call.turns, place)) == asked.findall(turn.text)
