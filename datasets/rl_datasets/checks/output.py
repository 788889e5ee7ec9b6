"""`write_report`: the folder that the gate leaves behind, whatever its verdict."""

import hashlib
import json
from pathlib import Path

import pandas as pd

from rl_datasets.checks.card import write_card
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import SEVERITIES, Quarantined, Report
from rl_datasets.files import replacing, write_json
from rl_datasets.manifest import Input, Manifest, package_versions, write_manifest
from rl_datasets.schema import EnvSpec

FILE_NAME, QUARANTINE = "report.json", "quarantine.csv"


def write_report(folder: Path, name: str, raw: Path, spec: EnvSpec, manifest: Manifest, params: CheckParams, report: Report) -> None:
    """Replaces `folder` by report.json, quarantine.csv, the data card and manifest.json. Equal arguments give equal bytes.

    `raw` is the data set's folder, named for its version, and `manifest` its own.
    """
    version = raw.name
    content = {"dataset": name, "version": version, "digest": manifest.digest, **report.to_json()}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    own = Manifest(
        job=f"check@{name}",
        digest=digest,
        parameters=params.model_dump(),
        inputs=(Input(name, raw.as_posix(), manifest.digest),),
        counts={key: report.summary[key] for key in ("episodes", "transitions")} | {f"{s}_faults": report.faults(s) for s in SEVERITIES},
        notes=(f"verdict: {report.verdict}",),
        packages=package_versions("matplotlib", "numpy", "pandas"),
    )
    with replacing(folder) as part:
        write_json(part / FILE_NAME, content)
        pd.DataFrame(report.quarantine, columns=list(Quarantined._fields)).astype({"step": "Int64"}).to_csv(part / QUARANTINE, index=False)
        write_card(part, name, version, spec, manifest, report)
        write_manifest(part, own)


def failure(report: Report, folder: Path, name: str, shown: int = 3) -> str:
    """Returns the message for a verdict of "fail": the first findings, and where the rest is."""
    findings = [finding for finding in report.findings() if finding.severity == "fail"]
    lines = [f"  {finding}" for finding in findings[:shown]]
    faults = report.faults("fail")
    more = f"\n  ... and {faults - len(lines):,} more." if faults > len(lines) else ""
    return (
        f"Data set '{name}' has {faults:,} fault{'s' if faults != 1 else ''} that must not pass:\n"
        + "\n".join(lines)
        + more
        + f"\nThe whole report is {folder / FILE_NAME}, the data card {folder / 'card.md'}. "
        "Mend the data and collect them again; severities and thresholds are under 'checks' in params.yaml."
    )
