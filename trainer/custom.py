"""Flax modules that a preset names by import path, `<import path>:<class>`: found, constructed and checked.

A module of your own is a file in `trainer/modules/`: the stages that train and evaluate depend on that folder, so editing a file
there runs them again, and its digest is part of the run's parameters. Code elsewhere in the project would escape both and is
refused; an installed package is fixed by requirements.lock. The class is one of flax.linen's, or of flax.nnx's, which is wrapped.
It is constructed as `Class(spec=<EnvSpec>, **options)`; what it is called with and must return stands where each kind is made:
values and critics in `trainer/construction.py`, policies in `trainer/policies.py`, encoders in `trainer/encoders.py`.
"""

import hashlib
import importlib
import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
from flax import nnx

from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.schema import EnvSpec, Tree
from trainer.learner import LearnerParams

ROOT = Path(__file__).parents[1]
FOLDER = "trainer.modules"


def load_class(path: str, where: str) -> type:
    """The class at `<import path>:<class>`. Raises HindcastError that begins with `where`, the key that names it."""
    package, _, name = path.partition(":")
    if not package or not name:
        raise HindcastError(f"{where}: found '{path}', but '<import path>:<class>' is expected, such as {FOLDER}.nets:BigCritic.")
    try:
        module = importlib.import_module(package)
    except Exception as error:  # whatever a file that a user wrote raises
        raise HindcastError(f"{where}: '{package}' cannot be imported: {describe_raise(error)}. Mend the path or the file.") from error
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module | nnx.Module)):
        classes = sorted(
            key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, nn.Module | nnx.Module)
        )
        raise HindcastError(f"{where}: '{package}' has no flax module '{name}'; it has: {', '.join(classes) or 'none'}.")
    _require_tracked(module.__file__, path, where)
    return found


def construct(found: Any, options: Mapping[str, Any], spec: EnvSpec, where: str) -> nn.Module:
    """Class(spec=spec, **options) as a linen module. Raises HindcastError where it takes other options."""
    signature = inspect.signature(found.__init__)
    takes = [name for name in signature.parameters if name not in ("self", "spec", "rngs", "parent", "name")]
    message = f"{where}: {found.__name__}(spec, ...) does not take the options {dict(options)}"
    if issubclass(found, nnx.Module):
        try:
            signature.bind(None, spec=spec, **options, rngs=None)
        except TypeError as error:
            raise HindcastError(f"{message}: {error}. Its options are: {', '.join(takes) or 'none'}.") from error
        return nnx.bridge.ToLinen(found, kwargs={"spec": spec, **options})
    try:
        module: nn.Module = found(spec=spec, **options)
    except Exception as error:  # whatever a file that a user wrote raises
        raise HindcastError(f"{message}: {describe_raise(error)}. Its options are: {', '.join(takes) or 'none'}.") from error
    return module


def custom_module(path: str, options: Mapping[str, Any], spec: EnvSpec, where: str) -> nn.Module:
    """The module at an import path, constructed. Raises HindcastError that begins with `where`."""
    return construct(load_class(path, where), options, spec, where)


def check_output(module: nn.Module, inputs: Sequence[Any], expected: Sequence[tuple[int | None, ...]], where: str) -> None:
    """Raises HindcastError unless module(*inputs) gives float arrays of the expected shapes, and has parameters alone for state.

    `inputs` are arrays; `expected` holds a shape for each array that is returned, None for any size. Nothing is computed.
    """
    key = jax.random.key(0)
    try:
        output, variables = jax.eval_shape(lambda: module.init_with_output({"params": key, "dropout": key}, *inputs))
    except Exception as error:  # whatever a file that a user wrote raises
        shapes = [list(leaf.shape) for leaf in jax.tree.leaves(inputs)]
        raise HindcastError(f"{where}: calling it on arrays of shapes {shapes} raised {describe_raise(error)}. Mend the module.") from error
    leaves = jax.tree.leaves(output)
    if len(leaves) != len(expected) or not all(_fits(leaf, shape) for leaf, shape in zip(leaves, expected, strict=True)):
        given = ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves) or "nothing"
        wanted = ", ".join(f"float{['any' if n is None else n for n in shape]}".replace("'", "") for shape in expected)
        raise HindcastError(f"{where}: it returns {given}, but {wanted} is expected. Mend the module's output.")
    if set(variables) - {"params"}:
        raise HindcastError(
            f"{where}: it keeps state beside its parameters ({', '.join(sorted(set(variables) - {'params'}))}), but learners carry "
            "parameters alone. Use layers without such state: LayerNorm for BatchNorm."
        )


def batch_of(tree: Tree, size: int) -> Tree:
    """Zeros [size, ...] for a nest of ArraySpecs."""
    return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf.zeros(size)), tree)


def takes(module: nn.Module, argument: str) -> bool:
    """Whether a module's call has an argument of this name."""
    target: Any = module.nnx_class if isinstance(module, nnx.bridge.ToLinen) else type(module)
    return argument in inspect.signature(target.__call__).parameters


def module_digests(params: LearnerParams) -> dict[str, str]:
    """The sha256 of each file in trainer/modules/ that a preset names, by its import path: what a run depends on beside parameters."""
    named = [own.module for own in params.networks.values()] + [encoder.module for encoder in params.encoders.values()]
    packages = sorted({path.partition(":")[0] for path in named if path and path.startswith(f"{FOLDER}.")})
    return {package: _digest(package) for package in packages}


def _digest(package: str) -> str:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise HindcastError(f"A preset names a module in '{package}', but there is no such file. Add {package.replace('.', '/')}.py.")
    return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()


def _fits(leaf: Any, shape: tuple[int | None, ...]) -> bool:
    same = leaf.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, leaf.shape, strict=True))
    return same and bool(jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating))


def _require_tracked(file: str | None, path: str, where: str) -> None:
    inside = file is not None and Path(file).resolve().is_relative_to(ROOT)
    installed = file is not None and "site-packages" in Path(file).parts
    if inside and not installed and not path.startswith((f"{FOLDER}.", "trainer.networks:", "trainer.encoders:")):
        raise HindcastError(
            f"{where}: '{path}' lies in the project, but outside trainer/modules/, so a change to it would not train anew. Move the file "
            f"to trainer/modules/ and name it {FOLDER}.<file>:<class>."
        )
