"""How findings name places and counts."""


def and_more(steps: int) -> str:
    """Says how many steps are wrong where there are several."""
    return "" if steps == 1 else f" ({steps} steps are wrong)"
