"""The audit itself: every check of every stage, sources first, and what concerns the project as a whole."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime

from pipelines.lineage.audit.ancestry import check_ancestry, lost_commits
from pipelines.lineage.audit.bytes import check_bytes
from pipelines.lineage.audit.cache import check_cache, read_cache, unreferenced
from pipelines.lineage.audit.compiled import check_compiled, compiled_beside
from pipelines.lineage.audit.contents import ARTIFACTS, Contents, Workspace
from pipelines.lineage.audit.datasets import check_datasets, read_ahead
from pipelines.lineage.audit.evaluations import check_evaluation, check_report
from pipelines.lineage.audit.findings import Attribution, Finding, Verdict, broken, note, unknown
from pipelines.lineage.audit.gate import check_gate
from pipelines.lineage.audit.history import BY_LOCK, History
from pipelines.lineage.audit.lock import check_asked, check_run
from pipelines.lineage.audit.manifests import check_links, check_manifests
from pipelines.lineage.audit.models import check_models
from pipelines.lineage.audit.origins import check_packages, check_sources
from pipelines.lineage.audit.page import check_page
from pipelines.lineage.audit.releases import check_releases
from pipelines.lineage.audit.remote import Remote, check_remote
from pipelines.lineage.audit.revision import Revision
from pipelines.lineage.audit.runs import check_records, other_records
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.audit.sources import open_project
from pipelines.lineage.audit.strangers import check_hidden, check_modules, check_places, check_strangers, drawing, uncommitted_code, unmade
from pipelines.lineage.audit.versions import check_version
from pipelines.lineage.graph import Graph
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import PIPELINE, Project, Stage
from pipelines.lineage.tree import GitTree, Tree, WorkingTree, is_bare
from rl_datasets.errors import HindcastError

Check = Callable[[Scene, Stage], Iterator[Finding]]
Advance = Callable[[str], None]

CHECKS: tuple[Check, ...] = (
    check_run,
    check_asked,
    check_bytes,
    check_manifests,
    check_strangers,
    check_hidden,
    check_modules,
    check_compiled,
    check_places,
    check_links,
    check_gate,
    check_models,
    check_evaluation,
    check_report,
    check_records,
    check_version,
    check_sources,
    check_packages,
    check_releases,
)
UNREADABLE = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError, csv.Error)  # of what is damaged
DEEP_CHECKS: tuple[Check, ...] = (check_ancestry, check_datasets, check_page)


def audit_project(
    target: str = "", revision: str = "", advance: Advance = lambda _: None, *, deep: bool = False, remote: bool = False
) -> list[Finding]:
    """Audits what is on disk below the current folder, or a revision of git; with a target, the stages that it means and all above.

    With `remote`, every object of these that should be on DVC's default remote as well. In a bare repository, which has nothing on
    disk, its HEAD. Raises HindcastError where there is no such target or revision, or no remote that can be used.
    """
    revision = revision or ("HEAD" if is_bare() else "")
    opened: AbstractContextManager[Tree] = GitTree(revision) if revision else nullcontext(WorkingTree())
    with opened as tree:
        return _audit_tree(tree, target, advance, deep, remote)


def _audit_tree(tree: Tree, target: str, advance: Advance, deep: bool, remote: bool) -> list[Finding]:
    project, faults = open_project(tree)
    graph = Graph(project.stages)
    names = graph.find(target) if target else list(graph.stages)
    findings = [*audit_stages(project, graph, names, advance, deep=deep, faults=faults), *_kept(History(tree.revision), deep)]
    return [*findings, *check_remote(project, graph, graph.upstream(names), Remote(), advance)] if remote else findings


def audit_stages(
    project: Project,
    graph: Graph,
    stages: Sequence[str],
    advance: Advance = lambda _: None,
    *,
    deep: bool = False,
    faults: Sequence[Finding] = (),
) -> list[Finding]:
    """Returns a finding for every link of these stages and of all above them, sources first.

    One damage is one broken link, where it is met first; every other link that it breaks is affected by it. `advance` is told what is
    being looked at. With `deep`, every byte is read, whatever is remembered, and every digest and number is computed again. `faults`
    were found before.
    """
    contents: Contents = Revision(project, deep) if project.tree.revision else Workspace(project.tree, deep)
    with closing(contents), ThreadPoolExecutor(1) as aside:
        scene = Scene(project, graph, contents, History(project.tree.revision), deep)
        names = graph.upstream(list(stages))
        advance("reading")
        hashing = aside.submit(contents.prepare, _paths(graph.stages[name] for name in names), lambda: None)
        if deep:  # hashing lets go of the interpreter, so episodes are decoded meanwhile
            scene.reading = aside.submit(lambda: read_cache(scene.store.cache, contents.hashed_files()))
            read_ahead(scene, (graph.stages[name] for name in names))
        hashing.result()
        found = Attribution().sort((*faults, *_findings(scene, names, advance)))
        return [_dated(scene, finding) for finding in (*found, *_remarks(scene, names))]


def _kept(history: History, deep: bool) -> Iterator[Finding]:
    """That git can tell whether records are as they were committed. With `deep`, that it has all of its history, undamaged."""
    link, clone = "history of records", "clone the repository, and audit there"
    fault = history.fault(deep)
    if not history.has(PIPELINE):
        found = f"it could not be looked at, for {fault or 'no commit has this project'}: an edited or removed record would not be noticed"
        yield unknown("", link, (), found=found, mend=clone)
    elif fault:
        yield unknown("", link, (), found=f"not all of it could be looked at, for {fault}", mend=f"'git fsck' tells more; {clone}")
    elif not history.is_whole:
        found = "only that of the commits in this shallow clone was looked at"
        yield note("", link, (), found=found, mend="'git fetch --unshallow' brings the older ones")


def _findings(scene: Scene, names: Sequence[str], advance: Advance) -> Iterator[Finding]:
    for name in names:
        advance(name)
        for check in (*CHECKS, *(DEEP_CHECKS if scene.deep else ())):
            yield from guarded(check, scene, scene.graph.stages[name])
    for name in names if scene.deep else ():
        yield from guarded(check_cache, scene, scene.graph.stages[name])


def guarded(check: Check, scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Passes on what a check finds. What it cannot read, or finds in another form than it should have, is a finding as well."""
    link = check.__name__.removeprefix("check_").replace("_", " ")
    try:
        yield from check(scene, stage)
    except HindcastError as error:
        about = tuple(path for path in (*stage.dependencies, *stage.outputs) if path.startswith(ARTIFACTS))
        yield broken(stage.name, link, (), found=str(error), mend="see there", related=about)
    except UNREADABLE as error:
        found = f"a content that is not what it should be ({type(error).__name__}: {error})"
        yield broken(
            stage.name, link, (), found=found, mend=f"restore its files with 'dvc checkout --force', or run 'dvc repro {stage.name}'"
        )


