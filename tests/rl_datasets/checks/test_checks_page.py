"""docs/checks/ tells of the catalogue and of the faults as they are; running this file brings it up to date."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.check import Check, Options
from rl_datasets.checks.params import CheckParams
from tests.rl_datasets.checks.faults import FAULTS, FILE_FAULTS

ROOT = Path(__file__).parents[3]


def catalogue() -> str:
    gate = {name: field for name, field in CheckParams.model_fields.items() if not isinstance(field.default, Options)}
    beside = [(f"`{name}`", f"`{field.default}`", field.description or "") for name, field in gate.items()]
    head = f"# The catalogue of checks\n\nBeside the checks stand:\n\n{table(('option', 'default', 'meaning'), beside)}\n"
    return "\n".join([head, *map(section, CATALOGUE)])


def section(check: Check[Any]) -> str:
    sentences = [f"- **Finds:** {check.finds}", f"- **Why it matters:** {check.why}", f"- **What to do:** {check.remedy}"]
    severity = f"- **Severity:** `{check.options().severity}`"
    options = list(own_options(check))
    beside = ["", table(("option", "default", "meaning"), options)] if options else []
    return "\n".join([f"## {check.name}", "", *sentences, severity, *beside]) + "\n"


def own_options(check: Check[Any]) -> Iterator[tuple[str, str, str]]:
    default = check.options()
    for name, field in check.options.model_fields.items():
        if name != "severity":
            value = getattr(default, name)
            yield f"`{name}`", "none" if value is None else f"`{value}`", field.description or ""


def faults() -> str:
    known = [(fault.name, ", ".join(fault.into), f"`{fault.check}`", place(*fault.place)) for fault in FAULTS]
    of_files = [(fault.name, "discrete", "`files`", "the file") for fault in FILE_FAULTS]
    return f"# Faults and the checks that find them\n\n{table(('fault', 'put into', 'found by', 'names'), [*known, *of_files])}\n"


def place(episode_id: str, step: int | None) -> str:
    if not episode_id:
        return "the data set"
    return "the episode" if step is None else "the episode and step"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


PAGES = {"docs/checks/catalogue.md": catalogue, "docs/checks/faults.md": faults}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_up_to_date(page: str) -> None:
    assert (ROOT / page).read_text() == PAGES[page](), f"run: python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    for name, written in PAGES.items():
        (ROOT / name).write_text(written())
    sys.exit(0)
