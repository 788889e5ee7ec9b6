"""`write_report`: the folder that the gate leaves behind, whatever its verdict."""

import hashlib
import json
import os
from pathlib import Path

import pandas as pd

from rl_datasets.about import About
from rl_datasets.checks.card import PAGE, Shown, write_card
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import SEVERITIES, Quarantined, Report
from rl_datasets.croissant import FILE_NAME as CROISSANT
from rl_datasets.croissant import croissant
from rl_datasets.files import replacing, write_json
from rl_datasets.manifest import Input, Manifest, package_versions, write_manifest
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.words import count

FILE_NAME, QUARANTINE = "report.json", "quarantine.csv"


def write_report(folder: Path, name: str, raw: Path, expected: Expected, params: CheckParams, report: Report, shown: Shown) -> None:
    """Replaces `folder` by report.json, quarantine.csv, the data card, croissant.json and manifest.json. Equal arguments give equal bytes.

    `raw` is the data set's folder, named for its version; `expected` has its manifest.
    """
    digest = "" if expected.manifest is None else expected.manifest.digest
    counts = {key: report.summary[key] for key in ("episodes", "transitions")}
    with replacing(folder) as part:
        own = Manifest(
            job=f"check@{name}",
            digest=write_outputs(part, folder, name, RldsReader(raw), expected, report, shown),
            parameters=params.model_dump(),
            inputs=(Input(name, raw.as_posix(), digest),),
            counts=counts | {f"{severity}_faults": report.faults(severity) for severity in SEVERITIES},
            notes=(f"verdict: {report.verdict}",),
            packages=package_versions("numpy", "pandas"),
        )
        write_manifest(part, own)


def write_outputs(part: Path, folder: Path, name: str, reader: RldsReader, expected: Expected, report: Report, shown: Shown) -> str:
    """Writes all but the manifest into `part`, which will be `folder`, and returns the digest of the report."""
    manifest = expected.manifest
    about = About.model_validate((manifest.parameters.get("about") if manifest else None) or {})
    content = {"dataset": name, "version": reader.path.name, "digest": manifest.digest if manifest else "", **report.to_json()}
    write_json(part / FILE_NAME, content)
    pd.DataFrame(report.quarantine, columns=list(Quarantined._fields)).astype({"step": "Int64"}).to_csv(part / QUARANTINE, index=False)
    write_json(part / CROISSANT, croissant(reader, name, about, report.summary, os.path.relpath(reader.path, folder)))
    write_card(part, name, reader.path.name, expected, about, report, shown, (FILE_NAME, QUARANTINE, CROISSANT))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def failure(report: Report, folder: Path, name: str, shown: int = 3) -> str:
    """Returns the message for a verdict of "fail": the first findings, and where the rest is."""
    findings = [finding for finding in report.findings() if finding.severity == "fail"]
    lines = [f"  {finding}" for finding in findings[:shown]]
    faults = report.faults("fail")
    more = f"\n  ... and {faults - len(lines):,} more." if faults > len(lines) else ""
    return (
        f"Data set '{name}' has {count(faults, 'fault')} that must not pass:\n"
        + "\n".join(lines)
        + more
        + f"\nThe whole report is {folder / FILE_NAME}, the data card {folder / PAGE}. "
        "Mend the data and collect them again; severities and thresholds are under 'checks' in params.yaml."
    )
