"""The README's way from a CSV to an evaluated policy, every command as it is printed."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.e2e

EXPERIMENT = "To train on it, the entry under 'experiments'"
ROOT = Path(__file__).parents[2]
SECTION = re.search(r"## Import your own data\n(.*?)\n## ", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


PLAY = """
import gymnasium
from trainer.api import evaluate, load_policy

policy = load_policy("artifacts/models/hill_iql/policies/seed_0")
print(evaluate(policy, episodes=5, make_env=lambda: gymnasium.make("MountainCarContinuous-v0")).mean())
"""


def shorten(params: Path) -> str:
    """Has what was written for the hill learn and fit little, and one seed. Returns what was written."""
    before = params.read_text()
    head, name, entry = before.rpartition("_iql:\n    dataset: ")
    fitted = "fitted_q: {updates: 200}"  # what is valued need not have learnt much, nor the value have settled
    entry = re.sub(r"seeds: \[.*?\], updates: \d+", "seeds: [0], updates: 2000", entry)
    params.write_text(head + name + re.sub(r"fitted_q: {.*?}", fitted, entry))
    return before


def test_from_a_csv_to_an_evaluated_policy(project):
    assert SECTION is not None
    shutil.copy(ROOT / "params.yaml", project.root)
    for key, value in (("user.name", "test"), ("user.email", "test@localhost")):
        project.run("git", "config", key, value)
    outputs = {}
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", SECTION[1], re.DOTALL):
        if kind == "python":
            project.run("python", "-c", block)
        else:
            for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
                outputs[line.split()[1]] = project.run(*shlex.split(line)).stdout
                if "new-dataset" in line:
                    outputs["written"] = shorten(project.root / "params.yaml")
                    played = line.replace("new-dataset hill", "new-dataset played") + " --env MountainCarContinuous-v0"
    assert played.replace("new-dataset played", "new-dataset hill").removesuffix(" --env MountainCarContinuous-v0") in outputs["inspect"]
    entry, _, experiment = outputs["inspect"].partition("The entry under 'datasets'\n\n")[2].partition(EXPERIMENT)
    assert YAML(typ="safe").load(entry)["hill"]["options"]["ends"] == {"kind": "ids", "column": "drive", "sequence": "tick"}
    assert entry in outputs["written"]
    assert experiment.strip() in outputs["written"]
    rows = (project.root / "data/hill.csv").read_text().splitlines()[1:]
    manifest = json.loads((project.root / "artifacts/raw/hill/1.0.0/manifest.json").read_text())
    assert manifest["counts"]["episodes"] == 60
    assert manifest["counts"]["transitions"] == len(rows)
    assert manifest["counts"]["terminals"] == sum(row.endswith(",1") for row in rows)
    told = json.loads((project.root / "artifacts/evals/hill_iql/metrics.json").read_text())
    assert -100 < told["fitted_q_value"] < 100  # the prize, and what the engine may cost in all, both discounted on the way
    assert "return_mean" not in told
    assert "Every link holds" in outputs["audit"]
    assert project.run("git", "status", "--porcelain").stdout == ""  # what the README puts into git is all that there is to keep
    project.run("python", "-m", "pytest", "-q", "tests/rl_datasets/test_hill.py")
    assert float(project.run("python", "-c", PLAY).stdout) > 0  # the hill is climbed, which an idle car never does
    project.run(*shlex.split(played))
    assert "evaluate: {episodes: " in (project.root / "params.yaml").read_text().rpartition("played_iql:")[2]


def test_only_what_is_new_is_built_when_a_data_set_is_added_to_another(project):
    def entry(builder: str, source: str, options: str) -> str:
        return f"{{builder: {builder}, version: 1.0.0, seed: 0, source: {source}, options: {options}}}"

    def collected(seed: int) -> str:
        made = entry("gymnasium", "requirements.lock", "{env_id: CartPole-v1, episodes: 40, policy: {kind: random}}")
        return made.replace("seed: 0", f"seed: {seed}")

    def write(parents: dict[str, str]) -> None:
        lines = ["datasets:", *(f"  {name}: {made}" for name, made in parents.items())]
        lines += [f"  both: {entry('combine', 'artifacts/combine/both', '{ids: prefix}')}", "combine:"]
        lines += [f"  both_{name}: {{into: both, dataset: {name}}}" for name in parents]
        lines += ["checks: {default: {}}", "split: {}", "learners: {}", "experiments: {}"]
        (project.root / "params.yaml").write_text("\n".join(lines) + "\n")

    write({"north": collected(0)})
    project.run("dvc", "repro", "collect@both")
    write({"north": collected(0), "south": collected(1)})
    output = project.run("dvc", "repro", "collect@both").stdout
    ran = re.findall(r"Running stage '(.*?)'", output)
    assert sorted(ran) == ["collect@both", "collect@south", "combine@both_south"]
    manifest = json.loads((project.root / "artifacts/raw/both/1.0.0/manifest.json").read_text())
    assert manifest["counts"] == {"episodes": 80, "from_north": 40, "from_south": 40, "transitions": manifest["counts"]["transitions"]}
    project.commit()
    assert "collect@south" in project.run("hindcast", "lineage", "both").stdout
