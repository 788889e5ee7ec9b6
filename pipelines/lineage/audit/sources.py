"""The three files that say what a project is: where one cannot be read, that is the first break, and the last commit's stands in for it."""

from dataclasses import dataclass

from pipelines.lineage.audit.findings import Finding, broken
from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.stages import PARAMS, PIPELINE, Project, read_project
from pipelines.lineage.tree import Tree, git_or_none
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError

PARSERS = {PARAMS: lambda content: parse_yaml(content, PARAMS), PIPELINE: lambda content: parse_yaml(content, PIPELINE), LOCK: parse_lock}


@dataclass
class Mended:
    """A tree in which some files have another content."""

    tree: Tree
    contents: dict[str, bytes]
    revision: str

    def read(self, path: str) -> bytes | None:
        return self.contents[path] if path in self.contents else self.tree.read(path)

    def files(self, folder: str) -> list[str]:
        return self.tree.files(folder)


def open_project(tree: Tree) -> tuple[Project, list[Finding]]:
    """Returns the project, and a finding for each of the three files that cannot be read.

    Of one with merge markers, or that is gone or damaged, the last commit's takes the place, so that the rest is audited by that.
    Raises HindcastError where no commit has it either.
    """
    if tree.read(LOCK) is not None or _before(LOCK) is None:
        try:
            return read_project(tree), []
        except HindcastError:
            pass  # which of the three it is, is told below
    findings: list[Finding] = []
    contents: dict[str, bytes] = {}
    for path in PARSERS:
        fault, before = _fault(path, tree.read(path)), None if tree.revision else _before(path)
        if fault and before is not None and not _fault(path, before):
            contents[path] = before
            mend = f"mend it, or restore it with 'git checkout {path}'; all else is audited by the last commit's {path}"
            findings.append(broken("", path, path, found=fault, mend=mend))
        elif fault and path == LOCK and tree.read(path) is not None:
            contents[path] = b"schema: '2.0'\nstages: {}\n"
            findings.append(broken("", path, path, found=fault, mend="nothing else knows what was run: 'dvc repro' makes it anew"))
    return read_project(Mended(tree, contents, tree.revision)), findings


def _before(path: str) -> bytes | None:
    return git_or_none("show", f"HEAD:./{path}")


def _fault(path: str, content: bytes | None) -> str:
    """What is wrong with one of the three; "" where nothing is. A project that was not run yet has no dvc.lock."""
    if content is None:
        return "it is gone, though the last commit has it" if _before(path) is not None else "" if path == LOCK else "it is missing"
    try:
        PARSERS[path](content)
    except HindcastError as error:
        return str(error)
    return ""
