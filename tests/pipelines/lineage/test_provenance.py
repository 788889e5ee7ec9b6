"""Lineage on a small project with a history: what stands behind a number, in every form, at any revision and in a bare clone."""

import json
import re
from datetime import datetime
from importlib import import_module

import pytest
from openlineage.client.event_v2 import InputDataset, Job, JobEvent, OutputDataset
from prov.model import ProvAgent, ProvDerivation, ProvDocument
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.graph import Graph
from pipelines.lineage.provenance.faults import with_findings
from pipelines.lineage.provenance.model import Draft, Fault, Kind, Link, Node, Provenance
from pipelines.lineage.provenance.origins import policy_name
from pipelines.lineage.provenance.prov_form import as_prov, prov_document
from pipelines.lineage.provenance.target import provenance_of
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import GitTree, WorkingTree
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import copy, git

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie
ADA = "person:Ada <ada@localhost>"


@pytest.fixture
def inside(history, monkeypatch):
    monkeypatch.chdir(history.root)
    return history


def lineage(target: str, down: bool = False, revision: str = "") -> Provenance:
    tree = GitTree(revision) if revision else WorkingTree()
    project = read_project(tree)
    found = provenance_of(project, Graph(project.stages), target, down)
    if isinstance(tree, GitTree):
        tree.close()
    return found


def made(graph: Provenance) -> set[str]:
    return {name for name in graph.nodes if not name.startswith(("code:", "commit:", "packages:"))}


def test_a_number_is_followed_to_its_sources_and_to_the_people_behind_them(inside):
    graph = lineage("walks_iql:iqm")
    assert made(graph) == {
        "metric:walks_iql:iqm", "evaluation:walks_iql", "model:walks_iql/seed_0", "training:walks_iql", "split:walks", "data set:walks",
        "source file:data/walks.csv", "parameters:collect@walks", "parameters:split@walks", "parameters:train@walks_iql", ADA,
    }  # fmt: skip
    assert graph.nodes["metric:walks_iql:iqm"].details["value"] == 2 * (3 + 9 + 32)
    assert Link("training:walks_iql", "split:walks", "trained on") in graph.links
    assert Link("evaluation:walks_iql", "model:walks_iql/seed_0", "played") in graph.links
    assert Link("data set:walks", "source file:data/walks.csv", "read from") in graph.links
    assert Link("parameters:train@walks_iql", f"commit:{inside.tuned}", "last changed in") in graph.links
    assert Link(f"commit:{inside.tuned}", ADA, "by") in graph.links
    assert graph.nodes[f"commit:{inside.tuned}"].details["message"] == "Tune the learner"
    assert graph.nodes["parameters:train@walks_iql"].details["learners.iql.small"]["expectile"] == 2
    assert graph.nodes["training:walks_iql"].details["made"] == "no record of a run"
    code = {node.name for node in graph.nodes.values() if node.kind is Kind.CODE}
    assert {"code of collect", "code of train"} <= code


def test_an_older_revision_is_read_from_the_cache(inside):
    graph = lineage("walks_iql:iqm", revision=inside.first)
    assert graph.nodes["metric:walks_iql:iqm"].details["value"] == 0.5 * (3 + 8)
    assert graph.nodes["parameters:train@walks_iql"].details["learners.iql.small"]["expectile"] == 0.5
    assert [link.source for link in graph.links if link.made == "parameters:train@walks_iql"] == [f"commit:{inside.first}"]


@pytest.mark.parametrize(
    ("target", "down", "found"),
    [
        ("walks", False, "data set:walks"),
        ("walks 1.0.0", False, "data set:walks"),
        ("collect@walks", False, "data set:walks"),
        ("split@walks", False, "split:walks"),
        ("walks_iql", False, "evaluation:walks_iql"),
        ("walks_iql", True, "training:walks_iql"),
        ("train@walks_iql", False, "training:walks_iql"),
        ("walks_iql/seed_0", False, "model:walks_iql/seed_0"),
        ("walks_iql:return_mean", False, "metric:walks_iql:return_mean"),
        ("walks_iql:iqm_low", False, "metric:walks_iql:iqm_low"),
        ("artifacts/raw/walks/1.0.0/steps.csv", False, "data set:walks"),
        ("./artifacts/models/walks_iql/policies/seed_0", False, "model:walks_iql/seed_0"),
        ("artifacts/evals", False, "evaluation:walks_iql"),
        ("data/walks.csv", True, "source file:data/walks.csv"),
        (ADA, True, ADA),
    ],
)
def test_a_target_is_found_by_any_of_its_names(inside, target, down, found):
    assert lineage(target, down).targets == (found,)


