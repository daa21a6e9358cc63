"""Made-up people, numbers and small talk that surface variants are filled with."""

from random import Random
from typing import Final

FIRST: Final = (
    "Adaeze", "Benedikt", "Carmen", "Dmitri", "Esther", "Farid", "Greta", "Hiroshi", "Imani", "Jorge", "Keira", "Lars",
    "Mireille", "Nadim", "Olga", "Pascal", "Quentin", "Rosalind", "Samir", "Tamsin", "Ulrich", "Valeria", "Yusuf",
)  # fmt: skip
LAST: Final = (
    "Abernathy", "Bergstrom", "Chukwu", "Delacroix", "Eriksen", "Fontaine", "Grigoryan", "Haddad", "Ivanova",
    "Jankowski", "Kowalczyk", "Lombardi", "Mbeki", "Nakamura", "Ostrowski", "Pereira", "Quispe", "Rahman", "Szabo",
)  # fmt: skip
MONTHS: Final = ("January", "February", "March", "June", "July", "September", "October", "November")

SMALL_TALK: Final = (
    ("I'm typing a short note while we talk, so forgive the clatter.", "No problem, I hear worse at home."),
    ("How is the weather at your end today?", "Gray, but at least it stays dry."),
    ("The page is a little slow this morning, but here it comes.", "Take your time."),
    ("I like that you had everything at hand, it makes this easy.", "I wrote it down before I called."),
    ("Is the line clear enough for you?", "Yes, I hear you well."),
    ("I can see that you've been with us for a few years now.", "Seven, I think, or eight."),
)  # fmt: skip
"""Pairs of an agent's and a customer's turn that fit anywhere and mean nothing."""

MISLEADING: Final = ("positive", "frustrated", "anxious", "relieved")


def person(draw: Random) -> str:
    """Draw a first and a last name."""
    return f"{draw.choice(FIRST)} {draw.choice(LAST)}"


def digits(draw: Random, *groups: int) -> str:
    """Draw groups of digits, joined by dashes; none starts with 19 or 20, which could be a year.

    >>> digits(Random(1), 3, 2, 4).count("-")
    2
    """
    found = []
    for size in groups:
        first = draw.choice("345678")
        found.append(first + "".join(draw.choice("0123456789") for _ in range(size - 1)))
    return "-".join(found)


def private(draw: Random) -> dict[str, str]:
    """Draw what must never be shown: names, numbers, a birth date and an address, by slot."""
    third = person(draw)
    return {
        "customer": person(draw),
        "agent": person(draw),
        "third": third,
        "maiden": draw.choice(LAST),
        "account": digits(draw, 4, 4, 4),
        "ssn": digits(draw, 3, 2, 4),
        "last4": digits(draw, 4),
        "ssn4": digits(draw, 4),
        "dob": f"{draw.choice(MONTHS)} {draw.randint(1, 28)}, {draw.randint(1951, 2001)}",
        "email": f"{third.lower().replace(' ', '.')}{draw.randint(10, 99)}@postbox.example",
    }
