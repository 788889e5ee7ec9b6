"""How counts read in a sentence."""


def count(number: int, one: str, many: str = "") -> str:
    """Returns "1 episode", "2,000 episodes"; `many` is the plural where it is not `one` with an s, as in "episode was", "episodes were"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
