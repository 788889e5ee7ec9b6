"""Lines of text in the terminal, as they are: no markup, no wrapping."""

from collections.abc import Iterable

from rich.console import Console


def tell(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
