"""Write the page: one file, no request to anywhere."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from kedge_demo.environments import plots
from kedge_demo.environments.measure import Measured
from kedge_demo.environments.roster import BREAKER, LABELS, TASKS
from kedge_demo.verdicts import Verdict


def whole_page(streams: Sequence[Measured], judged: Sequence[Verdict]) -> str:
    """Write the document."""
    style = (files("kedge_demo") / "report.css").read_text(encoding="utf-8")
    episodes = sum(one.turns for one in streams)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Kedge plays four environments</title><style>{style}</style></head>
<body><header><h1>Who plays what, learned from {episodes:,} graded episodes</h1>
<p>Eight tasks of four environments, {len(streams)} streams of different episodes. Kedge chose the player and its depth
for each episode and was told its grade, its price and whether a rule was broken. What every other player would have had
on the same episodes was played afterwards.</p></header>
<main>{_tiles(streams, judged)}{"".join(_stream(one) for one in streams)}{_checks(streams, judged)}{_methods()}</main>
</body></html>
"""


def _tiles(streams: Sequence[Measured], judged: Sequence[Verdict]) -> str:
    passed = sum(one.passed for one in judged)
    tiles = "".join(
        f"""<a class="tile" href="#stream-{one.stream}"><span>Stream {one.stream}</span><b>{one.lift:+.3f}</b>
<span>grade over {escape(one.best)}, the best single choice ({one.low:+.3f} to {one.high:+.3f})</span></a>"""
        for one in streams
    )
    mood = "good" if passed == len(judged) else "bad"
    return f"""<div class="tiles">{tiles}<a class="tile" href="#checks"><span>Checks</span>
<b class="{mood}">{passed} of {len(judged)}</b><span>hold in every stream</span></a></div>"""


def _stream(stream: Measured) -> str:
    tempting = LABELS[max(range(len(LABELS)), key=lambda place: stream.graded[place])]
    pictures = (
        (plots.traffic(stream), plots.legend(), "Who played, over the stream."),
        (plots.quality(stream), "", "Mean grade of what was served, 0 where a rule was broken, in 24 windows."),
        (plots.routes(stream), plots.legend(), f"Who plays which task in the last {stream.late} episodes."),
        (plots.breaches(stream), "", "Mean grade of each action on the late episodes, and how often it broke a rule."),
    )
    figures = "".join(
        f"<figure>{picture}{legend}<figcaption>{escape(caption)}</figcaption></figure>"
        for picture, legend, caption in pictures
    )
    return f"""<section id="stream-{stream.stream}"><h2>Stream {stream.stream}</h2>
<p class="headline">In the last {stream.late} episodes: {stream.quality:.3f} served, {max(stream.single):.3f} by
{escape(stream.best)} alone, {stream.routed:.3f} by the best player of each task. By grades alone the best single choice
would be {escape(tempting)}.</p><div class="charts">{figures}</div>{_table(stream)}</section>"""


def _table(stream: Measured) -> str:
    """Write what each action has on the late episodes of each task."""
    head = "".join(f"<th>{escape(task.label)}</th>" for task in TASKS)
    rows = ""
    for place, label in enumerate(LABELS):
        cells = "".join(f"<td>{row[place]:.2f}</td>" for row in stream.by_task)
        mark = "yes" if stream.eligible[place] else "no"
        name = ' class="breaker"' if label.startswith(BREAKER) else ""
        rows += (
            f"<tr{name}><td>{escape(label)}</td>{cells}<td>{stream.single[place]:.3f}</td><td>{stream.graded[place]:.3f}"
            f"</td><td>{stream.vetoes[place]} of {stream.episodes[place]}</td><td>{mark}</td></tr>"
        )
    return f"""<details><summary>Every action on the late episodes, 0 where a rule was broken</summary>
<div class="scroll"><table><thead><tr><th>action</th>{head}<th>all</th><th>grade alone</th><th>vetoes as served</th>
<th>eligible</th></tr></thead><tbody>{rows}</tbody></table></div></details>"""


def _checks(streams: Sequence[Measured], judged: Sequence[Verdict]) -> str:
    head = "".join(f"<th>stream {one.stream}</th>" for one in streams)
    rows = ""
    for one in judged:
        cells = "".join(f"<td>{escape(value)}</td>" for value in one.values)
        mark = '<td class="good">✓ yes</td>' if one.passed else '<td class="bad">✗ no</td>'
        rows += f"<tr><td>{escape(one.name)}</td>{mark}{cells}<td>{escape(one.bar)}</td></tr>"
    return f"""<section id="checks"><h2>Checks</h2><div class="scroll"><table class="checks"><thead><tr><th>check</th>
<th></th>{head}<th>must be</th></tr></thead><tbody>{rows}</tbody></table></div></section>"""


def _methods() -> str:
    entries = (
        ("Best single", "The action with the highest mean on the stream's own late episodes, chosen in hindsight."),
        ("Intervals", "95 %, of the paired difference, normal over episodes; no episode comes twice."),
        (
            "Breach",
            "What the environment itself calls a veto. It makes the episode's quality 0 and counts for exclusion.",
        ),
        (
            "Players",
            "Policies that the environments ship. Each route is good at one environment, a stranger in the rest.",
        ),
        (
            "Depth",
            "Memory for briefs, probes in the fleet, the whole record of a call; in relocation nothing but price.",
        ),
        ("Seeds", "Of the dev split: two of the players were chosen on it, so their grades flatter them a little."),
    )
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(content)}</dd>" for name, content in entries)
    return f"<section><h2>How to read this</h2><dl>{rows}</dl></section>"
