"""Which part of the data follows from other rows than the rest does: single episodes, and ranges of consecutive ones."""

from collections.abc import Iterator, Sequence

import numpy as np

from rl_datasets.checks.neighbours import OWN, Hypothesis, Neighbours, Question, every
from rl_datasets.checks.regression import Features, Regression

FEWEST_OF_EPISODE = 8
ROWS = 1 << 12  # looked at for ranges
OF_BIN = 12  # rows of consecutive episodes that are judged together
MARGIN = np.log(1.5)  # by which a neighbour must be better than the own row, in a range as a whole
MOST = 2.0  # that one bin may count for
LEAST = 1e-9  # error that counts as none
ENOUGH = 3.0  # that a range must count for

Columns = np.ndarray | slice


def odd_stretches(
    rows: Neighbours, question: Question, columns: Columns, hypotheses: Sequence[Hypothesis], ratio: float
) -> Iterator[tuple[int, Hypothesis]]:
    """Yields (stretch, hypothesis) where the model that is right elsewhere is right only in other rows. columns: of what is asked for."""
    fit, outputs, inputs = rows.fitted, rows.output(question)[:, columns], rows.window(question, OWN)
    fitted = fit.window(question, OWN)
    features = Features(fitted, is_plain(rows, question, columns))
    model = Regression(features(fitted), fit.output(question)[:, columns])
    stretches, starts, counts = np.unique(rows.owner, return_index=True, return_counts=True)
    own = _medians(model.errors(features(inputs), outputs).mean(axis=1), starts, counts)
    odd = (counts >= FEWEST_OF_EPISODE) & (own > ratio * max(float(np.median(own)), LEAST))
    if not odd.any():
        return
    part, lengths = np.repeat(odd, counts), counts[odd]
    some, firsts = rows.of(part), np.cumsum(lengths) - lengths
    errors = {each: model.errors(features(some.window(question, each)), outputs[part]).mean(axis=1) for each in hypotheses}
    medians = {each: _medians(values, firsts, lengths) for each, values in errors.items()}
    for place, (stretch, median) in enumerate(zip(stretches[odd], own[odd], strict=True)):
        best = min(hypotheses, key=lambda each: float(medians[each][place]))
        if median > ratio * medians[best][place]:
            yield int(stretch), best


def odd_range(rows: Neighbours, question: Question, columns: Columns, hypotheses: Sequence[Hypothesis]) -> np.ndarray | None:
    """Returns the rows of consecutive episodes that other rows explain better than in the rest, [N] bool; None where there are none.

    It only suspects them: which of the two parts is wrong, and whether any is, must be looked at in each. A model is fitted on either
    half of the data, then on the half that its own rows explain best beside the others.
    """
    some = rows.of(every(len(rows.owner), ROWS))
    outputs, count = some.output(question)[:, columns], len(some.owner)
    starts = _bins(some.owner)
    if len(starts) < 4:
        return None
    counts = np.diff([*starts, count])
    windows = {each: some.window(question, each) for each in (OWN, *hypotheses)}
    make = Features(windows[OWN], is_plain(rows, question, columns))
    features = {each: make(window) for each, window in windows.items()}
    runs = []
    for is_first in (True, False):
        kept = (np.arange(count) < count // 2) == is_first
        for _ in range(3):
            model = Regression(features[OWN][kept], outputs[kept])
            errors = {each: model.errors(values, outputs).mean(axis=1) for each, values in features.items()}
            medians = {each: np.maximum(_medians(values, starts, counts), LEAST) for each, values in errors.items()}
            gains = [np.log(medians[OWN] / medians[each]) for each in hypotheses]
            best = np.max(gains, axis=0)
            kept = np.repeat(best <= np.median(best), counts)
        runs += [_best_run(np.clip(gain, -MOST, MOST) - MARGIN) for gain in gains]
    first, end, score = max(runs, key=lambda run: run[2])
    if score < ENOUGH or end - first == len(starts):
        return None
    edges = [*some.owner[starts], some.owner[-1] + 1]
    part: np.ndarray = (rows.owner >= edges[first]) & (rows.owner < edges[end])
    return part


def is_plain(rows: Neighbours, question: Question, columns: Columns) -> bool:
    """Whether the plain regression foretells other episodes better."""
    full, plain = (np.median(errors[:, columns], axis=0).mean() for errors in rows.own_errors(question))
    return bool(plain < full)


def _bins(owner: np.ndarray) -> np.ndarray:
    """Returns the first row of each bin: whole stretches, of OF_BIN rows or more together but for the last. owner: [N], ascending."""
    first = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    place = first // OF_BIN
    begins: np.ndarray = first[np.concatenate([[True], place[1:] != place[:-1]])]
    return begins


def _best_run(scores: np.ndarray) -> tuple[int, int, float]:
    """Returns (first, end, sum) of the consecutive scores of the greatest sum (Kadane)."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    lowest = np.minimum.accumulate(sums)
    end = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: end + 1]))
    return first, end, float(sums[end] - sums[first])


def _medians(values: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns the lower median of each of the consecutive parts that begin at `starts`, which are of about the same size. values: [N]."""
    place = np.arange(counts.max())
    table = np.where(place < counts[:, None], values[np.minimum(starts[:, None] + place, len(values) - 1)], np.nan)
    medians: np.ndarray = np.sort(table, axis=1)[np.arange(len(starts)), (counts - 1) // 2]
    return medians
