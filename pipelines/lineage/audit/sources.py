"""The three files that say what a project is: where one cannot be read, that is the first break, and the last commit's stands in for it."""

from dataclasses import dataclass

from pipelines.lineage.audit.findings import Finding, broken
from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.stages import PARAMS, PIPELINE
from pipelines.lineage.tree import Tree, git_or_none
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError

PARSERS = {PARAMS: lambda content: parse_yaml(content, PARAMS), PIPELINE: lambda content: parse_yaml(content, PIPELINE), LOCK: parse_lock}


@dataclass(frozen=True)
class Mended:
    """A tree in which some files have another content."""

    tree: Tree
    contents: dict[str, bytes]

    @property
    def revision(self) -> str:
        return self.tree.revision

    def read(self, path: str) -> bytes | None:
        return self.contents[path] if path in self.contents else self.tree.read(path)

    def files(self, folder: str) -> list[str]:
        return self.tree.files(folder)


def readable(tree: Tree) -> tuple[Tree, list[Finding]]:
    """Returns a tree whose params.yaml, dvc.yaml and dvc.lock can be read, and a finding for each that could not.

    Of a file with merge markers, or that is gone or damaged, the last commit's takes the place, so that the rest is audited by that.
    """
    findings: list[Finding] = []
    contents: dict[str, bytes] = {}
    for path in PARSERS:
        fault = _fault(path, tree.read(path))
        before = git_or_none("show", f"HEAD:./{path}") if fault and not tree.revision else None
        if fault and before is not None and not _fault(path, before):
            contents[path] = before
            mend = f"mend it, or restore it with 'git checkout {path}'; all else is audited by the last commit's {path}"
            findings.append(broken("", path, path, found=fault, mend=mend))
        elif fault and path == LOCK and tree.read(path) is not None:
            contents[path] = b"schema: '2.0'\nstages: {}\n"
            findings.append(broken("", path, path, found=fault, mend="nothing else knows what was run: 'dvc repro' makes it anew"))
    return Mended(tree, contents) if contents else tree, findings


def _fault(path: str, content: bytes | None) -> str:
    """What is wrong with one of the three; "" where nothing is. A project that was not run yet has no dvc.lock."""
    if content is None:
        before = git_or_none("show", f"HEAD:./{path}")
        return "it is gone, though the last commit has it" if before is not None else "" if path == LOCK else "it is missing"
    try:
        PARSERS[path](content)
    except HindcastError as error:
        return str(error)
    return ""
