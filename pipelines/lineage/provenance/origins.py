"""What a stage's outputs come from beside other stages: code, parameters, packages, files, environments, policies, runs and commits."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from pipelines.lineage.changes import LOCK_OF_PACKAGES
from pipelines.lineage.provenance.decisions import Decisions
from pipelines.lineage.provenance.model import Draft, Kind, Node, node_id, short_digest
from pipelines.lineage.provenance.stage_facts import POLICY, StageFacts
from pipelines.lineage.records import Record
from pipelines.lineage.stages import is_code
from pipelines.lineage.tracked import tracked
from rl_datasets.errors import HindcastError

_PLUGINS = ("builders", "learners")
_ARTIFACTS = "artifacts/"


def add(draft: Draft, facts: StageFacts, main: str, decisions: Decisions) -> None:
    """Adds the nodes around one stage's outputs, and links `main`, which stands for them, to each."""
    _add_run(draft, facts, main)
    _add_parameters(draft, facts, main, decisions)
    _add_code(draft, facts, main)
    _add_packages(draft, facts, main)
    _add_sources(draft, facts, main)
    _add_environments(draft, facts, main)


def _add_run(draft: Draft, facts: StageFacts, main: str) -> None:
    run = facts.run
    if run is None:
        return
    node = Node(
        node_id(Kind.RUN, run.run_id),
        Kind.RUN,
        f"{run.stage} {run.started[:16].replace('T', ' ')}",
        run.stage,
        (run.path,),
        (run.run_id,),
        {"run": run.run_id},
        _run_details(run),
    )
    draft.link(main, "made in", draft.add(node))
    if run.commit:
        draft.link_commits(node.id, "of changed files over" if run.changed else "at", run.commit)


def _run_details(run: Record) -> dict[str, Any]:
    details = {
        "started by": run.launcher,
        "experiment": run.experiment,
        "began from": run.baseline,
        "started": run.started,
        "ended": run.ended,
        "command": " ".join(run.command),
        "seeds": dict(run.seeds),
        "files that differed from the commit": list(run.changed),
        "digest of the difference": run.difference,
        "files that nobody keeps": list(run.untracked),
        "machine": dict(run.machine),
        "record": run.path,
    }
    return {name: value for name, value in details.items() if value}


def _add_parameters(draft: Draft, facts: StageFacts, main: str, decisions: Decisions) -> None:
    values = facts.stage.locked_parameters()
    if not values:
        return
    name = f"parameters of {facts.stage.name}"
    paths = tuple(f"params.yaml/{key.replace('.', '/')}" for key in values)
    node = Node(
        node_id(Kind.PARAMETERS, facts.stage.name), Kind.PARAMETERS, name, facts.stage.name, ("params.yaml", *paths), (), {}, values
    )
    draft.link(main, "with", draft.add(node))
    draft.link_commits(node.id, "last changed in", *(commit for commit in decisions.of(values) if commit))


def _add_code(draft: Draft, facts: StageFacts, main: str) -> None:
    files = {path: md5 for path, md5 in facts.stage.locked_hashes("deps").items() if is_code(path)}
    if not files:
        return
    plugin = next((PurePosixPath(path).stem for path in files if PurePosixPath(path).parent.name in _PLUGINS), "")
    name = " ".join(part for part in ("code of", facts.stage.name.partition("@")[0], f"({plugin})" if plugin else "") if part)
    digest = short_digest(files)
    node = Node(node_id(Kind.CODE, digest), Kind.CODE, name, facts.stage.name, tuple(files), (), {"all files": digest}, {"files": files})
    draft.link(main, "by", draft.add(node))
    if facts.run is not None and facts.run.commit:
        is_changed = any(path == changed or changed.startswith(f"{path}/") for path in files for changed in facts.run.changed)
        draft.link_commits(node.id, "changed over" if is_changed else "of", facts.run.commit)


def _add_packages(draft: Draft, facts: StageFacts, main: str) -> None:
    """The packages that shaped the bytes, as the manifest has them, and the file that pins all of them where the stage depends on it."""
    packages = facts.packages
    if packages:
        name = ", ".join(f"{package} {version}" for package, version in packages.items())
        node = Node(node_id(Kind.PACKAGES, short_digest(packages)), Kind.PACKAGES, name, "", (), (), {}, dict(packages))
        draft.link(main, "with", draft.add(node))
    locked = facts.stage.locked_hashes("deps").get(LOCK_OF_PACKAGES)
    if locked:
        node = Node(
            node_id(Kind.PACKAGES, f"{LOCK_OF_PACKAGES} {locked}"),
            Kind.PACKAGES,
            LOCK_OF_PACKAGES,
            "",
            (LOCK_OF_PACKAGES,),
            (),
            {"md5": locked},
        )
        draft.link(main, "with", draft.add(node))


