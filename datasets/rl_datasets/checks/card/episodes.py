"""Sample episodes as plots over time: reward, action and every array of the observation; images as frames."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from rl_datasets.checks.card.samples import Sample
from rl_datasets.checks.card.sections import all_leaves
from rl_datasets.page.charts import Line, line_chart
from rl_datasets.page.html import figure, number
from rl_datasets.page.pictures import diverging, heat, picture
from rl_datasets.page.plots import raster_chart
from rl_datasets.schema import ArraySpec, EnvSpec, named_leaves
from rl_datasets.words import count

POINTS = 300  # along the axis of time; of longer episodes each shows the range of several steps
LINES = 4  # columns drawn as lines, each on its own axis; more are rows of a raster
ROWS = 64  # columns of a raster; of more, the first
CATEGORIES = 16  # values of a category that have a row each
FRAMES = 8
SIDE = 96  # pixels of a frame's longer side; larger ones are thinned
HEIGHT = 120
READING = (
    "The first episode, and those of a high, the middle and a low return: of the 95th, 50th and 5th percentile. Very short ones are left "
    f"out where there are longer ones. Up to {LINES} columns are lines, each on its own axis. More are rows of colour: a column is white "
    "at its mean over all data, orange down to three standard deviations below it, blue up to three above. Discrete actions are marks in "
    "the row of their value."
)


def sample_html(samples: Sequence[Sample], spec: EnvSpec, arrays: Mapping[str, Any]) -> str:
    """One article a sample. `arrays` is the summary's: rasters show how far a column is from its mean over all of the data."""
    articles = "\n".join(_article(sample, spec, arrays) for sample in samples)
    return f'<p class="quiet">{escape(READING)}</p>{articles}'


def envelope(values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Returns (steps, values) to draw a line through: all, or the least and the greatest of each of `points` runs of steps. values: [T]."""
    if len(values) <= 2 * points:
        return np.arange(len(values), dtype=np.float64), values.astype(np.float64)
    starts = np.arange(points) * len(values) // points
    low, high = (function.reduceat(values.astype(np.float64), starts) for function in (np.fmin, np.fmax))
    return np.repeat(starts, 2).astype(np.float64), np.stack([low, high], 1).ravel()


def thinned(rows: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Returns [T, D] as the means of at most so many runs of steps."""
    if len(rows) <= points:
        return rows.astype(np.float64)
    starts = np.arange(points) * len(rows) // points
    sums = np.add.reduceat(rows.astype(np.float64), starts, axis=0)
    return sums / np.diff([*starts, len(rows)])[:, None]


def frames_of(array: np.ndarray) -> np.ndarray | None:
    """Returns the steps of an array as pictures, uint8 [T, height, width, channels]; None where it holds none.

    Pictures are bytes of two or three axes. Of a stack of frames, which has other than 1 or 3 channels, the last is shown.
    """
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or min(array.shape[1:3]) < 4:
        return None
    frames = array[..., None] if array.ndim == 3 else array
    if frames.shape[3] not in (1, 3):
        frames = frames[..., -1:]
    every = -(-max(frames.shape[1:3]) // SIDE)
    return frames[:, ::every, ::every]


def _article(sample: Sample, spec: EnvSpec, arrays: Mapping[str, Any]) -> str:
    episode = sample.episode
    policy = str(episode.metadata.get("policy", "")) or "unknown policy"
    end = "terminal" if episode.is_terminal else "truncated"
    facts = [f"return {number(episode.episode_return)}", count(episode.length, "transition"), end, policy]
    title = ", ".join(sample.reasons).capitalize()
    body = "".join([*_reward(episode.reward[:-1]), *_action(episode.action[:-1], spec.action, arrays)])
    specs = all_leaves(spec)
    observed = "".join(
        part for name, leaf in named_leaves(episode.observation, "observation") for part in _leaf(name, leaf, specs[name], arrays)
    )
    chips = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f'<article class="sample"><h3>{escape(title)} <code>{escape(episode.episode_id)}</code></h3>'
        f'<ul class="chips">{chips}</ul><div class="grid">{body}{observed}</div></article>'
    )


def _reward(reward: np.ndarray) -> Iterator[str]:
    yield _line("reward", reward)


def _action(action: np.ndarray, spec: ArraySpec, arrays: Mapping[str, Any]) -> Iterator[str]:
    if spec.num_values is not None and spec.num_values <= CATEGORIES and action.ndim == 1:
        first = int(np.ravel(spec.minimum)[0])
        values = np.arange(first, first + spec.num_values)
        shares = thinned(action[:, None] == values)
        yield _raster("action", heat(shares.T, 0.0, 1.0), [str(value) for value in values], len(action), "Where each value is taken")
    else:
        yield from _leaf("action", action, spec, arrays)


def _leaf(name: str, array: np.ndarray, spec: ArraySpec, arrays: Mapping[str, Any]) -> Iterator[str]:
    frames = frames_of(array)
    if frames is not None:
        yield _frames(name, frames)
        return
    rows = array.reshape(len(array), -1)
    if not rows.size:
        return
    if rows.shape[1] <= LINES:
        is_told_apart = rows.shape[1] > 1 or bool(spec.columns)
        yield from (_line(f"{name}{spec.subscript(i)}" if is_told_apart else name, column) for i, column in enumerate(rows.T))
        return
    rows = thinned(rows[:, :ROWS])
    mean, std = _scale(rows, arrays.get(name, {}).get("columns", ()))
    with np.errstate(invalid="ignore"):
        pixels = diverging(np.clip((rows - mean) / (3 * std), -1, 1).T)
    labels = [spec.subscript(index) for index in range(rows.shape[1])]
    yield _raster(name, pixels, labels, len(array), "Distance from the mean over all data")


def _scale(rows: np.ndarray, columns: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean and deviation of each column over all data, or over these rows where the summary does not tell columns apart."""
    if len(columns) >= rows.shape[1] and all(column["mean"] is not None and column["std"] is not None for column in columns):
        mean, std = (np.array([column[key] for column in columns[: rows.shape[1]]]) for key in ("mean", "std"))
    else:
        finite = np.where(np.isfinite(rows), rows, 0.0)
        mean, std = finite.mean(axis=0), finite.std(axis=0)
    return mean, np.where(std > 0, std, 1.0)


def _line(name: str, values: np.ndarray) -> str:
    """values: [T]."""
    finite = values[np.isfinite(values)]
    spread = f", from {finite.min():.4g} to {finite.max():.4g}" if finite.size else ", without a number"
    chart = line_chart([Line(*envelope(values), "one", name)], f"{name} over {count(len(values), 'step')}{spread}.", "step", HEIGHT)
    return figure(name, chart)


def _raster(name: str, pixels: np.ndarray, rows: Sequence[str], steps: int, words: str) -> str:
    chart = raster_chart(pixels, rows, steps, f"{name} over {count(steps, 'step')}. {words}.")
    return f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>"


def _frames(name: str, frames: np.ndarray) -> str:
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int)).tolist()
    shown = "".join(
        f'<div class="frame">{picture(frames[step], f"{name} at step {step}")}<span class="quiet">step {step:,}</span></div>'
        for step in chosen
    )
    return f'<figure class="wide"><figcaption>{escape(name)}</figcaption><div class="frames">{shown}</div></figure>'
