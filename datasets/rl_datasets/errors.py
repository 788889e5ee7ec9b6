"""The one exception for what a user can mend: bad parameters, bad data, a missing file or dependency."""

import traceback
from pathlib import Path


class HindcastError(Exception):
    """Its message says what was found, what was expected, where, and what to do. Stages print it and exit 1."""


def describe_raise(error: BaseException) -> str:
    """Returns what was raised, and by which line of which file: for an error that comes from a user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
