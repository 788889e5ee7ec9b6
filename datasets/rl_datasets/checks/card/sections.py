"""The sections of a card that are words and tables."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rl_datasets.about import About
from rl_datasets.checks.card.blocks import Block, Bullets, Code, Facts, Finding, Folded, Listing, Section, Table, Text
from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.consequences import LIMIT, REMEDY
from rl_datasets.checks.crossing import CROSSING, CROSSING_TEXTS
from rl_datasets.checks.report import SEVERITIES, CheckResult, Report
from rl_datasets.manifest import Manifest
from rl_datasets.page.html import number
from rl_datasets.schema import ArraySpec, EnvSpec, named_leaves
from rl_datasets.words import count

STATISTICS = ("mean", "std", "minimum", "q25", "median", "q75", "maximum")
COLUMN_STATISTICS = ("mean", "std", "minimum", "maximum")
SET_ASIDE = 20  # quarantined episodes written out; all are in quarantine.csv
OUTCOMES = {"pass": "passed", "fail": "failed", "quarantine": "set aside", "warn": "warned"}
DESCRIPTIONS = {check.name: (check.finds, check.why, check.remedy) for check in CATALOGUE} | {
    LIMIT: ("Too many episodes set aside, or all of a policy or an environment.", "What is left no longer stands for the data.", REMEDY),
    CROSSING: CROSSING_TEXTS,
}


def findings(report: Report) -> Section:
    """What was found, the gravest first, check by check, and which episodes are set aside."""
    blocks: list[Block] = []
    for severity in SEVERITIES:
        for name, result in report.results.items():
            if result.verdict == severity:
                blocks.append(_finding(name, result))
    if report.quarantine:
        aside = len({entry.episode_id for entry in report.quarantine})
        words = f"{count(aside, 'episode')} set aside, and in no split. All of them, with the reasons, are in quarantine.csv."
        header = ("Episode", "Check", "Step", "Reason")
        blocks += [Text(words), Table("Episodes set aside", header, _set_aside(report), ("Episode", "Check", "Reason"))]
    return Section("findings", "Findings", blocks or [Text("No check found anything.")])


def summary(spec: EnvSpec, about: About, digest: str, report: Report) -> Section:
    """What the data are: environment, arrays, counts, policies, reference returns, digest."""
    return Section("summary", "Summary", [Facts([*_people(about), *_facts(spec, digest, report.summary)])])


def assumptions(manifest: Manifest | None) -> Section:
    """What was assumed, cast, dropped or lost when the data were made."""
    notes = manifest.notes if manifest else ()
    otherwise = "Nothing was noted when they were made." if manifest else "They carry no manifest, so what was done to them is not known."
    return Section("assumptions", "Assumptions and losses", [Bullets(notes) if notes else Text(otherwise)])


def statistics(summary: Mapping[str, Any]) -> list[Block]:
    """The quartiles of returns and lengths, and of the returns of each policy where there are several."""
    rows = {"return": summary["episode_return"], "length": summary["length"]}
    if len(summary["policies"]) > 1:
        rows |= {f"return of {policy or 'unknown'}": entry["episode_return"] for policy, entry in summary["policies"].items()}
    cells = [[name, *(value_text(row.get(column)) for column in STATISTICS)] for name, row in rows.items()]
    blocks: list[Block] = [Table("Returns and lengths", ("", *STATISTICS), cells)]
    missing = summary["episode_return"]["not_finite"]
    return [*blocks, Text(f"{count(missing, 'return')} not finite and left out.")] if missing else blocks


def columns(spec: EnvSpec, arrays: Mapping[str, Any]) -> list[Block]:
    """The numbers of every column. `arrays` is the summary's."""
    table = Table("Columns", ("column", *COLUMN_STATISTICS), list(_columns(spec, arrays)), ("column",))
    return [Folded("Numbers of every column", table)]


def checks(report: Report) -> Section:
    """Every check, what it looks for, and what came of it."""
    rows = [[_check(name), _outcome(result), DESCRIPTIONS[name][0]] for name, result in report.results.items()]
    header = ("Check", "Outcome", "What it finds")
    return Section("checks", "Checks", [Table("Checks", header, rows, header)])


def origin(manifest: Manifest | None) -> Section:
    """Which job made the data, from what, and with which packages."""
    if manifest is None:
        return Section("origin", "Origin", [Text("By a program that left no manifest.")])
    made = [f"read {entry.path} ({entry.name}), content {entry.digest}" for entry in manifest.inputs]
    packages = [f"{name} {version}" for name, version in sorted(manifest.packages.items())]
    blocks: list[Block] = [
        Facts([("job", Code(manifest.job)), ("packages", ", ".join(packages) or "none recorded")]),
        Bullets(made) if made else Text("It read no file."),
        Listing("Parameters", json.dumps(dict(manifest.parameters), indent=2, sort_keys=True, ensure_ascii=False)),
    ]
    return Section("origin", "Origin", blocks)


