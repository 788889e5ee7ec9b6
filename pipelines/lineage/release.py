"""Releases: an annotated tag in gto's form, with the audit's verdict inside, on a commit whose dvc.yaml names the artifact.

`<name>@v<version>` and the section `artifacts:` are what DVC ('dvc artifacts get', 'dvc get --rev'), gto and DVC Studio read.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence

from pipelines import paths
from pipelines.lineage.audit.findings import Finding, exit_code
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.released import (
    COMMIT,
    LOCK_DIGEST,
    SECTION,
    VERDICT,
    VERSION,
    Artifact,
    numbers_line,
    tag_name,
    version_numbers,
)
from pipelines.lineage.stages import PARAMS, PIPELINE, Project
from pipelines.lineage.tree import git
from pipelines.lineage.wording import listed
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_text

PARTS = ("major", "minor", "patch")
FIRST = "1.0.0"


def next_version(artifact: Artifact, project: Project, asked: str, released: Sequence[str]) -> str:
    """Returns the version to release. `asked` is a version, or which part to raise ("major", "minor", "patch"), or "".

    A data set's is that of its entry in params.yaml. A model's is the last one with its minor part raised, and FIRST where there is none.
    Raises HindcastError where it is no version, is released already, or is another than the data set's own.
    """
    own = str(project.parameter(f"datasets.{artifact.name}.version")) if artifact.kind == "dataset" else ""
    if own and asked not in ("", own):
        raise HindcastError(
            f"'{asked}' was asked for, but a data set's version is that of its entry, and in {PARAMS} datasets.{artifact.name}.version is "
            f"{own}. Raise it there and run 'dvc repro'."
        )
    version = own or (asked if asked not in ("", *PARTS) else _raised(released, asked or "minor"))
    if not VERSION.fullmatch(version):
        raise HindcastError(f"'{version}' is no version: three numbers such as 1.2.0 are expected, or one of {', '.join(PARTS)}.")
    if version in released:
        hint = f"raise datasets.{artifact.name}.version" if own else "choose another"
        raise HindcastError(f"{tag_name(artifact.name, version)} exists already, and what it names must not change: {hint}.")
    return version


def require_clean(findings: Sequence[Finding]) -> None:
    """Raises HindcastError with the first findings where the audit found anything broken, or could not tell."""
    if exit_code(findings):
        troubled = [finding for finding in findings if exit_code([finding])]
        shown = "; ".join(f"{finding.stage}: {finding.link}: {finding.detail}" for finding in troubled[:3])
        raise HindcastError(
            f"Nothing was tagged, for the audit is not clean: {len(troubled)} of {len(findings)} links are broken or cannot be told: "
            f"{shown}. 'hindcast audit --deep' shows all; mend them first."
        )


def require_committed() -> None:
    """Raises HindcastError that lists what a tag would not have, for it is not committed."""
    changed = git("status", "--porcelain", "--untracked-files=normal").splitlines()
    if changed:
        raise HindcastError(
            f"Nothing was tagged, for the tag would lack what is not committed: {listed(line[3:] for line in changed)}. "
            "Commit it or take it back."
        )


def declare(artifact: Artifact) -> bool:
    """Adds an artifact to dvc.yaml where it has none of that name, and returns whether it did. Every other byte stays as it is.

    Raises HindcastError where an entry of that name is about something else.
    """
    text = _read(PIPELINE)
    pipeline = parse_yaml(text.encode(), PIPELINE)
    known = (pipeline.get(SECTION) or {}).get(artifact.name)
    if known is not None:
        if known.get("path") != artifact.path:
            raise HindcastError(f"{PIPELINE}: artifacts.{artifact.name}.path is '{known.get('path')}', but '{artifact.path}' is released.")
        return False
    write_text(paths.PARAMS.with_name(PIPELINE), with_artifact(text, artifact))
    return True


def with_artifact(text: str, artifact: Artifact) -> str:
    """Returns dvc.yaml with the artifact's entry at the top of its section, which is put at the end where there is none.

    Raises HindcastError where the section is not written as a block of lines.
    """
    lines = "".join(f"    {key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in artifact.entry().items())
    entry = f"  {artifact.name}:\n{lines}"
    head = re.search(rf"^{SECTION}:[ \t]*(#.*)?\n", text, re.MULTILINE)
    before = parse_yaml(text.encode(), PIPELINE)
    changed = text[: head.end()] + entry + text[head.end() :] if head else f"{text.rstrip()}\n\n{SECTION}:\n{entry}"
    after = parse_yaml(changed.encode(), PIPELINE) if head or SECTION not in before else {}
    added = (after.get(SECTION) or {}).pop(artifact.name, None)
    if added != artifact.entry() or {**before, SECTION: before.get(SECTION) or {}} != after:
        raise HindcastError(f"{PIPELINE}: the section '{SECTION}' is not written as a block of lines. Put this into it by hand:\n{entry}")
    return changed


def tag_message(project: Project, artifact: Artifact, version: str, findings: Sequence[Finding], commit: str) -> str:
    """Returns what the tag of a commit says: the verdict, what it is about, and trailers for programs ('git tag --format=%(trailers)')."""
    stages = list(dict.fromkeys(finding.stage for finding in findings if finding.stage))
    verdicts = Counter(str(finding.verdict) for finding in findings)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    lock = hashlib.sha256(project.tree.read(LOCK) or b"").hexdigest()
    body = [
        f"{artifact.description}, version {version}",
        "",
        f"'hindcast audit {artifact.name} --deep' looked at {len(findings)} links of {len(stages)} stages: all hold.",
        "",
        *(f"  {path} {md5}" for path, md5 in artifact.stage.locked_hashes("outs").items()),
        *(f"  {line}" for line in (numbers_line(project, artifact),) if line),
        "",
        f"{VERDICT}: holds",
        f"Hindcast-Links: {counted}",
        f"Hindcast-Stages: {', '.join(stages)}",
        f"{LOCK_DIGEST}: sha256 {lock}",
        f"{COMMIT}: {commit}",
    ]
    return "\n".join(body) + "\n"


def _raised(released: Sequence[str], part: str) -> str:
    if not released:
        return FIRST
    numbers = list(version_numbers(released[-1]))
    place = PARTS.index(part)
    return ".".join(map(str, [*numbers[:place], numbers[place] + 1, *[0] * (2 - place)]))


def _read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
