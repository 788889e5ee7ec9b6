"""The EnvSpec of a data set from its mapping: shapes and dtypes of the columns, bounds as declared, as found, or the environment's."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.kept import kept_specs
from rl_datasets.importing.mapping import Array, MappingOptions
from rl_datasets.importing.parts import BLOCK_ROWS, Part
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.resolve import resolve
from rl_datasets.importing.values import ArrayMaker, array_spec
from rl_datasets.schema import ArraySpec, EnvSpec, named_leaves

Parts = Callable[[], Iterator[Part]]


def describe(parts: Parts, options: MappingOptions) -> tuple[EnvSpec, list[str]]:
    """Returns the spec, and a sentence for each assumption in it. Reads actions where their bounds are to be found in them.

    The first part decides on shapes and dtypes. Raises HindcastError where the mapping does not fit it, or the environment.
    """
    part = next(iter(parts()), None)
    if part is None:
        raise HindcastError("The source holds no episode. Mend the path or the pattern of its files.")
    try:
        leaves = _leaf_specs(options, part)
    finally:
        part.close()
    action, references = leaves.pop("action"), options.reference_returns
    kept, told = kept_specs(parts, options)
    spec = EnvSpec(
        env_id=options.env_id,
        env_kwargs=dict(options.env_kwargs),
        observation=options.observation.nest(leaves, "observation"),
        action=action,
        max_episode_steps=options.max_episode_steps,
        reference_returns=references.value() if references else None,
        step_metadata=kept,
    )
    bounded, assumed = _bounded(parts, options, spec)
    return bounded, [*assumed, *told]


def _bounded(parts: Parts, options: MappingOptions, spec: EnvSpec) -> tuple[EnvSpec, list[str]]:
    """Returns the spec with the bounds that are asked for, and where they are from."""
    action = spec.action
    if options.bounds == "environment":
        return _with_environment(spec, options)
    is_category = np.dtype(action.dtype).kind in "iu" and action.shape in ((), (1,)) and action.num_values is None
    if options.bounds == "data" or (is_category and not action.is_bounded):
        action, note = _with_found_bounds(parts, options, action, is_category)
        return replace(spec, action=action), [note]
    if not action.is_bounded:
        return spec, ["action: no bounds are given, so the action space is unbounded (bounds: data or environment, or action.minimum)."]
    return spec, []


def _leaf_specs(options: MappingOptions, part: Part) -> dict[str, ArraySpec]:
    columns = resolve(options, part)
    arrays = {**options.observation.leaves("observation"), "action": options.action, "reward": options.reward}
    specs = {}
    for name, array in arrays.items():
        described = [part.columns[column] for column in columns.leaves[name]]
        spec = array_spec(name, array, described, part)
        widths = [math.prod(column.shape) for column in described]
        specs[name] = replace(spec, columns=_element_names(columns.leaves[name], widths, array, spec))
    reward = specs.pop("reward")
    if reward.dtype != "float32" and options.reward.dtype is not None:
        raise HindcastError(f"reward.dtype is '{options.reward.dtype}', but rewards are stored as float32. Leave it out.")
    return specs


def _element_names(columns: Sequence[str], widths: Sequence[int], array: Array, spec: ArraySpec) -> tuple[str, ...]:
    """Returns the names of an array's elements by the columns that it is joined of; none where it is one column, or where an element is
    no column's."""
    is_otherwise = array.one_hot or array.categories is not None or array.text is not None
    if is_otherwise or sum(widths) != math.prod(spec.shape) or len(widths) == 1:
        return ()
    names = zip(columns, widths, strict=True)
    return tuple(name for column, width in names for name in ([column] if width == 1 else [f"{column}[{i}]" for i in range(width)]))


def _with_found_bounds(parts: Parts, options: MappingOptions, spec: ArraySpec, is_category: bool) -> tuple[ArraySpec, str]:
    """The smallest and largest action of any row; also of rows whose action is not read, as the last of an episode may be."""
    target = replace(spec, shape=()) if is_category else spec
    low, high, seen = np.full(target.shape, np.inf), np.full(target.shape, -np.inf), 0
    for part in parts():
        try:
            columns = resolve(options, part).leaves["action"]
            maker, rows = ArrayMaker("action", options.action, columns, target, part, ImportReport()), part.columns[columns[0]].rows
            seen += rows
            for start in range(0, rows, BLOCK_ROWS):
                block = maker.rows(start, min(start + BLOCK_ROWS, rows))
                low, high = np.fmin(low, np.fmin.reduce(block, axis=0)), np.fmax(high, np.fmax.reduce(block, axis=0))
        finally:
            part.close()
    if not seen:
        raise HindcastError("The source has no rows. Mend the path, or leave the data set out.")
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise HindcastError(
            "action: no bounds can be found in the data, for some values are not finite. Give action.minimum and action.maximum."
        )
    if is_category:
        if low < 0:
            raise HindcastError(f"action: a category is in [0, num_values), but the data hold {int(low)}. Use action.categories.")
        count = int(high) + 1
        return target.bounded(0, high, count), f"action: the data hold whole numbers up to {int(high)}, so {count} actions are assumed."
    found = target.bounded(low, high)
    return found, f"action: bounds are the smallest and largest values found, {_short(found.minimum)} to {_short(found.maximum)}."


def _with_environment(spec: EnvSpec, options: MappingOptions) -> tuple[EnvSpec, list[str]]:
    """Takes bounds and step limit from the environment, and keeps the dtypes of the data."""
    from rl_datasets.environments import env_spec, make_env  # Gymnasium takes most of a second

    env = make_env(spec.env_id, spec.env_kwargs)
    try:
        known = env_spec(env, spec.env_id, spec.env_kwargs)
    finally:
        env.close()
    own, theirs = (dict([*named_leaves(s.observation, "observation"), ("action", s.action)]) for s in (spec, known))
    if own.keys() != theirs.keys():
        raise HindcastError(
            f"Environment '{spec.env_id}' has the arrays {sorted(theirs)}, but the mapping makes {sorted(own)}. Map the same."
        )
    leaves: dict[str, Any] = {}
    for name, leaf in own.items():
        is_category = theirs[name].is_discrete and leaf.shape == (1,)
        if not is_category and leaf.shape != theirs[name].shape:
            raise HindcastError(
                f"{name} has rows of shape {list(leaf.shape)}, but in environment '{spec.env_id}' they have {list(theirs[name].shape)}. "
                "Mend the mapping, or use 'bounds: given'."
            )
        leaves[name] = replace(theirs[name], dtype=leaf.dtype, columns=leaf.columns)
    limit = options.max_episode_steps or known.max_episode_steps
    action = leaves.pop("action")
    observation = options.observation.nest(leaves, "observation")
    note = f"Bounds of observations and actions, and the limit of {limit} steps, are those of Gymnasium's {spec.env_id}."
    return replace(spec, observation=observation, action=action, max_episode_steps=limit), [note]


def _short(bound: float | tuple[float, ...]) -> str:
    values = bound if isinstance(bound, tuple) else (bound,)
    return (
        f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{value:g}' for value in values[:8])}{', ...' if len(values) > 8 else ''}]"
    )