def _add_sources(draft: Draft, facts: StageFacts, main: str) -> None:
    """Files of the user's: those that the manifest names, and dependencies that are neither those nor code nor made by a stage."""
    named = {path: digest for path, digest in facts.inputs.items() if not path.startswith(_ARTIFACTS)}
    locked = {
        path: md5
        for path, md5 in facts.stage.locked_hashes("deps").items()
        if not is_code(path) and path != LOCK_OF_PACKAGES and not path.startswith(_ARTIFACTS)
    }
    for path in sorted({*named, *(path for path in locked if not any(name.startswith(f"{path}/") for name in named))}):
        digests = {**({"sha256": named[path]} if path in named else {}), **({"md5": locked[path]} if path in locked else {})}
        node = Node(node_id(Kind.SOURCE, path), Kind.SOURCE, path, "", (path,), (PurePosixPath(path).name,), digests, _origin(facts, path))
        draft.link(main, "read from", draft.add(node))


def _origin(facts: StageFacts, path: str) -> dict[str, Any]:
    """Who keeps a file, and where it was imported from."""
    try:
        found = tracked(facts.tree, path)
    except HindcastError as error:
        return {"kept by": f"a damaged .dvc file: {error}"}
    if found is not None:
        imported = {"address": found.address, "its commit": found.revision, "its path": found.source}
        return {"kept by": f"{found.origin} ({found.file})", **{name: value for name, value in imported.items() if value}}
    keeper = next((entry.keeper for entry in facts.run.inputs if entry.path == path), "") if facts.run else ""
    return {"kept by": keeper} if keeper else {}


def _add_environments(draft: Draft, facts: StageFacts, main: str) -> None:
    """The environment that a data set was collected in, or policies were played in, and the policy that collected."""
    version = {"gymnasium": facts.packages["gymnasium"]} if "gymnasium" in facts.packages else {}
    stated = facts.parameter(f"datasets.{facts.key}").get("options") if facts.stage.name.startswith("collect@") else None
    options: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    how = "collected in" if options else "played in"
    ids = set(_environment_ids(options)) if options else _played_in(facts)
    for env_id in sorted(ids):
        draft.link(main, how, draft.add(Node(node_id(Kind.ENVIRONMENT, env_id), Kind.ENVIRONMENT, env_id, details=version)))
    policy = options.get("policy")
    if isinstance(policy, Mapping) and "kind" in policy:
        node = Node(node_id(Kind.POLICY, short_digest(policy)), Kind.POLICY, policy_name(policy), details=dict(policy))
        draft.link(main, "collected by", draft.add(node))
        for path in _bundles(policy):
            draft.link_path(node.id, "is", path)


def _played_in(facts: StageFacts) -> set[str]:
    """The environment of the policies that an evaluation played, as they state it."""
    if not facts.stage.name.startswith("evaluate@") or not facts.is_played:
        return set()
    folders = [path for path in facts.inputs if "/policies/" in path]
    return {str(found) for found in _environment_ids(facts.json(f"{folders[0]}/{POLICY}").get("spec", {}))} if folders else set()


def _environment_ids(values: Any) -> Iterator[str]:
    """Every `env_id` in a mapping, however deep."""
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if name == "env_id" and isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _environment_ids(value)


def policy_name(policy: Any) -> str:
    """A behaviour policy, as params.yaml writes it, in a few words."""
    if not isinstance(policy, Mapping):
        return "unknown"
    match policy.get("kind"):
        case "scripted":
            return str(policy.get("name"))
        case "bundle":
            return f"policy {policy.get('path')}"
        case "epsilon":
            return f"{policy_name(policy.get('base'))}, epsilon {policy.get('epsilon')}"
        case "noise":
            return f"{policy_name(policy.get('base'))}, noise {policy.get('std')}"
        case "mixture":
            parts = policy.get("parts")
            found = [part.get("policy") for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
            return f"mixture of {'; '.join(map(policy_name, found))}"
    return str(policy.get("kind"))


def _bundles(policy: Any) -> Iterator[str]:
    """The paths of trained policies in the definition of a policy."""
    if isinstance(policy, Mapping):
        if policy.get("kind") == "bundle":
            yield str(policy.get("path"))
        for value in policy.values():
            yield from _bundles(value)
    elif isinstance(policy, list):
        for value in policy:
            yield from _bundles(value)
