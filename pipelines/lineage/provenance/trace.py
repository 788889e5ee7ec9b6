"""Puts the graph together: every stage's artifacts, and what dvc.lock, manifests, records and git say that they were made from."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from pipelines.lineage.graph import Graph
from pipelines.lineage.provenance import origins
from pipelines.lineage.provenance.decisions import Decisions, authors
from pipelines.lineage.provenance.model import Draft, Kind, Node, Provenance, node_id
from pipelines.lineage.provenance.stage_facts import METRICS, POLICY, StageFacts
from pipelines.lineage.records import Record, read_records
from pipelines.lineage.stages import Project
from pipelines.lineage.store import Store
from rl_datasets.errors import HindcastError

KINDS = {
    "collect": Kind.DATASET,
    "check": Kind.CHECK,
    "split": Kind.SPLIT,
    "train": Kind.TRAINING,
    "evaluate": Kind.EVALUATION,
    "report": Kind.REPORT,
}
HOW = {
    (Kind.DATASET, Kind.DATASET): "derived from",
    (Kind.CHECK, Kind.DATASET): "checked",
    (Kind.SPLIT, Kind.DATASET): "split from",
    (Kind.SPLIT, Kind.CHECK): "let through by",
    (Kind.TRAINING, Kind.SPLIT): "trained on",
    (Kind.EVALUATION, Kind.TRAINING): "played policies of",
    (Kind.EVALUATION, Kind.SPLIT): "compared with the returns of",
}
SHOWN_METRICS = ("return_mean", "iqm", "normalized_score", "fitted_q_value")  # of every evaluation; any other where it is asked for


def trace(project: Project, graph: Graph, stages: Iterable[str], metric: str = "") -> Provenance:
    """Returns the graph of these stages, with nodes of `metric` beside the usual ones of each evaluation."""
    names = list(stages)
    store, records = Store(project), _records(project, names)
    facts = {name: StageFacts(graph.stages[name], store, project.tree, tuple(records[name])) for name in names}
    draft, decisions = Draft(), Decisions(project.tree)
    for name in names:
        main = _main(draft, facts[name])
        kind = kind_of(name)
        for parent in (parent for parent in graph.parents(name) if parent in facts):
            _link_parent(draft, main, kind, facts[name], facts[parent])
        _parts(draft, facts[name], main, metric)
        origins.add(draft, facts[name], main, decisions)
    _add_people(draft)
    return draft.finish()


def kind_of(stage: str) -> Kind:
    return KINDS.get(stage.partition("@")[0], Kind.ARTIFACT)


def main_id(stage: str) -> str:
    """The id of the node that stands for all outputs of a stage."""
    kind = kind_of(stage)
    return node_id(kind, stage if kind is Kind.ARTIFACT else stage.partition("@")[2] or stage)


def _records(project: Project, stages: list[str]) -> dict[str, list[Record]]:
    """A damaged record says nothing here; the audit names it."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in read_records(project.tree) if len(stages) > 1 else read_records(project.tree, stages[0] if stages else ""):
        if not isinstance(record, HindcastError):
            found[record.stage].append(record)
    return found


def _main(draft: Draft, facts: StageFacts) -> str:
    stage, manifest = facts.stage, facts.manifest
    locked = stage.locked_hashes("outs")
    digests = {"content": str(manifest["digest"])} if "digest" in manifest else {}
    digests |= {f"md5 of {path}" if len(locked) > 1 else "md5": md5 for path, md5 in locked.items()}
    details: dict[str, Any] = {"stage": stage.name, "command": stage.command, "made": facts.made}
    details |= {name: manifest[name] for name in ("counts", "notes") if manifest.get(name)}
    version = _version(facts)
    if version:
        details["version"] = version
    if stage.locked is not None and not facts.manifest_path and kind_of(stage.name) not in (Kind.REPORT, Kind.ARTIFACT):
        details["here"] = "no: dvc pull brings it, and what its manifest says"
    folder = PurePosixPath(facts.manifest_path).parent.as_posix() if facts.manifest_path else ""
    paths = tuple(sorted({*stage.outputs, *([folder] if folder else [])}))
    aliases = (stage.name, f"{facts.key} {version}", f"{facts.key}@{version}") if version else (stage.name,)
    kind = kind_of(stage.name)
    name = stage.name if kind is Kind.ARTIFACT else facts.key
    return draft.add(Node(main_id(stage.name), kind, name, stage.name, paths, aliases, digests, details))


