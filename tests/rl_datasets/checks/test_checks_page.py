"""docs/checks.md tells of the catalogue and of the faults as they are; running this file brings it up to date."""

import sys
from pathlib import Path

from pipelines.commands.checks_page import PAGE, fault_table, page
from tests.rl_datasets.checks.faults import FAULTS, FILE_FAULTS

ROOT = Path(__file__).parents[3]


def table() -> str:
    known = {fault.name: (fault.into, fault.check, place(*fault.place)) for fault in FAULTS}
    return fault_table({**known, **{fault.name: (("discrete",), "files", "the file") for fault in FILE_FAULTS}})


def place(episode_id: str, step: int | None) -> str:
    if not episode_id:
        return "the data set"
    return "the episode" if step is None else "the episode and step"


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / PAGE).read_text() == page(table()), f"run: python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(table()))
    sys.exit(0)
