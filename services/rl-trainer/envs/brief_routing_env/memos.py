"""HR's memo: how it is written, and what it is worth, in the original's terms and in ours."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from brief_routing_env.reports import KEYWORDS, Desk, Report, cited, missing
from brief_routing_env.tasks import UPSTREAM, Expert, Task

LEAST, MOST = 0.001, 0.999
HIGHLIGHTS: Final = 4
BULLETS: Final = 3
WORDS: Final = 200
LOW: Final = 0.4
_WORD: Final = re.compile(r"[a-z]+(?:-[a-z]+)*")
APOLOGY: Final = {"sorry", "apologise", "apologize", "apologies", "regret"}
SOLUTION: Final = {"resolve", "resolved", "refund", "replacement", "solution"}
POLITE: Final = {"please", "thank", "thanks"}
TROUBLE: Final = {"delay", "damage", "late", "issue", "problem"}
GREETING: Final = {"dear", "hello"}
CLOSING: Final = {"regards", "sincerely"}
RUDE: Final = {"stupid", "ridiculous", "nonsense"}
PROFESSIONAL: Final = {"confirm", "assure", "appreciate", "promptly", "assist"}
CALLS: Final = {"reply", "decide", "approve", "confirm"}


def write(desk: Desk, reports: Mapping[Expert, Report]) -> Report:
    """Write the memo from the reports that are there, and hand it in."""
    chunks = desk.recall(KEYWORDS[Expert.HR])
    citations, snippets = cited(chunks)
    lacking = missing(*(expert for expert in UPSTREAM[Expert.HR] if expert not in reports))
    if desk.compat:
        style = f"After {chunks[0].id}: keep it short." if chunks else ""
        memo = _original(desk.task, reports, style)
        worth = original_score(memo, desk.task)
        lacking = ("tone:low",) if tone(memo) < LOW else ()
    else:
        memo, worth = _ours(desk.task, reports), None
    return Report(
        expert=Expert.HR,
        title="Memo",
        summary=f"A memo for the {desk.task.audience}.",
        bullets=(f"Memo of {len(memo.split())} words.",),
        issues=lacking,
        citations=(desk.task.title,),
        memory_citations=citations,
        memory_snippets=snippets,
        memo=memo,
        memo_score=worth,
    )


def _original(task: Task, reports: Mapping[Expert, Report], style: str) -> str:
    """Write as the original did: the first four highlights, so that strategy never gets in."""
    pool = [style] if style else []
    for expert in (Expert.ANALYST, Expert.FINANCE, Expert.STRATEGY):
        pool += reports[expert].bullets[:2] if expert in reports else ()
    lines = "\n".join(f"- {line}" for line in pool[:HIGHLIGHTS])
    return (
        f"Dear {task.audience},\n\nThank you for your time. This is about: {task.title}.\n\n{lines}\n\n"
        "Please review these points and reply by the end of the day to confirm that we may go ahead.\n\n"
        "Best regards,\nOffice of the Chief of Staff"
    )


def _ours(task: Task, reports: Mapping[Expert, Report]) -> str:
    """Write to the house style: audience, hook, three bullets from different desks, a call to action."""
    desks = [expert for expert in (Expert.ANALYST, Expert.FINANCE, Expert.STRATEGY) if expert in reports]
    quoted = [reports[expert].bullets[_telling(expert)] for expert in desks if reports[expert].bullets]
    spare = [line for expert in desks for line in reports[expert].bullets[:2] if line not in quoted]
    body = "\n".join(f"- {line}" for line in (quoted + spare)[:BULLETS])
    return (
        f"For the {task.audience}: {task.title}.\n"
        "This is what the numbers say, and what they ask of you.\n"
        f"{body}\n"
        "Reply by Friday: approve it, or name what is missing."
    )


def _telling(expert: Expert) -> int:
    """Pick the bullet that is quoted: the leader of the analyst, the projection, the first stance."""
    return 2 if expert is Expert.ANALYST else 0


def structure(memo: str, task: Task) -> float:
    """Score the original's structure: its five parts, and the share of required terms."""
    text = memo.lower()
    parts = ((0.15, "dear" in text), (0.15, "thank you" in text), (0.20, "review" in text), (0.10, "regards" in text))
    terms = sum(term.lower() in text for term in task.terms) / len(task.terms)
    return min(MOST, max(LEAST, 0.20 + sum(worth for worth, there in parts if there) + 0.20 * terms))


def tone(memo: str) -> float:
    """Score the original's tone, made for replies to customers, which is why a memo earns .39 at most."""
    if len(memo) < 10:
        return 0.01
    words = _WORD.findall(memo.lower())
    there = set(words)
    count = len(memo.split())
    length = 0.01 if count < 20 else 0.05 if count < 50 else 0.10 if count <= WORDS else 0.05
    total = 0.01 + 0.15 * bool(there & APOLOGY) + 0.15 * bool(there & SOLUTION) + 0.10 * bool(there & POLITE)
    total += min(0.10, 0.05 * len(there & TROUBLE)) + length
    total += 0.05 * bool(there & GREETING) + 0.05 * bool(there & CLOSING) + 0.05 * ("\n" in memo or len(memo) > 100)
    total += min(0.09, 0.03 * len(there & PROFESSIONAL)) - 0.20 * bool(there & RUDE)
    return min(0.99, max(0.01, round(total, 2)))


def original_score(memo: str, task: Task) -> float:
    """Blend structure, tone and audience as the original did, four decimals."""
    total = 0.45 * structure(memo, task) + 0.45 * tone(memo) + 0.10 * (task.audience.lower() in memo.lower())
    return min(MOST, max(LEAST, round(total, 4)))


def score(memo: str, task: Task, reports: Mapping[Expert, Report]) -> float:
    """Score a memo by the house style, from its text alone, 0..1.

    Quoted is what an expert's present report says: a memo on numbers that were corrected since quotes nobody.
    """
    lines = [line.strip() for line in memo.splitlines() if line.strip()]
    if not lines:
        return 0.0
    bullets = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    plain = [line for line in lines[1:] if not line.startswith("- ")]
    sources = [expert for expert in task.required if expert is not Expert.HR]
    quoted = sum(_quotes(bullets, reports[expert].bullets) for expert in sources if expert in reports)
    total = 0.2 * (task.audience.lower() in lines[0].lower())
    total += 0.1 * (bool(plain) and plain[0].endswith((".", "?", "!")))
    total += 0.3 * min(1.0, len(bullets) / BULLETS) * quoted / len(sources)
    total += 0.1 * any(character.isdigit() for character in memo)
    total += 0.2 * bool(set(_WORD.findall(lines[-1].lower())) & CALLS)
    total += 0.1 * (len(memo.split()) <= WORDS)
    return round(total, 4)


def _quotes(bullets: Iterable[str], lines: tuple[str, ...]) -> bool:
    return any(bullet in lines for bullet in bullets)
