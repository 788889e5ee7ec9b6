"""`python -m pipelines.commands.checks_page`: writes docs/checks.md: all checks with their options, and what finds what."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.check import Check, Options
from rl_datasets.checks.params import CheckParams
from rl_datasets.files import write_text

PAGE = Path("docs/checks.md")
FAULTS = "## Faults and the checks that find them"
HEAD = """# Checks

What the stage `check` and the command `hindcast check` look for in a data set. `python -m pipelines.commands.checks_page` writes this page;
the table at its end is that of the test that puts each fault into clean data.

Every check has a severity:

| severity | what follows from a fault |
|---|---|
| `fail` | nothing is made from the data; the report is written all the same |
| `quarantine` | the episode is set aside, listed in `quarantine.csv`, in no split, never deleted; where a fault names none, it fails |
| `warn` | it is reported |
| `off` | it is not looked for |

```yaml
checks:
  default:
    duplicates: quarantine                                # a bare word is the severity
    action_bounds: {severity: fail, tolerance: 1e-4}
    quarantine_limit: 0.1
  my_dataset:                                             # merged over default, option by option
    action_bounds: {tolerance: 0.01}
    frozen_sensors: "off"
```

A check that needs what the data lack says so in the report (`not applicable`, and why); it never passes without a word.
Beside the checks stand:

GATE

## How far they see

What must look at steps together (`outliers`, `jumps`, `units`, `reward_shift`, `action_shift`) looks at a sample: up to 256 steps in a row
of an episode, and every second, fourth, ... episode where these are more than 32,768 steps together. Smaller data are looked at whole.

- A range of consecutive episodes is found where it holds three or more of those in the sample (`units`), or a few dozen of their steps
  (`reward_shift`, `action_shift`), and it is named from the first of them to the last. `units` needs twelve episodes of one policy, a
  factor of eight between the scales, or six deviations between the means, and nothing in between; it takes a range that is just all
  episodes of a policy or environment for what that policy does.
- Rewards or actions that are shifted are told by what follows from what. Where rewards change slowly beside what can be foretold of them,
  or neither they nor observations depend on the action, there is nothing to tell it by; `replay` tells it exactly.
- In a range of very few episodes a shift is seen, but its cause may be told wrongly: in a few dozen steps, rewards a row late and actions a
  row early look alike. Take such a finding for one of the two.
- A column of the observation that is itself a row early or late against the others is not looked for; `replay` tells that, too.
- Step metadata are not read: no check looks at their values, and no learner sees them.
- Near copies are told by steps that agree when they are rounded to an eighth of their size: noise up to about a thousandth of a column's
  deviation, less where there are many columns. A copy with more noise, or with a column that is scaled or shifted, is none to them.

## A check of your own

A function of a block of episodes (or of the table of all of them), declared beside it and listed in `rl_datasets/checks/catalogue.py`;
options, this page, report and card follow. What it may know is in `rl_datasets/checks/expected.py`, what it sees in
`rl_datasets/checks/block.py`:

```python
class SlowOptions(Warns):
    seconds: float = Field(0.1, gt=0, description="longest step")


def _slow(block: Block, expected: Expected, options: SlowOptions) -> Iterator[Fault]:
    place = [leaf.name for leaf in expected.observation].index("observation/duration")
    for index, row, count in block.first_wrong(block.observation[place] > options.seconds):
        yield Fault(f"{count} slow steps", f"at most {options.seconds} s", *block.place(index, row))


SLOW = Check("slow", "Steps that took too long.", "The policy will not have that time.", "Drop them.", SlowOptions, per_block(_slow))
```

One that must remember what it saw is a subclass of `Running`, whose `finish` sees the table of episodes. Put a fault for it into
`tests/rl_datasets/checks/faults.py`: a test asks for one for every check.
"""


def page(faults: str) -> str:
    """Returns the page, ending with a table of faults that `fault_table` made."""
    gate = {name: field for name, field in CheckParams.model_fields.items() if not isinstance(field.default, Options)}
    rows = [(f"`{name}`", f"`{field.default}`", field.description or "") for name, field in gate.items()]
    head = HEAD.replace("GATE", _table(("option", "default", "meaning"), rows))
    return "\n".join([head, *map(_section, CATALOGUE), f"{FAULTS}\n\n{faults}"]).rstrip() + "\n"


def fault_table(found_by: Mapping[str, tuple[Sequence[str], str, str]]) -> str:
    """Returns the table of faults: what was put in, into which kinds of clean data, what finds it, and what place it names."""
    rows = [(fault, ", ".join(into), f"`{check}`", place) for fault, (into, check, place) in found_by.items()]
    return _table(("fault", "put into", "found by", "names"), rows)


def present_faults(path: Path = PAGE) -> str:
    """Returns the table that the page holds now; empty where there is none."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return text.partition(f"{FAULTS}\n\n")[2].rstrip()


def _section(check: Check[Any]) -> str:
    sentences = [f"**Finds:** {check.finds}", f"**Why it matters:** {check.why}", f"**What to do:** {check.remedy}"]
    return "\n\n".join([f"## {check.name}", *sentences, _table(("option", "default", "meaning"), _options(check))]) + "\n"


def _options(check: Check[Any]) -> Iterator[tuple[str, str, str]]:
    default = check.options()
    for name, field in check.options.model_fields.items():
        value = getattr(default, name)
        meaning = "`fail`, `quarantine`, `warn` or `off`" if name == "severity" else field.description or ""
        yield f"`{name}`", "none" if value is None else f"`{value}`", meaning


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> int:
    write_text(PAGE, page(present_faults()))
    print(f"{PAGE}: {len(CATALOGUE)} checks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
