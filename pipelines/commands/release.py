"""`hindcast release`: a git tag for a model or a data set, only when the audit of all that made it is clean."""

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from pipelines.commands.telling import tell
from pipelines.lineage import release, released
from pipelines.lineage.audit import Finding, audit_project
from pipelines.lineage.stages import PIPELINE, read_project
from pipelines.lineage.tree import WorkingTree, git


def run(name: str, version: str, console: Console) -> str:
    """Returns the tag. Raises HindcastError where something is not committed, the audit is not clean, or the version is taken.

    Where dvc.yaml does not name the artifact yet, its entry there is committed first, and that commit is tagged.
    """
    project = read_project(WorkingTree())
    artifact = released.artifact_of(project, name)
    chosen = release.next_version(artifact, project, version, released.released_versions(name))
    release.require_committed()
    findings = _findings(_audited(name, artifact.stage.name, list(project.stages)), console)
    release.require_clean(findings)
    declared = release.declare(artifact)
    if declared:
        git("commit", "--quiet", "--message", f"Name {name} as an artifact", "--", PIPELINE, otherwise=f"{PIPELINE} cannot be committed")
    message = release.tag_message(project, artifact, chosen, findings, git("rev-parse", "HEAD").strip())
    tag = released.tag_name(name, chosen)
    git("tag", "--annotate", "--cleanup=verbatim", "--message", message, tag, otherwise=f"'{tag}' cannot be made")
    tell(
        console,
        [
            *([f"Committed its entry under 'artifacts' of {PIPELINE}."] if declared else []),
            f"{tag}: {len(findings)} links hold. 'git show {tag}' shows what it says.",
            "Hand it on with:",
            f"  git push --follow-tags && dvc push {artifact.path}",
            f"  dvc artifacts get REPOSITORY {name} --rev {chosen}",
        ],
    )
    return tag


def _findings(target: str, console: Console) -> list[Finding]:
    spinner = Progress(SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal)
    with spinner:
        task = spinner.add_task("audit")
        return audit_project(target, advance=lambda what: spinner.update(task, description=what), deep=True)


def _audited(name: str, stage: str, stages: list[str]) -> str:
    """What the audit looks at: a model with its evaluation, a data set up to its split; not what was made of it."""
    evaluation = f"evaluate@{name}"
    return evaluation if stage.startswith("train@") and evaluation in stages else stage
