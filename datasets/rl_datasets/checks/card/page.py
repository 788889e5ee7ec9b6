"""The card as a page: the verdict, the numbers that matter, and the sections under them."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from rl_datasets.checks.card.blocks import Section, html_of
from rl_datasets.checks.report import SEVERITIES, Report
from rl_datasets.page.html import document, navigation, number
from rl_datasets.words import count

STYLE = Path(__file__).with_name("card.css")
VERDICTS = {
    "pass": ("Passed", "Every check that is switched on passed."),
    "warn": ("Passed with warnings", "Nothing stops the pipeline; read the findings below before you trust a result."),
    "fail": ("Failed", "Nothing is made from this data until the findings below are mended."),
}
MARKS = {  # within 24 by 24
    "pass": '<path d="M6.5 12.5l3.8 3.8 7.4-8.2"/>',
    "warn": '<path d="M12 6.5v7M12 17.2v.1"/>',
    "fail": '<path d="M8 8l8 8M16 8l-8 8"/>',
}


def page(name: str, version: str, env_id: str, report: Report, sections: Sequence[Section], files: Iterable[str]) -> str:
    """Returns the whole page. `files` lie beside it."""
    header = f"""<p class="overline">Hindcast data card</p>
<h1>{escape(name)} <span class="version">{escape(version)}</span></h1>
<p>Logged episodes of {escape(env_id)}: what they hold, where they come from, and what the quality gate found.</p>
{_verdict(report)}
{_tiles(report)}
{navigation((section.name, section.title) for section in sections)}"""
    links = ", ".join(f'<a href="{escape(file)}">{escape(file)}</a>' for file in files)
    footer = f"<p>Beside this page: {links}.</p>"
    return document(f"{name} {version}: data card", header, "\n".join(map(html_of, sections)), footer, STYLE.read_text(encoding="utf-8"))


def verdict_words(report: Report) -> tuple[str, str]:
    """Returns the verdict, and what it means with the number of episodes that are set aside."""
    title, words = VERDICTS[report.verdict]
    if aside := _set_aside(report):
        words += f" {count(aside, 'episode')} {'is' if aside == 1 else 'are'} set aside, and in no split."
    return title, words


def _verdict(report: Report) -> str:
    title, words = verdict_words(report)
    links = "".join(
        f'<li><a class="badge {severity}" href="#finding-{escape(name)}">{escape(name.replace("_", " "))}</a> '
        f"{count(result.faults, 'fault')}</li>"
        for severity in SEVERITIES
        for name, result in report.results.items()
        if result.verdict == severity
    )
    listed = f'<ul class="chips">{links}</ul>' if links else ""
    return (
        f'<div class="verdict {report.verdict}" role="status"><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="11"/>'
        f"{MARKS[report.verdict]}</svg><div><p><b>{title}.</b> {words}</p>{listed}</div></div>"
    )


def _tiles(report: Report) -> str:
    summary = report.summary
    returns, lengths = summary["episode_return"], summary["length"]
    ends, aside = _ends(summary["terminals"], summary["episodes"]), _set_aside(report)
    tiles = [
        ("Episodes", f"{summary['episodes']:,}", f"{ends}; {aside:,} set aside" if aside else ends),
        ("Transitions", f"{summary['transitions']:,}", ""),
    ]
    if "mean" in returns:
        mean, std, least, greatest = (_short(returns[key]) for key in ("mean", "std", "minimum", "maximum"))
        tiles.append(("Return", mean, f"\u00b1 {std}, {least} to {greatest}"))
    if "median" in lengths:
        alike = lengths["minimum"] == lengths["maximum"]
        spread = "every episode" if alike else f"median; {lengths['minimum']:,.0f} to {lengths['maximum']:,.0f}"
        tiles.append(("Length", f"{lengths['median']:,.0f}", spread))
    tiles.append(("Policies", f"{len(summary['policies']):,}", _largest(summary["policies"])))
    cells = "".join(
        f"<div><dt>{label}</dt><dd>{value}{f'<small>{escape(small)}</small>' if small else ''}</dd></div>" for label, value, small in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _set_aside(report: Report) -> int:
    return len({entry.episode_id for entry in report.quarantine})


def _short(value: float) -> str:
    """A return in little room: without digits after the point where it is large."""
    return number(value) if abs(value) < 1000 else f"{value:,.0f}".replace("-", "\u2212")


def _ends(terminals: int, episodes: int) -> str:
    some = "1 ends" if terminals == 1 else f"{terminals:,} end"
    share = "none ends" if terminals == 0 else "each ends" if terminals == episodes else some
    return f"{share} in a terminal state"


def _largest(policies: dict[str, dict[str, int]]) -> str:
    names = sorted(policies, key=lambda name: (-policies[name]["episodes"], name))
    return ", ".join(name or "unknown" for name in names[:2]) + (" and others" if len(names) > 2 else "")