def value_text(value: float | None, digits: int = 6) -> str:
    """So many significant digits, with a true minus sign."""
    return "not finite" if value is None else f"{value:.{digits}g}".replace("-", "\u2212")


def all_leaves(spec: EnvSpec) -> dict[str, ArraySpec]:
    """Returns the arrays of a summary by name."""
    return dict([*named_leaves(spec.observation, "observation"), ("action", spec.action), ("reward", ArraySpec((), "float32"))])


def column_name(name: str, leaf: ArraySpec, described: Mapping[str, Any], index: int) -> str:
    """Returns the name of a column that the summary describes: the array's where it describes all of them together, or there is one."""
    columns = len(described["columns"])
    is_told_apart = columns == math.prod(leaf.shape) and (columns > 1 or bool(leaf.columns))
    return f"{name}{leaf.subscript(index)}" if is_told_apart else name


def array_text(leaf: ArraySpec) -> str:
    """What an array of a step is, in words: "3 float32 in [-1, 1]", "one of 2 values", "64 x 64 x 3 uint8 image"."""
    shape = " \u00d7 ".join(map(str, leaf.shape))
    if leaf.num_values is not None:
        return f"one of {count(leaf.num_values, 'value')} ({leaf.dtype})"
    if leaf.is_image:
        return f"{shape} {leaf.dtype} image"
    low, high = leaf.bounds()
    within = ""
    if leaf.is_bounded and low.size:
        same = (low == low.flat[0]).all() and (high == high.flat[0]).all()
        within = f" in [{value_text(float(low.flat[0]))}, {value_text(float(high.flat[0]))}]" if same else ", each within bounds of its own"
    return f"{shape or 'one'} {leaf.dtype}{within}"


def _people(about: About) -> Iterator[tuple[str, str]]:
    """What the entry says about the data set."""
    told = {
        "description": about.description,
        "creators": ", ".join(about.creators),
        "licence": about.license,
        "published": " ".join((about.url, about.date_published)).strip(),
        "citation": about.citation,
    }
    yield from ((term, words) for term, words in told.items() if words)


def _facts(spec: EnvSpec, digest: str, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "environment", Code(spec.env_id)
    if spec.env_kwargs:
        yield "its arguments", Code(json.dumps(dict(spec.env_kwargs), sort_keys=True))
    for name, leaf in (*named_leaves(spec.observation, "observation"), ("action", spec.action)):
        yield name, array_text(leaf)
    if spec.step_metadata:
        yield "step metadata", ", ".join(f"{name} ({array_text(leaf)})" for name, leaf in spec.step_metadata.items()) + "; not checked"
    yield "episodes", f"{summary['episodes']:,} of {count(summary['transitions'], 'transition')}"
    yield "ends", f"{summary['terminals']:,} terminal, {summary['truncations']:,} truncated"
    yield "step limit", "none known" if spec.max_episode_steps is None else count(spec.max_episode_steps, "transition")
    yield (
        "policies",
        ", ".join(f"{policy or 'unknown'} ({count(entry['episodes'], 'episode')})" for policy, entry in summary["policies"].items())
        or "none",
    )
    references = spec.reference_returns
    if references is None:
        yield "reference returns", "none known, so no normalised score"
    else:
        yield "reference returns", f"random {number(references.random)}, expert {number(references.expert)}; source: {references.source}"
    if digest:
        yield "content digest", Code(digest)


def _columns(spec: EnvSpec, arrays: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    leaves = all_leaves(spec)
    for name, described in arrays.items():
        if "counts" in described:
            counts = ", ".join(f"{value}: {times:,}" for value, times in described["counts"].items())
            yield f"{name} ({counts})", "", "", *(str(function(map(int, described["counts"]))) for function in (min, max))
        elif "columns" in described:
            for index, column in enumerate(described["columns"]):
                yield column_name(name, leaves[name], described, index), *(value_text(column[key]) for key in COLUMN_STATISTICS)
        else:
            yield name, "", "", value_text(described["minimum"]), value_text(described["maximum"])


def _finding(name: str, result: CheckResult) -> Finding:
    finds, why, remedy = DESCRIPTIONS[name]
    examples = [(finding.where, finding.found, finding.expected) for finding in result.findings]
    return Finding(name, str(result.verdict), result.faults, finds, why, remedy, examples)


def _outcome(result: CheckResult) -> str:
    if result.verdict == "not applicable":
        return f"not applicable: {result.not_applicable}"
    faults = f", {count(result.faults, 'fault')}" if result.faults else ""
    covered = f", in {result.covered.episodes:,} of {count(result.covered.of, 'episode')}" if result.covered else ""
    return OUTCOMES.get(result.verdict, result.verdict) + faults + covered


def _set_aside(report: Report) -> list[tuple[str, ...]]:
    return [
        (entry.episode_id, _check(entry.check), "" if entry.step is None else f"{entry.step:,}", entry.reason)
        for entry in report.quarantine[:SET_ASIDE]
    ]


def _check(name: str) -> str:
    return name.replace("_", " ")
