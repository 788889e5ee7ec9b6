"""Points of the learning curves, as the loop makes them and others read them."""

from typing import NamedTuple

import numpy as np

TRAIN, VALIDATION, ENVIRONMENT = "train", "validation", "environment"


class Row(NamedTuple):
    """One point: means over the updates since the last point, over the validation batches, or over episodes in the environment."""

    step: int  # updates done
    split: str
    metrics: dict[str, np.ndarray]  # [S] float32