def _remarks(scene: Scene, names: Sequence[str]) -> Iterator[Finding]:
    """What concerns the project and no one stage."""
    if len(names) == len(scene.graph.stages):
        for ghost in scene.project.ghosts:
            mend = f"'rm {LOCK} && dvc repro' writes it anew, and takes what was run from DVC's cache; or restore its entry in params.yaml"
            found = f"a run of '{ghost}', which dvc.yaml and params.yaml no longer ask for: nothing tells whether it still holds"
            yield unknown("", f"{LOCK} and dvc.yaml", f"{LOCK}/{ghost}", found=found, mend=mend)
        yield from other_records(scene)
        yield from unmade(scene)
        yield from drawing(scene)
        yield from uncommitted_code(scene)
        yield from compiled_beside(scene)
    changed = scene.history.uncommitted()
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        found = f"{', '.join(changed[:3])}{more} {'differs' if len(changed) == 1 else 'differ'} from the last commit"
        yield note("", "what is committed", (), found=found, mend="who has only the commit cannot check what is here: commit it")
    if scene.deep:
        yield from lost_commits(scene, names)
        with suppress(HindcastError):  # DVC's settings cannot be read, which the check of each stage's cache tells
            yield from unreferenced(scene)
    oldest = scene.contents.oldest if isinstance(scene.contents, Workspace) else None
    if oldest is not None:
        found = (
            f"files that look unchanged were not read again; the oldest was read {datetime.fromtimestamp(oldest, UTC):%Y-%m-%d %H:%M} UTC"
        )
        yield note("", "bytes", (), found=found, mend="'hindcast audit --deep' reads all")


def _dated(scene: Scene, finding: Finding) -> Finding:
    if finding.verdict is not Verdict.BROKEN:
        return finding
    stage = scene.graph.stages.get(finding.stage)
    locked = {**stage.locked_hashes("deps"), **stage.locked_hashes("outs")} if stage else {}
    around = [md5 for path, md5 in locked.items() if finding.subject == path or finding.subject.startswith(f"{path}/")]
    since = scene.history.since(finding, around[0] if around else "")
    if since.endswith(BY_LOCK) and finding.subject in scene.history.blobs(finding.subject):  # the file was there before its hash
        mend = f"this commit edited {LOCK}: restore its lines, or run 'dvc repro {finding.stage}'"
        return replace(finding, since=since, mend=mend)
    return replace(finding, since=since)


def _paths(stages: Iterable[Stage]) -> list[str]:
    """All inputs and outputs, each once."""
    return list(dict.fromkeys(path for stage in stages for path in (*stage.dependencies, *stage.outputs)))
