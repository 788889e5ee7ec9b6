"""The learners' code with a mistake in it, imported beside the right one."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

import trainer
from tests.trainer.fidelity.mistakes import Mistake
from trainer.learner import load_learner

TRAINER = Path(trainer.__path__[0])


def with_mistake(mistake: Mistake) -> tuple[Path, str]:
    """The file that the mistake is made in and its source with it. Raises AssertionError unless the right form stands there once."""
    for files in ([TRAINER / "learners" / f"{mistake.algorithm}.py"], sorted(TRAINER.glob("*.py"))):
        found = [path for path in files for _ in range(path.read_text().count(mistake.right))]
        if found:
            break
    assert len(found) == 1, (
        f"'{mistake.right}' stands {len(found)} times in trainer/ where {mistake.algorithm} could have it from. "
        f"Plant this mistake in what stands there now."
    )
    return found[0], found[0].read_text().replace(mistake.right, mistake.wrong)


class Planted(SourceFileLoader, MetaPathFinder):
    """Imports one module from a changed source."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        super().__init__(name, str(path))
        self.source = source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec")  # type: ignore[no-any-return]


@contextmanager
def planted(mistake: Mistake) -> Iterator[ModuleType]:
    """The learner's module, imported anew together with all of trainer/, with the mistake in it."""
    load_learner(mistake.algorithm)  # so that what it imports from elsewhere is there already, and stays
    path, source = with_mistake(mistake)
    name = ".".join(["trainer", *path.relative_to(TRAINER).with_suffix("").parts])
    finder = Planted(name, path, source)
    others = {key: module for key, module in sys.modules.items() if key != "trainer" and not key.startswith("trainer.")}
    with patch.dict(sys.modules, others, clear=True), patch.object(sys, "meta_path", [finder, *sys.meta_path]):
        yield importlib.import_module(f"trainer.learners.{mistake.algorithm}")
