"""The how-to pages, followed on a small project that the real stages made: each command does what its page says."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.outcomes import episode_table
from pipelines.lineage.stages import read_project
from pipelines.lineage.store import Store
from pipelines.lineage.tree import WorkingTree
from tests.pipelines.audit.small_project import commit, commit_to_dvc, git, order, run_stage

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning", "ignore::ResourceWarning")]
PAGES = Path(__file__).parents[3] / "docs/how-to"
NAMES = {"EXPERIMENT": "carts_bc", "DATASET": "carts", "REV": "HEAD~1"}
ANSWERS = {  # what the answer to each question says of this project, and its exit code
    1: ("holds", 0),
    2: ("carts_bc", 0),
    3: ("train@carts_bc was made from split@carts", 1),
    4: ("train@carts_bc would not run", 0),
    5: ("dataset", 0),
    6: ("evaluate@carts_bc was run for the first time: IQM", 0),
    7: ("holds", 0),
    8: ("collect@carts 1.0.0 was run for the first time", 0),
    9: ("holds", 0),
    10: ("Hindcast-Audit: holds", 0),
}


@pytest.fixture
def project(real_project: Path, tmp_path, monkeypatch) -> Path:
    """A copy, to be changed."""
    root = tmp_path / "project"
    shutil.copytree(real_project, root, symlinks=True)
    monkeypatch.chdir(root)
    for key, value in (("user.name", "Ada"), ("user.email", "ada@localhost")):
        git("config", key, value)
    return root


def console_blocks(page: str) -> list[list[str]]:
    """The commands of each console block."""
    blocks = re.findall(r"```console\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    return [re.findall(r"^\$ (.*)$", block, re.MULTILINE) for block in blocks]


def hindcast(command: str) -> tuple[str, int]:
    name, *arguments = command.split()
    assert name == "hindcast"
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), f"{command}: {result.exception}"
    return result.output, result.exit_code


def test_an_auditor_gets_ten_answers(project: Path, tmp_path):
    text = (PAGES / "answer-an-auditor.md").read_text(encoding="utf-8")
    questions = re.findall(r"^\*\*(\d+)\. .*?```console\n\$ (.*?)\n```", text, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in questions] == list(ANSWERS)
    settings = Path(".dvc/config").read_text().replace("[core]\n", "[core]\n    remote = store\n")
    Path(".dvc/config").write_text(f"{settings}['remote \"store\"']\n    url = {tmp_path}/store\n    verify = true\n")
    commit("Set up a remote")
    with Repo(".") as repo:
        repo.push()
    output, code = hindcast("hindcast release carts_bc")
    assert "carts_bc@v1.0.0" in output
    for number, command in questions:
        for word, value in NAMES.items():
            command = command.replace(word, value)
        expected, expected_code = ANSWERS[int(number)]
        output, code = hindcast(command) if command.startswith("hindcast") else (git(*shlex.split(command)[1:]), 0)
        if int(number) == 5:  # the commit before names no artifact, and ran the same
            assert "No stage was run differently in HEAD~1 and workspace." in output
        else:
            assert expected in output, f"{command}: {output}"
        assert code == expected_code, f"{command}: {output}"


def test_an_episode_is_removed_and_nothing_depends_on_it(project: Path):
    find, prove, old = console_blocks("remove-an-episode.md")
    assert find == ["hindcast impact walks:w3"]
    assert prove[:3] == ["dvc repro", "hindcast impact walks:w3", "hindcast audit --deep"]
    assert old == ["dvc gc --workspace --cloud --dry", "dvc gc --workspace --cloud --force"]
    state = read_project(WorkingTree())
    rows = episode_table(Store(state), state.stages["split@carts"])
    episode = next(name for name, row in rows.items() if row["split"] == "train")
    target = f"carts:{episode}"
    output, code = hindcast(f"hindcast impact {target}")
    assert code == 1
    for line in ("collect@carts holds it", "split@carts has it in train", "collect@all holds it", "train@all_bc was made from split@all"):
        assert line in output
    assert "collect@logged" not in output
    assert "Mend it, raise datasets.carts.version and datasets.all.version, then: dvc repro report" in output

    text = Path("params.yaml").read_text()
    entry = f'    version: 1.1.0\n    exclude: ["{episode}"]\n'
    text = text.replace("    version: 1.0.0\n", entry, 1).replace("    version: 1.0.0\n", "    version: 1.1.0\n", 1)  # of carts and of all
    Path("params.yaml").write_text(text)
    stages = read_project(WorkingTree()).stages
    for name in order():
        if "logged" in name and name != "combine@all_logged":
            continue
        for path in stages[name].outputs:  # as DVC does before it runs a stage
            shutil.rmtree(path, ignore_errors=True)
            Path(path).unlink(missing_ok=True)
        run_stage(name)
    commit_to_dvc()
    commit("Remove an episode on request")
    output, code = hindcast(f"hindcast impact {target}")
    assert (code, f"Now, nothing depends on {target}." in output) == (0, True)
    assert "In 1 earlier state (main):" in output
    output, code = hindcast("hindcast audit --deep")
    assert code == 0, output
    output, code = hindcast("hindcast diff HEAD~1 HEAD")
    assert f"1 episode removed: {episode}" in output
    assert "because of parameter datasets.carts.exclude: absent" in output
    output, code = hindcast("hindcast diff HEAD~1 HEAD carts --deep")
    assert "carts: 0 episodes of the same id differ inside" in output

    with Repo(".") as repo:
        repo.gc(workspace=True, force=True)
    output, code = hindcast(f"hindcast impact {target}")
    assert code == 0
    assert "collect@carts: cannot tell" in output
    assert hindcast("hindcast audit --deep")[1] == 0
