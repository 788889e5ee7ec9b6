"""`write_card`: the data card of a data set as a page that needs nothing else, and as Markdown, for a person who is about to use it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rl_datasets.about import About
from rl_datasets.checks.card import figures, sections
from rl_datasets.checks.card.blocks import Picture, Section, markdown_of
from rl_datasets.checks.card.coverage import coverage
from rl_datasets.checks.card.episodes import sample_html
from rl_datasets.checks.card.page import page, verdict_words
from rl_datasets.checks.card.samples import Sample
from rl_datasets.checks.card.steps import Steps
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.report import Report
from rl_datasets.files import write_text
from rl_datasets.manifest import Manifest
from rl_datasets.schema import EnvSpec

PAGE, MARKDOWN = "card.html", "card.md"


class Shown(NamedTuple):
    """What a card shows of the data themselves: some steps for the distribution of values, and some episodes whole."""

    steps: Steps = Steps()
    samples: Sequence[Sample] = ()


def write_card(
    folder: Path, name: str, version: str, expected: Expected, about: About, report: Report, shown: Shown, beside: Sequence[str] = ()
) -> None:
    """Writes card.html and card.md into `folder`. Equal arguments give equal bytes. `beside` names the files that the page links to."""
    parts = _sections(expected.spec, expected.manifest, about, report, shown)
    write_text(folder / PAGE, page(name, version, expected.spec.env_id, report, parts, (*beside, MARKDOWN)))
    title, words = verdict_words(report)
    write_text(folder / MARKDOWN, f"# Data card: {name} {version}\n\n**{title}.** {words}\n\n{markdown_of(parts)}")


def _sections(spec: EnvSpec, manifest: Manifest | None, about: About, report: Report, shown: Shown) -> list[Section]:
    arrays = report.summary["arrays"]
    parts = [
        sections.findings(report),
        sections.summary(spec, about, manifest.digest if manifest else "", report),
        sections.assumptions(manifest),
        Section("returns", "Returns and lengths", [Picture(figures.distributions(report.table)), *sections.statistics(report.summary)]),
        Section("columns", "Columns", [Picture(figures.columns(spec, arrays, shown.steps)), *sections.columns(spec, arrays)]),
    ]
    words, planes = coverage(spec, shown.steps, report.table["policy"].to_numpy(str))
    if planes:
        parts.append(Section("coverage", "Coverage", [Picture(f'<p class="quiet">{words}</p>{planes}')]))
    if shown.samples:
        parts.append(Section("episodes", "Sample episodes", [Picture(sample_html(shown.samples, spec, arrays))]))
    return [*parts, sections.checks(report), sections.origin(manifest)]
