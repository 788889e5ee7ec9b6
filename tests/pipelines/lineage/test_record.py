"""Records of stage executions: what they say, that OpenLineage's own classes take them, and that no fault of theirs touches a run."""

import json
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path

import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

from pipelines.lineage.hashing import Hasher
from pipelines.lineage.record import recording
from pipelines.lineage.records import Launcher, made_by, parse_record, read_records, records_of
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Input, Manifest, write_manifest

PIPELINE = """stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python make.py ${key}
      deps: [make.py, pipelines, data]
      params:
        - datasets.${key}
      outs:
        - artifacts/raw/${key}
"""
ENVIRONMENT = ("DVC_STAGE", "DVC_ROOT", "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV", "OPENLINEAGE_URL", "OPENLINEAGE_API_KEY")
CLASSES = {
    "processing_engine": ("processing_engine_run", "ProcessingEngineRunFacet"),
    "errorMessage": ("error_message_run", "ErrorMessageRunFacet"),
    "jobType": ("job_type_job", "JobTypeJobFacet"),
    "version": ("dataset_version_dataset", "DatasetVersionDatasetFacet"),
    "outputStatistics": ("output_statistics_output_dataset", "OutputStatisticsOutputDatasetFacet"),
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A git checkout of one stage, clean but for a file of code and one of data that nobody keeps."""
    monkeypatch.chdir(tmp_path)
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    files = {
        "dvc.yaml": PIPELINE,
        "params.yaml": "datasets: {one: {seed: 3, policy: {seeds: [1, 2]}}}\n",
        "make.py": "1",
        "data/kept.csv": "k",
    }
    for path, text in {**files, "pipelines/a.py": "2", ".gitignore": "__pycache__\nartifacts\n*.csv\n"}.items():
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(text)
    git("init", "-q")
    git("add", "--force", ".")
    git("commit", "-qm", "first")
    Path("pipelines/new.py").write_text("3")
    Path("data/loose.csv").write_text("loose")
    Path("pipelines/__pycache__").mkdir()
    Path("pipelines/__pycache__/a.pyc").write_text("compiled")
    write_manifest(made(), Manifest("collect@one", "abc", {}, (Input("kept", "data/kept.csv", "def"),), {"transitions": 7}))
    return tmp_path


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def made() -> Path:
    folder = Path("artifacts/raw/one/1.0.0")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_collect(error: BaseException | None = None) -> None:
    with recording("collect@one") as outcome:
        if error:
            raise error
        outcome.written.append(made())


def the_event() -> dict:
    (path,) = Path("artifacts/records/collect@one").glob("*.json")
    return json.loads(path.read_text())


def validate(event: dict) -> None:
    """Builds the event from OpenLineage's classes, which refuse what the specification does not have."""

    def facet(name: str, values: dict) -> object:
        given = {key: value for key, value in values.items() if not key.startswith("_")}
        assert values["_producer"].startswith("urn:hindcast")
        if name not in CLASSES:
            assert name.startswith("hindcast_")
            assert re.fullmatch(r"https://openlineage\.io/spec/2-0-2/OpenLineage\.json#/\$defs/\w+Facet", values["_schemaURL"])
            return None
        module, kind = CLASSES[name]
        built = getattr(import_module(f"openlineage.client.generated.{module}"), kind)(**given)
        assert built._get_schema() == values["_schemaURL"]
        return built

    def facets(values: dict) -> dict:
        return {name: built for name, value in values.items() if (built := facet(name, value))}

    run = Run(event["run"]["runId"], facets(event["run"]["facets"]))
    job = Job(event["job"]["namespace"], event["job"]["name"], facets(event["job"]["facets"]))
    inputs = [InputDataset(entry["namespace"], entry["name"], facets=facets(entry["facets"])) for entry in event["inputs"]]
    outputs = [
        OutputDataset(entry["namespace"], entry["name"], facets(entry["outputFacets"]), facets=facets(entry["facets"]))
        for entry in event["outputs"]
    ]
    times = {"eventTime": event["eventTime"], "eventType": RunState(event["eventType"]), "producer": event["producer"]}
    assert RunEvent(run=run, job=job, inputs=inputs, outputs=outputs, **times).schemaURL == event["schemaURL"]


def test_a_file_is_told_without_what_others_wrote_beside_it(project):
    folder = Path("artifacts/combine/all")
    folder.mkdir(parents=True)
    (folder / "other.json").write_text("another stage's")
    with recording("combine@one") as outcome:
        (folder / "one.json").write_text("its own")
        outcome.written.append(folder / "one.json")
    (record,) = records_of(WorkingTree(), "combine@one")
    (output,) = record.outputs
    assert (output.path, output.files) == (folder.as_posix(), {"one.json": Hasher()((folder / "one.json").as_posix())})


def test_a_record_says_what_was_run_on_what(project):
    Path("make.py").write_text("changed")
    run_collect()
    validate(the_event())
    (record,) = records_of(WorkingTree(), "collect@one")
    assert (record.outcome, record.stage, record.error, record.is_intact) == ("COMPLETE", "collect@one", "", True)
    assert (record.commit, record.is_dirty, record.changed) == (git("rev-parse", "HEAD"), True, ("make.py",))
    assert record.untracked == ("pipelines/new.py", "data/loose.csv")
    assert record.parameters == {"datasets.one": {"seed": 3, "policy": {"seeds": [1, 2]}}}
    assert record.seeds == {"datasets.one.seed": 3, "datasets.one.policy.seeds": [1, 2]}
    assert record.code == {path: Hasher()(path) for path in ("make.py", "pipelines")} | {"pipelines": record.code["pipelines"]}
    assert {entry.path: entry.keeper for entry in record.inputs} == {"data": "git", "data/loose.csv": "nobody", "data/kept.csv": "dvc"}
    assert record.packages["numpy"].count(".") == 2
    assert record.machine["cores"] >= 1
    (output,) = record.outputs
    assert (output.path, output.digest) == ("artifacts/raw/one/1.0.0", "abc")
    assert output.files == {"manifest.json": Hasher()("artifacts/raw/one/1.0.0/manifest.json")}
    assert made_by([record], output.path, "manifest.json", output.files["manifest.json"]) is record
    assert made_by([record], output.path, "manifest.json", "other") is None
    assert the_event()["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7


@pytest.mark.parametrize(("error", "outcome"), [(ValueError("no luck"), "FAIL"), (KeyboardInterrupt(), "ABORT"), (SystemExit(1), "ABORT")])
def test_a_run_that_ends_early_is_recorded(project, error, outcome):
    with pytest.raises(type(error)):
        run_collect(error)
    validate(the_event())
    (record,) = records_of(WorkingTree(), "collect@one")
    assert record.outcome == outcome
    assert type(error).__name__ in record.error
    assert record.parameters["datasets.one"]["seed"] == 3
    assert made_by([record], "artifacts/raw/one/1.0.0", "manifest.json", "") is None


def test_who_started_a_stage_is_told_apart(project, monkeypatch):
    def launched(**variables: str) -> tuple[str, str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run_collect()
        newest = max(records_of(WorkingTree(), "collect@one"), key=lambda record: record.ended)
        return newest.launcher, newest.experiment

    assert launched() == (Launcher.HAND, "")
    assert launched(DVC_STAGE="report") == (Launcher.HAND, "")  # from a shell that another stage opened
    assert launched(DVC_STAGE="collect@one", DVC_ROOT=str(project)) == (Launcher.REPRO, "")
    assert launched(DVC_EXP_NAME="brisk-owl", DVC_EXP_BASELINE_REV="0123") == (Launcher.EXPERIMENT, "brisk-owl")
    elsewhere = project / "elsewhere"  # a temporary copy of the project leaves its records in the project
    monkeypatch.setenv("DVC_ROOT", str(elsewhere))
    run_collect()
    assert len(list(elsewhere.glob("artifacts/records/collect@one/*.json"))) == 1


def test_a_record_that_was_changed_moved_or_cut_is_noticed(project):
    run_collect()
    (path,) = Path("artifacts/records/collect@one").glob("*.json")
    text = path.read_text()
    assert not parse_record(path.as_posix(), text.replace('"seed": 3', '"seed": 4').encode()).is_intact
    assert not parse_record(path.as_posix().replace("@one", "@two"), text.encode()).is_intact
    assert not parse_record(path.as_posix().replace(path.stem, "20200101T000000-00000000"), text.encode()).is_intact
    assert parse_record(path.as_posix(), text.encode()).is_intact
    with pytest.raises(HindcastError, match=r"is no record of this version .*Restore it with 'git checkout artifacts/records"):
        parse_record(path.as_posix(), text[: len(text) // 2].encode())
    path.write_text("{}")
    assert [type(found) for found in read_records(WorkingTree())] == [HindcastError]


def test_a_run_goes_on_where_no_record_can_be_kept(project, capsys, monkeypatch):
    Path("artifacts/records").write_text("a file in its place")
    run_collect()
    assert capsys.readouterr().err.startswith("No record of this run was kept: Could not write artifacts/records/collect@one/")
    Path("artifacts/records").unlink()
    Path("params.yaml").write_text("<<<<<<< ours\n")
    monkeypatch.setenv("PATH", "")  # no git
    run_collect()
    (record,) = records_of(WorkingTree(), "collect@one")
    assert (record.commit, record.difference, record.parameters, dict(record.code)) == ("", "", {}, {})


class Endpoint(BaseHTTPRequestHandler):
    received: list[tuple[str, str, dict]]
    seconds: float

    def do_POST(self):
        time.sleep(self.seconds)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint(monkeypatch):
    handler = type("Handler", (Endpoint,), {"received": [], "seconds": 0})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_are_sent_where_openlineage_url_says(project, endpoint, monkeypatch, capsys):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")
    run_collect()
    (first, second) = endpoint.received
    assert first[:2] == second[:2] == ("/api/v1/lineage", "Bearer secret")
    assert (first[2]["eventType"], second[2]) == ("START", the_event())
    assert first[2]["run"]["runId"] == second[2]["run"]["runId"]
    validate(first[2])
    assert "secret" not in json.dumps([first[2], second[2]]) + capsys.readouterr().err


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "ftp://127.0.0.1", "nonsense", "slow"])
def test_a_run_does_not_wait_for_an_endpoint_that_is_away(project, endpoint, address, monkeypatch, capsys):
    endpoint.seconds = 0.5
    monkeypatch.setattr("pipelines.lineage.openlineage.TIMEOUT", 0.1)
    if address != "slow":
        monkeypatch.setenv("OPENLINEAGE_URL", address)
    run_collect()
    assert the_event()["eventType"] == "COMPLETE"
    assert capsys.readouterr().err.count("The record was not sent to OPENLINEAGE_URL") == 2
