"""`write_card`: the data card of a data set as Markdown with two histograms, for a person who is about to use it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.checks.histograms import draw_histogram
from rl_datasets.checks.report import Report
from rl_datasets.files import write_text
from rl_datasets.manifest import Manifest
from rl_datasets.schema import EnvSpec, named_leaves

FILE_NAME = "card.md"
VERDICTS = {
    "pass": "**PASS.** Every check that is switched on passed.",
    "warn": "**PASS WITH WARNINGS.** Nothing stops the pipeline; read the findings below before you trust a result.",
    "fail": "**FAIL.** Nothing is made from this data until the findings below are mended.",
}


def write_card(folder: Path, name: str, version: str, spec: EnvSpec, manifest: Manifest, report: Report) -> None:
    """Writes card.md, returns.png and lengths.png into `folder`. Equal arguments give equal bytes."""
    groups = {str(policy): rows for policy, rows in report.table.groupby("policy")}
    for file, column, label in (("returns.png", "episode_return", "return"), ("lengths.png", "length", "length (transitions)")):
        draw_histogram(folder / file, {policy: rows[column].to_numpy(np.float64) for policy, rows in groups.items()}, label)
    write_text(folder / FILE_NAME, card(name, version, spec, manifest, report))


def card(name: str, version: str, spec: EnvSpec, manifest: Manifest, report: Report) -> str:
    """Returns the Markdown: verdict, summary, notes, findings, statistics, pictures. `manifest` is the raw data set's."""
    sections = (
        ("", [f"# Data card: {name} {version}", VERDICTS[report.verdict]]),
        ("Summary", [_table(("", ""), _facts(spec, manifest, report.summary))]),
        ("What was assumed, cast or lost", [_bullets(manifest.notes, "Nothing was noted when it was made.")]),
        ("Findings", _findings(report)),
        ("Checks", [_table(("check", "severity", "faults"), ((n, r.severity, r.faults) for n, r in report.results.items()))]),
        ("Returns and lengths", [*_distributions(report.summary), "![Returns](returns.png)", "![Lengths](lengths.png)"]),
        ("Arrays", [_table(("array", "mean", "std", "minimum", "maximum"), _arrays(report.summary["arrays"]))]),
        ("How it was made", _origin(manifest)),
    )
    blocks = [block for title, content in sections for block in ([f"## {title}"] if title else []) + list(content)]
    return "\n\n".join(blocks) + "\n"


def _facts(spec: EnvSpec, manifest: Manifest, summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "environment", f"`{spec.env_id}`" + (f" with `{json.dumps(dict(spec.env_kwargs), sort_keys=True)}`" if spec.env_kwargs else "")
    for leaf_name, leaf in (*named_leaves(spec.observation, "observation"), ("action", spec.action)):
        values = f", {leaf.num_values} values" if leaf.num_values is not None else ""
        yield leaf_name, f"{leaf.dtype}{list(leaf.shape)}{values}"
    yield "episodes", f"{summary['episodes']:,}"
    yield "transitions", f"{summary['transitions']:,}"
    yield "ends", f"{summary['terminals']:,} terminal, {summary['truncations']:,} truncated"
    yield "step limit", "none known" if spec.max_episode_steps is None else f"{spec.max_episode_steps:,}"
    policies = (f"{policy or 'unknown'} ({entry['episodes']:,} episodes)" for policy, entry in summary["policies"].items())
    yield "policies", ", ".join(policies) or "none"
    references = spec.reference_returns
    if references is None:
        yield "reference returns", "none known, so no normalised score"
    else:
        yield "reference returns", f"random {references.random:g}, expert {references.expert:g}; source: {references.source}"
    yield "content digest", f"`{manifest.digest}`"


def _findings(report: Report) -> Iterator[str]:
    findings = list(report.findings())
    if not findings:
        yield "None."
        return
    header = ("severity", "check", "where", "found", "expected", "what to do")
    yield _table(header, ((f.severity, f.check, f.where, f.found, f.expected, f.remedy) for f in findings))
    hidden = report.faults("fail") + report.faults("warn") - len(findings)
    if hidden:
        yield f"{hidden:,} more are counted below but not written out (`max_findings`)."


def _distributions(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = {"return": summary["episode_return"], "length": summary["length"]}
    if len(summary["policies"]) > 1:
        rows |= {f"return of {policy or 'unknown'}": entry["episode_return"] for policy, entry in summary["policies"].items()}
    columns = ("mean", "std", "minimum", "q25", "median", "q75", "maximum")
    yield _table(("", *columns), ((name, *(_number(row.get(column)) for column in columns)) for name, row in rows.items()))
    if summary["episode_return"]["not_finite"]:
        yield f"{summary['episode_return']['not_finite']:,} returns are not finite and are left out."


def _arrays(arrays: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, described in arrays.items():
        if "counts" in described:
            counts = ", ".join(f"{value}: {count:,}" for value, count in described["counts"].items())
            yield f"{name} ({counts})", "", "", *(str(f(map(int, described["counts"]))) for f in (min, max))
        elif "columns" in described:
            columns = described["columns"]
            for index, column in enumerate(columns):
                subscript = f"[{index}]" if len(columns) > 1 else ""
                yield f"{name}{subscript}", *(_number(column[key]) for key in ("mean", "std", "minimum", "maximum"))
        else:
            yield name, "", "", str(described["minimum"]), str(described["maximum"])


def _origin(manifest: Manifest) -> Iterator[str]:
    yield f"By `{manifest.job}` with"
    yield f"```json\n{json.dumps(dict(manifest.parameters), indent=2, sort_keys=True)}\n```"
    yield _bullets([f"read `{entry.path}` ({entry.name}), content `{entry.digest}`" for entry in manifest.inputs], "It read no file.")
    yield _bullets([f"{name} {version}" for name, version in sorted(manifest.packages.items())], "No package is recorded.")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _bullets(lines: Sequence[str], otherwise: str) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines) or otherwise


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"