def test_code_a_commit_and_a_digest_are_targets_too(inside):
    assert {node.kind for node in map(lineage("make.py").nodes.get, lineage("make.py").targets)} == {Kind.CODE}
    assert "metric:walks_iql:iqm" in lineage("trainer/iql.py", down=True).nodes
    assert "data set:walks" not in lineage("trainer/iql.py", down=True).nodes
    assert lineage(inside.tuned[:9], down=True).targets == (f"commit:{inside.tuned}",)
    digest = lineage("walks").nodes["data set:walks"].digests["content"]
    assert lineage(digest[:10]).targets == ("data set:walks",)
    assert len(lineage("params.yaml", down=True).targets) == 3


@pytest.mark.parametrize("target", ["walk", "walks_iql:no_such", "walks_iql/seed_7", "artifacts/raw/walks/1.0.0/none.csv", "README.md"])
def test_what_is_not_there_is_said_with_what_is_near(inside, target):
    with pytest.raises(HindcastError, match=rf"'{re.escape(target)}' is no data set, split.* of this project\. (Nearest|Known): .*walks"):
        lineage(target)
    with pytest.raises(HindcastError, match=r"is no path inside the project"):
        lineage("../elsewhere")


def test_downstream_is_what_was_made_and_nothing_else(inside):
    graph = lineage("data/walks.csv", down=True)
    assert set(graph.nodes) == {
        "source file:data/walks.csv", "data set:walks", "split:walks", "training:walks_iql", "model:walks_iql/seed_0",
        "evaluation:walks_iql", "metric:walks_iql:iqm", "metric:walks_iql:return_mean",
    }  # fmt: skip


