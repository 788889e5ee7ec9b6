"""Imports the `rlds` library, which asks for `reverb` though only its pattern operations need it.

reverb has no build for a current TensorFlow. Where it is not installed, a stand-in takes its name: it lets the import pass and
raises as soon as something of it is used.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, NoReturn

import rl_datasets.rlds.quiet_tensorflow  # noqa: F401  (rlds imports TensorFlow)


def import_rlds() -> ModuleType:
    """Returns the module `rlds`. Its `transformations.pattern_map` and the like raise ImportError when called."""
    if "reverb" not in sys.modules and importlib.util.find_spec("reverb") is None:
        sys.modules["reverb"] = _StandIn("reverb")
    return importlib.import_module("rlds")


class _Missing:
    """Any class of reverb: usable in annotations only."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise ImportError("reverb is not installed, and this operation of rlds needs it.")


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"{self.__name__}.{name}") if name == "structured_writer" else _Missing
