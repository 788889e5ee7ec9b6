"""The audit: does what is on disk still follow from what was run? One verdict a link, the first broken one named.

Every byte of every input and output is hashed and compared with dvc.lock; parameters and commands with params.yaml and
dvc.yaml; and each manifest's word on its inputs with those inputs' own manifests.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pipelines import paths
from pipelines.lineage.graph import Graph, overlap
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.stages import Project, Stage
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json
from rl_datasets.manifest import FILE_NAME, read_manifest

BUNDLE_FILE = "bundle.json"  # trainer/bundle.py, which takes a second to import


class Verdict(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    AFFECTED = "affected"  # by damage that is reported where it was found first
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Finding:
    """One link that was looked at: of which stage, what, what was expected and found, and how to mend it."""

    stage: str
    verdict: Verdict
    link: str
    detail: str = ""
    subject: str = ""  # the path or parameter that it is about
    is_missing: bool = False  # its verdict is UNKNOWN because the path is not here

    @property
    def is_damage(self) -> bool:
        return self.verdict is Verdict.BROKEN and bool(self.subject)


def audit_stages(project: Project, graph: Graph, stages: list[str], advance: Callable[[str], None] = lambda _stage: None) -> list[Finding]:
    """Returns a finding for every link of these stages and of all above them, sources first.

    One damage is one broken link, where it is met first; every other link that it breaks is affected by it.
    """
    findings: list[Finding] = []
    damages: list[Finding] = []
    hash_of = Hasher()
    for name in graph.upstream(stages):
        advance(name)
        for finding in _audit_stage(project, graph, graph.stages[name], hash_of):
            causes = [damage for damage in damages if finding.is_damage and overlap(finding.subject, damage.subject)]
            if causes:
                by = "; ".join(f"{cause.stage}: {cause.link}" for cause in causes)
                finding = replace(finding, verdict=Verdict.AFFECTED, detail=f"by {by}")
            elif finding.is_damage:
                damages.append(finding)
            findings.append(finding)
    return findings


def exit_code(findings: list[Finding]) -> int:
    """0: all holds; 1: a link is broken; 2: something could not be told."""
    verdicts = {finding.verdict for finding in findings}
    return 1 if Verdict.BROKEN in verdicts else 2 if Verdict.UNKNOWN in verdicts else 0


def _audit_stage(project: Project, graph: Graph, stage: Stage, hash_of: Hasher) -> Iterator[Finding]:
    if stage.locked is None:
        yield Finding(stage.name, Verdict.UNKNOWN, "dvc.lock", f"has no run of this stage; make it with 'dvc repro {stage.name}'")
        return
    yield from _audit_command(stage)
    yield from _audit_parameters(project, stage)
    for kind, expected_paths in (("deps", stage.dependencies), ("outs", stage.outputs)):
        locked = stage.locked_hashes(kind)
        for path in sorted({*expected_paths, *locked}):
            restore = f"dvc checkout --force {path}" if graph.makers(path) else f"git checkout {path}"
            yield _audit_path(stage.name, path, kind, locked.get(path), hash_of, restore)
    yield from _audit_manifests(stage)


def _audit_command(stage: Stage) -> Iterator[Finding]:
    locked = (stage.locked or {}).get("cmd")
    if locked != stage.command:
        yield Finding(stage.name, Verdict.BROKEN, "command", f"dvc.lock ran '{locked}', dvc.yaml says '{stage.command}'; run 'dvc repro'")


def _audit_parameters(project: Project, stage: Stage) -> Iterator[Finding]:
    for key, locked in stage.locked_parameters().items():
        found = project.parameter(key)
        same = found == locked
        detail = "" if same else f"the run used {locked!r}, params.yaml now says {found!r}; run 'dvc repro' or restore the value"
        yield Finding(
            stage.name,
            Verdict.HOLDS if same else Verdict.BROKEN,
            f"parameter {key}",
            detail,
            subject=f"params.yaml/{key.replace('.', '/')}",
        )


def _audit_path(stage: str, path: str, kind: str, locked: str | None, hash_of: Hasher, restore: str) -> Finding:
    word = "input" if kind == "deps" else "output"
    if locked is None:
        return Finding(stage, Verdict.BROKEN, f"{word} {path}", "dvc.yaml names it, but the last run did not know it; run 'dvc repro'")
    found = hash_of(path)
    if found is None:
        return Finding(stage, Verdict.UNKNOWN, f"{word} {path}", "is not here; 'dvc checkout' or 'dvc pull' brings it back", path, True)
    if found != locked:
        mend = f"if it was changed on purpose run 'dvc repro', if not restore it with '{restore}'"
        return Finding(stage, Verdict.BROKEN, f"{word} {path}", f"md5 is {found}, dvc.lock says {locked}; {mend}", path)
    return Finding(stage, Verdict.HOLDS, f"{word} {path}")


def _audit_manifests(stage: Stage) -> Iterator[Finding]:
    """Each input that a manifest names must be what that input's own manifest says it is."""
    for path in sorted(manifest for output in stage.outputs for manifest in _manifests(Path(output))):
        try:
            for entry in read_manifest(path.parent).inputs:
                source = Path(entry.path)
                digest = _digest_of(source)
                if digest is None:
                    continue
                verdict = Verdict.HOLDS if digest == entry.digest else Verdict.BROKEN
                detail = "" if verdict is Verdict.HOLDS else f"made from digest {entry.digest[:12]}, {source} now has {digest[:12]}"
                yield Finding(stage.name, verdict, f"content of {source} as {path} names it", detail, source.as_posix())
        except (HindcastError, TypeError, KeyError) as error:
            yield Finding(stage.name, Verdict.BROKEN, str(path), f"cannot be read: {error}", path.as_posix())


def _digest_of(source: Path) -> str | None:
    """What an artifact says of its own content: a manifest, or a policy's description; None for a file that says nothing."""
    for name in (FILE_NAME, BUNDLE_FILE):
        if (source / name).is_file():
            return str(read_json(source / name, "digest")["digest"])
    return None


def _manifests(output: Path) -> list[Path]:
    return [output] if output.name == FILE_NAME and output.is_file() else list(output.rglob(FILE_NAME)) if output.is_dir() else []


def records_of(stage: str) -> list[Path]:
    """Returns the records of a stage's executions, oldest first."""
    return sorted((paths.RECORDS / stage).glob("*.json"))
