"""What stages and commands do not import: TensorFlow takes longer to import than small data take to be read, checked and split."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITE_AND_READ = """
import sys
from pathlib import Path
import pipelines.check, pipelines.collect, pipelines.combine, pipelines.evaluate, pipelines.report, pipelines.split
import pipelines.commands.audit, pipelines.commands.check, pipelines.commands.export, pipelines.commands.inspect
from rl_datasets.rlds import read_episodes
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.rlds.recorded import read_recorded
from tests.rl_datasets.conftest import vector_toy

path = vector_toy().write(Path(sys.argv[1]))
reader = RldsReader(path)
assert len(list(read_episodes(path, "train"))) == 12
assert list(read_recorded(reader, ["train"]))
print({"tensorflow", "keras"} & set(sys.modules) or "light")
"""


@pytest.mark.slow
def test_small_data_are_written_and_read_without_tensorflow(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITE_AND_READ, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("light", "")
