"""What `fit` compiles for one run, and how the seeds are laid out over the machine.

A call runs updates `begin` to `end` of a superbatch inside a compiled loop whose bounds are arguments. So one compilation serves
every call of a run, however the logging interval, a checkpoint or the run's end cut the superbatch; and because the loop's body
and its carry are the same wherever it is cut, the result does not depend on the cuts, bit for bit.

Two layouts, chosen by `compile_program`:
- on a CPU, one program of one seed, called for every seed from as many threads as there are cores (trainer/side_by_side.py). A
  seed's bits then depend neither on the other seeds nor on the number of threads, and small networks fill all cores;
- elsewhere, and wherever there are several devices, one program of all seeds by `vmap` over a mesh (trainer/mesh.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Array, NextAction, Transition, Tree
from trainer.learner import Trainable
from trainer.preprocessing import Preprocessor

# With jaxlib 0.10 on CPUs with few cores, compiled loops over large inputs were seen to hang for ever, all threads idle, when they
# were dispatched asynchronously. Inline dispatch costs nothing here, for every call is awaited anyway, and changes no bit of the
# result. It must be set before the CPU client exists, thus on import.
jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]

Precision = Literal["float32", "tensorfloat32", "bfloat16"]
PRODUCTS = {"float32": "highest", "tensorfloat32": "TF32_TF32_F32", "bfloat16": "BF16_BF16_F32"}  # JAX's names; float32 accumulates


class Carry(NamedTuple):
    """What one update hands to the next: of one seed, or with leaves [S, ...] of all."""

    state: Tree  # the learner's
    sums: dict[str, Array]  # float32 each, over the updates since the last point of the curves
    spoilt: dict[str, Array]  # int32 each: the first update of this superbatch with a non-finite value of the metric; -1 for none


class Table(Protocol):
    """A whole split in memory, N steps and M transitions: number i starts at step row[i] and ends at the next one."""

    @property
    def observation(self) -> Tree: ...  # [N, ...]

    @property
    def action(self) -> Array: ...  # [N, ...]

    @property
    def reward(self) -> Array: ...  # [N]

    @property
    def discount(self) -> Array: ...  # [N]

    @property
    def row(self) -> Array: ...  # [M]

    @property
    def follows(self) -> Array | tuple[()]: ...  # [M], whether a next action exists; where these are asked for


class Program(Protocol):
    """The compiled functions of one run. What a carry and placed batches are, is the layout's own affair."""

    initial: Any
    metrics: tuple[str, ...]  # of an update
    loss_metrics: tuple[str, ...]  # of the validation batches; none where there are none

    def update(self, carry: Any, placed: Any, begin: int, end: int) -> Any:
        """Runs updates begin..end of placed batches. The carry that it is given is no more."""
        ...

    def put(self, transition: Transition) -> Any:
        """Places batches [S, K, B, ...] on the devices; of several processes, each gives its rows of B."""
        ...

    def gather(self, index: np.ndarray) -> Any:
        """The same from the table on the devices: `index` [S, K, B]."""
        ...

    def sums(self, carry: Any) -> dict[str, np.ndarray]: ...

    def spoilt(self, carry: Any) -> dict[str, np.ndarray]: ...

    def cleared(self, carry: Any) -> Any:
        """The carry as it enters the next interval of the curves."""
        ...

    def losses(self, carry: Any) -> dict[str, np.ndarray]:
        """Means over the validation batches, [S] each."""
        ...

    def policies(self, carry: Any) -> list[Tree]:
        """One a seed, NumPy."""
        ...

    def arrays(self, carry: Any) -> dict[str, np.ndarray]:
        """The carry's leaves [S, ...] by name, alike for every layout; random keys as the numbers they are made of."""
        ...

    def restore(self, arrays: dict[str, np.ndarray]) -> Any:
        """The inverse of `arrays`."""
        ...


class Source(NamedTuple):
    """What a program is compiled for."""

    learner: Trainable[Any]
    preprocessor: Preprocessor
    seeds: Sequence[int]
    batch: Transition  # leaves [B, ...] or their shapes: one batch of all processes together
    scan: int  # K
    validation: Transition | None  # [V, B, ...]
    table: Table | None  # where batches come by index
    given: Sequence[Tree] | None = None  # one a seed, which `init` takes beside its key

    @property
    def shapes(self) -> Transition:
        """Of the batch, in the dtypes that the devices know."""
        shapes: Transition = jax.tree.map(lambda leaf: shape_of(leaf.shape, leaf.dtype), self.batch)
        return shapes


