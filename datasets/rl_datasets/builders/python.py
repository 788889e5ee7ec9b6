"""Episodes that a Python function yields: dicts of arrays, one an episode, for whatever no other builder reads.

The function is named "module:function", or "file.py:function" for a file in the source, which runs with the rights of the user.
Each episode has arrays by name, nested as they like ("observation/camera" is then a column), and may have an "id".
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rl_datasets.builder import Context
from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.importing.builder import ImportBuilder, file_inputs, source_path
from rl_datasets.importing.episodic import flat, parts_of
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import Part
from rl_datasets.importing.source import source_files
from rl_datasets.manifest import Input


class Options(MappingOptions):
    """`function` is called with `arguments`, and with nothing else: what it yields is a function of them and of the files in the source."""

    function: str = Field(pattern=r"^[\w./-]+:\w+$")
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    path: str | None = Field(None, min_length=1)  # file or folder that the episodes are made from; the entry's source where nothing is said


class Builder(ImportBuilder):
    options: Options
    packages = ("numpy",)

    def __init__(self, options: Options, context: Context) -> None:
        self.root = source_path(options.path, context)
        self.function = load_function(options.function)
        super().__init__(options, context)

    def parts(self) -> Iterator[Part]:
        return parts_of(self._episodes(), self.options.function)

    @cached_property
    def inputs(self) -> Sequence[Input]:
        """Every file of the source, for the function may read any."""
        return file_inputs(source_files(self.root, ("",)))

    def _episodes(self) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        try:
            episodes = iter(self.function(**self.options.arguments))
        except Exception as error:  # whatever a user's function raises
            raise HindcastError(f"{self.options.function} raised {describe_raise(error)}. Mend the function or its arguments.") from error
        for number in count():
            try:
                episode = next(episodes)
            except StopIteration:
                return
            except Exception as error:
                raise HindcastError(
                    f"{self.options.function}, episode {number}, raised {describe_raise(error)}. Mend the function."
                ) from error
            yield _arrays(episode, number, self.options.function)


def load_function(name: str) -> Any:
    """Returns the function of "module:function" or "file.py:function". Raises HindcastError where there is none."""
    module_name, _, function_name = name.partition(":")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module_name).stem, module_name)
            assert spec is not None, "a .py file always has a loader"
            assert spec.loader is not None, "a .py file always has a loader"
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            if str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module raises
        raise HindcastError(f"'{module_name}' cannot be imported: {describe_raise(error)}. Mend 'function' or the file.") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        known = ", ".join(key for key, value in vars(module).items() if callable(value) and not key.startswith("_")) or "none"
        raise HindcastError(f"'{module_name}' has no function '{function_name}'. It has: {known}.")
    return function


def _arrays(episode: Any, number: int, name: str) -> tuple[str, dict[str, np.ndarray]]:
    if not isinstance(episode, Mapping):
        raise HindcastError(f"{name}, episode {number}: found {type(episode).__name__}; expected a dict of arrays by name.")
    episode_id = episode.get("id", f"{number:08d}")
    try:
        return str(episode_id), {key: np.asarray(value) for key, value in flat({k: v for k, v in episode.items() if k != "id"}).items()}
    except ValueError as error:
        raise HindcastError(f"{name}, episode {number}: {error}. All rows of an array have one shape.") from error


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    (folder / "walks.py").write_text(
        "import numpy as np\n\n\n"
        "def walks(episodes):\n"
        "    for index in range(episodes):\n"
        "        steps = np.random.default_rng(index).choice([-1.0, 1.0], 4 + index)\n"
        "        place = np.concatenate([[0.0], np.cumsum(steps)])\n"
        "        yield {'place': place, 'step': steps[:, None], 'reward': -abs(place[1:]), 'fell': abs(place[-1]) > 2}\n"
    )
    mapping = {"observation": "place", "action": "step", "reward": "reward", "terminal": "fell", "ends": {"kind": "groups"}}
    function = {"function": f"{folder / 'walks.py'}:walks", "arguments": {"episodes": 5}}
    return {**function, "path": str(folder / "walks.py"), "env_id": "Walk", **mapping, "rows": "extra_observation", "bounds": "data"}
