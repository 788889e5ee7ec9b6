"""The one exception for what a user can mend: bad parameters, bad data, a missing file or dependency."""


class HindcastError(Exception):
    """Its message says what was found, what was expected, where, and what to do. Stages print it and exit 1."""
