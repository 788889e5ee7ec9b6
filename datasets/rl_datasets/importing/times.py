"""Texts of times to moments that can be ordered."""

from typing import Any

import numpy as np
import pandas as pd


def moments(texts: np.ndarray) -> Any:
    """Returns texts in ISO 8601 as a series of times of UTC, also where they name no zone, and NaT where one is none.

    Times of day, such as 12:00:00, are all of one day.
    """
    values = pd.Series(texts.reshape(len(texts)), dtype=object)
    is_of_day = values.str.match(r"\d\d:\d\d", na=False)
    dated = values.mask(is_of_day, "1970-01-01T" + values.where(is_of_day, ""))
    return pd.to_datetime(dated, format="ISO8601", utc=True, errors="coerce").dt.tz_localize(None)
