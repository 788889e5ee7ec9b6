"""How findings name places and counts."""


def and_more(steps: int) -> str:
    """Says how many steps are wrong where there are several."""
    return "" if steps == 1 else f" ({steps} steps are wrong)"


def subscript(element: int, shape: tuple[int, ...]) -> str:
    """Returns the index of an element, given in C order, of an array of this shape, as in "[2]" or "[0, 1]"; nothing for a scalar."""
    places = []
    for size in reversed(shape):
        element, place = divmod(element, size)
        places.append(str(place))
    return f"[{', '.join(reversed(places))}]" if places else ""