def compile_program(source: Source, devices: Sequence[jax.Device] | None, precision: Precision) -> Program:
    """Lays the seeds out over `devices`: by default all of them, or one CPU with all its cores.

    Raises HindcastError where the precision needs an accelerator.
    """
    from trainer.mesh import MeshProgram
    from trainer.side_by_side import SideBySideProgram

    chosen = list(devices) if devices is not None else default_devices()
    if precision != "float32" and chosen[0].platform == "cpu":
        raise HindcastError(
            f"precision: {precision} is for an accelerator, but the run is on {chosen[0].device_kind}, which computes in float32. "
            "Set precision: float32, or run where JAX finds an accelerator."
        )
    with jax.default_matmul_precision(PRODUCTS[precision]):  # TPUs and recent GPUs round the factors of products without being asked
        alone = len(chosen) == 1 and chosen[0].platform == "cpu"
        return SideBySideProgram(source, chosen[0]) if alone else MeshProgram(source, chosen)


def default_devices() -> list[jax.Device]:
    alone = jax.default_backend() == "cpu" and jax.process_count() == 1
    return jax.local_devices()[:1] if alone else jax.devices()


def run_updates(
    update: Callable[[Tree, Transition], tuple[Tree, dict[str, Array]]], carry: Carry, batches: Transition, axis: int, bounds: Array
) -> Carry:
    """Runs updates bounds[0]..bounds[1] of batches whose axis K is `axis`.

    Inside, the metrics are one array, so that the loop carries two values for all of them in place of two for each.
    """
    names = tuple(carry.sums)

    def one(k: Array, carry: tuple[Tree, Array, Array]) -> tuple[Tree, Array, Array]:
        state, sums, spoilt = carry
        batch = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, k, axis, keepdims=False), batches)
        state, metrics = update(state, batch)
        values = _rows(metrics, names)
        return state, sums + values, jnp.where((spoilt < 0) & ~jnp.isfinite(values), k, spoilt)

    initial = carry.state, _rows(carry.sums, names), _rows(carry.spoilt, names)
    state, sums, spoilt = jax.lax.fori_loop(bounds[0], bounds[1], one, initial)
    return Carry(state, dict(zip(names, sums, strict=True)), dict(zip(names, spoilt, strict=True)))


def _rows(values: dict[str, Array], names: tuple[str, ...]) -> Array:
    return jnp.stack([values[name] for name in names])


def mean_losses(losses: Callable[[Tree, Transition], dict[str, Array]], state: Tree, validation: Transition) -> dict[str, Array]:
    """Means over the batches [V, B, ...]."""
    _, values = jax.lax.scan(lambda _, batch: (None, losses(state, batch)), None, validation)
    return {name: jnp.mean(value, axis=0) for name, value in values.items()}


def gathered(table: Table, index: Array) -> Transition:
    """The transitions of some numbers [...]: leaves [..., *shape]."""
    start = table.row[index]

    def rows(leaf: Array, at: Array = start) -> Array:
        return leaf.at[at].get(mode="promise_in_bounds")

    following = jax.tree.map(lambda leaf: rows(leaf, start + 1), table.observation)
    next_action = () if isinstance(table.follows, tuple) else NextAction(rows(table.action, start + 1), table.follows[index])
    now = (jax.tree.map(rows, table.observation), rows(table.action), rows(table.reward), rows(table.discount))
    return Transition(*now, following, next_action)


def first_state(learner: Trainable[Any], key: Array, *given: Tree) -> Tree:
    """Without JAX's weak types, which the first update would drop, and with them the carry's type."""
    state = learner.init(key, *given)
    return jax.tree.map(lambda leaf: leaf if is_key(leaf) else jax.lax.convert_element_type(leaf, leaf.dtype), state)


def named_arrays(tree: Tree) -> dict[str, Any]:
    """Leaves by name, copied to the host; random keys as the numbers they are made of."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(jax.random.key_data(leaf) if is_key(leaf) else leaf) for path, leaf in leaves}


def from_named_arrays(arrays: dict[str, np.ndarray], like: Tree) -> Tree:
    """The inverse of `named_arrays`, for a tree of the structure of `like`."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    values = [(arrays[jax.tree_util.keystr(path)], leaf) for path, leaf in paths]
    keys = [jax.random.wrap_key_data(jnp.asarray(v), impl=jax.random.key_impl(leaf)) if is_key(leaf) else v for v, leaf in values]
    return jax.tree.unflatten(structure, keys)


def shape_of(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))  # type: ignore[no-untyped-call]


def with_axes(shapes: Tree, *axes: int) -> Tree:
    return jax.tree.map(lambda leaf: shape_of((*axes, *leaf.shape), leaf.dtype), shapes)


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@contextmanager
def no_transfer() -> Iterator[None]:
    """Around a compiled call: what is not on its device yet must not slip there unseen, and nothing comes back."""
    with jax.transfer_guard("disallow"):
        yield
