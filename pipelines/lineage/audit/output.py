"""The audit for people and for programs: lines in the terminal, and JSON."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from rich.text import Text

from pipelines.lineage.audit.findings import NAMED, Finding, Verdict, exit_code

STYLES = {
    Verdict.HOLDS: "green",
    Verdict.BROKEN: "bold red",
    Verdict.AFFECTED: "red",
    Verdict.UNKNOWN: "yellow",
    Verdict.NOTE: "dim",
}
WORST_FIRST = (Verdict.BROKEN, Verdict.AFFECTED, Verdict.UNKNOWN)
CONCLUSIONS = {0: "every link holds", 1: "the chain is broken", 2: "what is here holds, but not all can be told"}


def audit_lines(findings: Sequence[Finding], verbose: bool = False) -> Iterator[Text]:
    """A line a stage with its verdict and number of links, and under it the links that do not hold; the conclusion is the last line.

    Equal notes of many stages are one line with their count, and so is what is merely not here, at the end; `verbose` shows each.
    """
    counts = Counter(map(_kind, findings))
    by_stage: dict[str, list[Finding]] = {}
    for finding in findings:
        by_stage.setdefault(finding.stage, []).append(finding)
    for stage, all_of_it in by_stage.items():
        mine = [finding for finding in all_of_it if verbose or not finding.is_missing]
        if not stage:
            continue
        troubled = [finding for finding in mine if finding.verdict is not Verdict.HOLDS and (verbose or not _is_repeated(finding, counts))]
        if len(mine) < len(all_of_it) and not troubled:
            continue
        worst = next((verdict for verdict in WORST_FIRST if verdict in {finding.verdict for finding in mine}), Verdict.HOLDS)
        yield Text.assemble((f"{worst:12}", STYLES[worst]), printable(stage), (f"  {len(mine)} links", "dim"))
        yield from map(_line, troubled)
    of_all = [finding for finding in by_stage.get("", ()) if verbose or not (_is_quiet(finding) or _is_repeated(finding, counts))]
    yield from _of_the_project(of_all, verbose)
    yield from () if verbose else _repeated(findings, counts)
    yield from _missing(findings, verbose)
    yield _conclusion(findings)


def audit_json(findings: Sequence[Finding]) -> str:
    """Every finding as an object: stage, verdict, link, expected, found, mend, since, subjects, related, is_missing."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)


def printable(text: str) -> str:
    """Returns a text in which no name, of a file or a person, can write lines of its own or move the cursor: "\\n" for a line end."""
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def _is_quiet(finding: Finding) -> bool:
    """Whether a finding of no stage is told by the count in the conclusion, or by that of what is not here."""
    return finding.verdict is Verdict.HOLDS or finding.is_missing


def _of_the_project(findings: Iterable[Finding], verbose: bool) -> Iterator[Text]:
    """A line each; of many with one verdict, and one link but for a stage's name, the first ones and the number of the others."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.verdict, re.sub(r"\w+@\w+", "some stages", finding.link)), []).append(finding)
    for (verdict, link), some in alike.items():
        shown = some if verbose or len(some) <= NAMED + 1 else some[:NAMED]
        told = [f"{finding.link}: {finding.detail}" for finding in shown]
        if len(shown) < len(some):
            told.append(f"{link}: {len(some) - len(shown)} more (--verbose and --json show them)")
        for line in told:
            yield Text.assemble((f"{verdict:12}", STYLES[some[0].verdict]), printable(line))


def _line(finding: Finding) -> Text:
    return Text.assemble((f"  {finding.verdict}: ", STYLES[finding.verdict]), printable(f"{finding.link}: {finding.detail}"))


def _kind(finding: Finding) -> tuple[str, ...]:
    """What equal notes have in common: all but the stage and the path that they begin with."""
    return finding.verdict, finding.link, finding.found.removeprefix(f"{finding.subject}: "), finding.mend


def _is_repeated(finding: Finding, counts: Counter[tuple[str, ...]]) -> bool:
    return finding.verdict is Verdict.NOTE and counts[_kind(finding)] > 1


def _repeated(findings: Sequence[Finding], counts: Counter[tuple[str, ...]]) -> Iterator[Text]:
    for kind in dict.fromkeys(_kind(finding) for finding in findings if _is_repeated(finding, counts)):
        verdict, link, found, mend = kind
        words = f"{link}, {counts[kind]} times: {'; '.join(part for part in (found, mend) if part)}"
        yield Text.assemble((f"{verdict:12}", STYLES[Verdict.NOTE]), f"{printable(words)} ('hindcast audit --verbose' names each)")


def _missing(findings: Sequence[Finding], verbose: bool) -> Iterator[Text]:
    missing = {finding.subject for finding in findings if finding.is_missing}
    if missing:
        these = "path is" if len(missing) == 1 else "paths are"
        names = "" if verbose else " ('hindcast audit --verbose' names them)"
        mend = f"{len(missing)} {these} not in this clone: 'dvc pull' or 'dvc checkout' brings them, 'dvc repro' makes them anew{names}."
        yield Text.assemble((f"{Verdict.UNKNOWN:12}", STYLES[Verdict.UNKNOWN]), mend)


def _conclusion(findings: Sequence[Finding]) -> Text:
    counts = Counter(finding.verdict for finding in findings)
    listed = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in Verdict if counts[verdict])
    code = exit_code(findings)
    style = {0: "bold green", 1: "bold red", 2: "bold yellow"}[code]
    return Text.assemble((f"{CONCLUSIONS[code][0].upper()}{CONCLUSIONS[code][1:]}", style), f" ({listed}).")
