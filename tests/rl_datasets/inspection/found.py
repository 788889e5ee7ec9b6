"""What the small files of these tests hold, and what is asked of an inspection."""

import numpy as np

from rl_datasets.inspection.inspect import Inspection

LENGTHS = [30, 12, 25, 40, 8]
ROWS = sum(LENGTHS)
STOP = np.cumsum(LENGTHS)


def kinds(found: Inspection) -> set[str]:
    return {oddity.kind for oddity in found.oddities}


def evidence(found: Inspection, kind: str) -> str:
    (told,) = [oddity.evidence for oddity in found.oddities if oddity.kind == kind]
    return told


def last_rows() -> np.ndarray:
    return np.isin(np.arange(ROWS), STOP - 1)
