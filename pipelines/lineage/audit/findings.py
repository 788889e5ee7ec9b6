"""What the audit says of one link: a verdict, what was expected and found, and how to mend it; and which damage caused which."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pipelines.lineage.graph import overlap

LONGEST = 300  # characters of a value that are shown
NAMED = 3  # of many names
TOLERANCE = 1e-9  # relative, between two ways to sum the same numbers


class Verdict(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    AFFECTED = "affected"  # by damage that is reported where it was found first
    UNKNOWN = "cannot tell"
    NOTE = "note"  # it holds, and something about it is worth knowing


@dataclass(frozen=True)
class Finding:
    """One link that was looked at: of which stage ("" for the project as a whole), what, and what was expected and found.

    `subjects` are the paths that it accuses, and `related` others that it is about: a path in the project, "params.yaml/" and a key
    with "/" for ".", or "dvc.lock/" and a stage. `since` names the commit from which on it has been so.
    """

    stage: str
    verdict: Verdict
    link: str
    expected: str = ""
    found: str = ""
    mend: str = ""
    since: str = ""
    subjects: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    is_missing: bool = False  # its verdict is UNKNOWN because the path is not here

    @property
    def subject(self) -> str:
        return self.subjects[0] if self.subjects else ""

    @property
    def detail(self) -> str:
        """All but the verdict and the link, as a sentence or two."""
        compared = f"found {self.found}, expected {self.expected}" if self.expected and self.found else self.found or self.expected
        since = f"since {self.since}" if self.since else ""
        return "; ".join(part for part in (compared, since, self.mend) if part)


Paths = str | tuple[str, ...]


def holds(stage: str, link: str, subjects: Paths = ()) -> Finding:
    return Finding(stage, Verdict.HOLDS, link, subjects=_paths(subjects))


def broken(stage: str, link: str, subjects: Paths, *, expected: object = "", found: object, mend: str, related: Paths = ()) -> Finding:
    words = shown(expected), shown(found)
    return Finding(stage, Verdict.BROKEN, link, *words, mend, subjects=_paths(subjects), related=_paths(related))


def unknown(stage: str, link: str, subjects: Paths, *, found: str, mend: str = "", is_missing: bool = False) -> Finding:
    return Finding(stage, Verdict.UNKNOWN, link, found=found, mend=mend, subjects=_paths(subjects), is_missing=is_missing)


def note(stage: str, link: str, subjects: Paths, *, found: str, mend: str = "") -> Finding:
    return Finding(stage, Verdict.NOTE, link, found=found, mend=mend, subjects=_paths(subjects))


def compared(stage: str, link: str, subjects: Paths, *, expected: object, found: object, mend: str, related: Paths = ()) -> Finding:
    """A link that holds where the two are equal, and is broken where not."""
    if expected == found:
        return holds(stage, link, subjects)
    return broken(stage, link, subjects, expected=expected, found=found, mend=mend, related=related)


def is_close(found: Any, expected: Any) -> bool:
    """Whether two values of JSON are equal; floats, also those in lists, but for the last digits."""
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(is_close, found, expected))
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(found == expected)


def _paths(paths: Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else tuple(paths)


def shown(value: object) -> str:
    """A value for a reader: a digest by its first letters, anything long cut."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) in (32, 36, 64) and not set(text.removesuffix(".dir")) - set("0123456789abcdef"):
        return text[:12]
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def listed(names: list[str]) -> str:
    """The first few of many names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:NAMED]) + more


class Attribution:
    """Tells the first broken link from those that it breaks in turn: findings come sources first."""

    def __init__(self) -> None:
        self._damages: list[tuple[str, Finding]] = []

    def sort(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yields them, with what earlier damage explains turned into AFFECTED."""
        for finding in findings:
            if finding.verdict is not Verdict.BROKEN:
                yield finding
                continue
            about = (*finding.subjects, *finding.related)
            causes = [cause for damaged, cause in self._damages if any(overlap(path, damaged) for path in about)]
            if causes:
                yield replace(finding, verdict=Verdict.AFFECTED, mend=f"mend this first: {_named(causes)}")
            else:
                self._damages += [(path, finding) for path in finding.subjects]
                yield finding


def _named(causes: list[Finding]) -> str:
    names = list(dict.fromkeys(f"{cause.stage or 'project'}: {cause.link}" for cause in causes))
    return "; ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def exit_code(findings: Iterable[Finding]) -> int:
    """0: all holds; 1: a link is broken; 2: something could not be told."""
    verdicts = {finding.verdict for finding in findings}
    return 1 if Verdict.BROKEN in verdicts else 2 if Verdict.UNKNOWN in verdicts else 0