def _version(facts: StageFacts) -> str:
    """Of a data set or what is made of one; "" of anything else."""
    if kind_of(facts.stage.name) not in (Kind.DATASET, Kind.SPLIT):
        return ""
    stated = facts.stage.locked_parameters().get(f"datasets.{facts.key}.version")
    return str(stated or facts.parameter(f"datasets.{facts.key}").get("version") or "")


def _link_parent(draft: Draft, main: str, kind: Kind, facts: StageFacts, parent: StageFacts) -> None:
    above = kind_of(parent.stage.name)
    models = [_model_id(parent.key, seed) for seed in _seeds(parent)]
    if kind is Kind.EVALUATION and above is Kind.TRAINING and models:
        draft.link(main, "played" if facts.is_played else "valued", *models)
    elif kind is Kind.REPORT and above is Kind.EVALUATION and (metrics := _metrics(parent, "")):
        draft.link(main, "shows", *(node_id(Kind.METRIC, f"{parent.key}:{name}") for name in metrics))
    else:
        draft.link(main, HOW.get((kind, above), "made from"), main_id(parent.stage.name))


def _parts(draft: Draft, facts: StageFacts, main: str, metric: str) -> None:
    """The nodes inside a stage's outputs: the model of each seed, the numbers of an evaluation."""
    kind = kind_of(facts.stage.name)
    if kind is Kind.TRAINING:
        for seed in _seeds(facts):
            draft.link(draft.add(_model(facts, seed)), "learnt in", main)
    elif kind is Kind.EVALUATION:
        for name, value in _metrics(facts, metric).items():
            path = next((path for path in facts.stage.outputs if PurePosixPath(path).name == METRICS), "")
            details = {"value": value, "in": path, "stage": facts.stage.name}
            full = f"{facts.key}:{name}"
            draft.link(
                draft.add(Node(node_id(Kind.METRIC, full), Kind.METRIC, full, facts.stage.name, details=details)), "computed from", main
            )


def _seeds(facts: StageFacts) -> list[str]:
    """The seeds whose policies a training stage wrote, as its listing has them; where that is not here, as its parameters ask for them."""
    listed = {part for path in facts.files for part in path.split("/") if part.startswith("seed_") and "/policies/" in path}
    if listed:
        return sorted(listed, key=lambda name: (len(name), name))
    seeds = facts.parameter(f"experiments.{facts.key}.train").get("seeds")
    return [f"seed_{seed}" for seed in seeds] if isinstance(seeds, list) else []


def _model_id(key: str, seed: str) -> str:
    return node_id(Kind.MODEL, f"{key}/{seed}")


def _model(facts: StageFacts, seed: str) -> Node:
    folder = next((path.rpartition("/")[0] for path in facts.files if path.endswith(f"/{seed}/{POLICY}")), "")
    bundle = facts.json(f"{folder}/{POLICY}") if folder else {}
    digests = {"content": str(bundle["digest"])} if "digest" in bundle else {}
    details = {name: bundle[name] for name in ("algorithm", "seed", "updates", "dataset", "packages") if name in bundle}
    name = f"{facts.key}/{seed}"
    return Node(_model_id(facts.key, seed), Kind.MODEL, name, facts.stage.name, (folder,) if folder else (), (), digests, details)


def _metrics(facts: StageFacts, metric: str) -> dict[str, Any]:
    """Returns the numbers to show by name; the one that was asked for as None where metrics.json is not here."""
    path = next((path for path in facts.stage.outputs if PurePosixPath(path).name == METRICS), "")
    values = facts.json(path)
    shown = {name: values[name] for name in (*SHOWN_METRICS, metric) if values.get(name) is not None}
    return shown if values or not metric or not path else {metric: None}


def _add_people(draft: Draft) -> None:
    """The people behind the commits that are in the graph."""
    for name, details in authors(draft.commits).items():
        node = Node(node_id(Kind.COMMIT, name), Kind.COMMIT, name[:10], aliases=(name,), digests={"commit": name}, details=details)
        person = Node(node_id(Kind.PERSON, details["author"]), Kind.PERSON, details["author"])
        draft.link(draft.add(node), "by", draft.add(person))