def test_text_names_each_thing_once(inside):
    text = run("walks_iql:iqm").splitlines()
    assert text[0] == "metric walks_iql:iqm"
    assert "├── value = 88.0" in text
    assert sum("split from data set walks" in line for line in text) == 1
    assert any("learners.iql.small = " in line and '"expectile": 2' in line for line in text)
    down = run("walks", "--down").splitlines()
    assert next(line.lstrip(" └─") for line in down if "trained on it" in line).startswith("training walks_iql")
    assert all(line == line.rstrip() for line in text)
    assert len(run("walks_iql", "--verbose")) > len(run("walks_iql"))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["lineage", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("style", ["text", "json", "openlineage", "prov", "html"])
def test_equal_projects_give_equal_bytes_in_every_form(inside, style, tmp_path):
    for name in ("one", "two"):
        run("walks_iql", "--format", style, "--out", str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() != b"\n"


def test_a_form_that_does_not_exist_is_refused(inside):
    with pytest.raises(
        HindcastError, match=r"--format xml is none of the forms of lineage\. Use one of: text, json, html, openlineage, prov"
    ):
        run("walks", "--format", "xml")


def test_prov_is_read_by_its_own_library(inside):
    graph = lineage("walks_iql:iqm")
    document = ProvDocument.deserialize(content=as_prov(graph), format="json")
    assert document == prov_document(graph)
    assert document.get_provn().startswith("document")
    assert [str(agent.label) for agent in document.get_records(ProvAgent)] == ["Ada <ada@localhost>"]
    derivations = {tuple(str(end.localpart) for end in record.args[:2]) for record in document.get_records(ProvDerivation)}
    assert ("training%3Awalks_iql", "split%3Awalks") in derivations


def test_openlineage_takes_stages_without_a_record(inside):
    events = json.loads(run("walks_iql", "--format", "openlineage"))
    assert [event["job"]["name"] for event in events] == ["collect@walks", "split@walks", "train@walks_iql", "evaluate@walks_iql"]
    job_type = import_module("openlineage.client.generated.job_type_job").JobTypeJobFacet
    for event in events:
        assert datetime.fromisoformat(event["eventTime"]).year == 1970
        facet = {name: value for name, value in event["job"]["facets"]["jobType"].items() if not name.startswith("_")}
        built = JobEvent(
            eventTime=event["eventTime"],
            producer=event["producer"],
            job=Job(event["job"]["namespace"], event["job"]["name"], {"jobType": job_type(**facet)}),
            inputs=[InputDataset(entry["namespace"], entry["name"]) for entry in event["inputs"]],
            outputs=[OutputDataset(entry["namespace"], entry["name"]) for entry in event["outputs"]],
        )
        assert built.schemaURL == event["schemaURL"]
    assert [entry["name"] for entry in events[2]["inputs"]] == ["artifacts/splits/walks/1.0.0", "artifacts/splits/walks"][1:]


def test_a_bare_clone_tells_what_git_holds(history, tmp_path, monkeypatch):
    git("clone", "-q", "--bare", str(history.root), str(tmp_path / "bare.git"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    text = run("walks_iql:iqm")
    assert "metric walks_iql:iqm" in text
    assert "data set walks" in text
    assert "here = no: dvc pull brings it, and what its manifest says" in text
    assert f"commit {history.tuned[:10]}" in text


def test_findings_stand_at_what_they_are_about(inside, tmp_path):
    class Found:
        def __init__(self, stage: str, subject: str, verdict: str = "broken"):
            self.stage, self.subject, self.verdict, self.link, self.detail = stage, subject, verdict, "link", "why"

    def at(*found: Found) -> dict[str, list[str]]:
        graph = with_findings(lineage("walks_iql:iqm"), found)
        return {name: [fault.verdict for fault in node.faults] for name, node in graph.nodes.items() if node.faults}

    assert at(Found("split@walks", "artifacts/splits/walks/1.0.0/episodes.csv")) == {"split:walks": ["broken"]}
    assert at(Found("train@walks_iql", "params.yaml/learners/iql/small")) == {"parameters:train@walks_iql": ["broken"]}
    assert at(Found("evaluate@walks_iql", "")) == {"evaluation:walks_iql": ["broken"]}
    assert at(Found("", "dvc.lock/split@walks", "cannot tell")) == {"split:walks": ["cannot tell"]}
    assert at(Found("collect@walks", "data/walks.csv", "affected")) == {"source file:data/walks.csv": ["affected"]}
    assert at(Found("train@walks_iql", "artifacts/models/walks_iql/policies/seed_0")) == {"model:walks_iql/seed_0": ["broken"]}
    assert at(Found("split@walks", "", "holds"), Found("split@walks", "", "note"), Found("report", "")) == {}


def test_a_draft_drops_links_to_nowhere_and_finds_the_innermost_path():
    draft = Draft()
    for name, paths in (("outer", ("out",)), ("inner", ("out/model",)), ("made", ())):
        draft.add(Node(name, Kind.ARTIFACT, name, paths=paths))
    draft.add(Node("inner", Kind.ARTIFACT, "a second word on it"))
    draft.link("made", "by", "nobody", "made")
    draft.link_path("made", "is", "out/model/seed_0")
    graph = draft.finish()
    assert graph.links == (Link("made", "inner", "is"),)
    assert graph.nodes["inner"].name == "inner"
    assert graph.with_faults({"made": [Fault("broken", "it", "why")]}).nodes["made"].faults == (Fault("broken", "it", "why"),)


def test_a_behaviour_policy_is_named_in_a_few_words():
    noisy = {"kind": "noise", "std": 0.5, "base": {"kind": "scripted", "name": "pendulum_swing_up"}}
    mixture = {"kind": "mixture", "parts": [{"weight": 1, "policy": {"kind": "random"}}, {"weight": 1, "policy": noisy}]}
    assert policy_name(mixture) == "mixture of random; pendulum_swing_up, noise 0.5"
    assert policy_name({"kind": "epsilon", "epsilon": 0.1, "base": {"kind": "bundle", "path": "a/b"}}) == "policy a/b, epsilon 0.1"
    assert policy_name({"kind": "noise"}) == "unknown, noise None"


def test_the_page_holds_the_graph_and_no_name_ends_its_script(history, tmp_path, monkeypatch):
    own = copy(history, tmp_path / "own")
    monkeypatch.chdir(own.root)
    params = own.root / "params.yaml"
    params.write_text(params.read_text().replace("expectile: 2", "expectile:  2"))
    git("commit", "-qam", "</script><script>alert(1)</script>", root=own.root)
    run("walks_iql", "--format", "html", "--out", "page.html")
    page = (own.root / "page.html").read_text()
    assert page.count("</script>") == 2
    values = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page).group(1))
    assert {node["details"].get("message") for node in values["nodes"]} >= {"</script><script>alert(1)</script>"}
    assert "data set:walks" in {node["id"] for node in values["nodes"]}
