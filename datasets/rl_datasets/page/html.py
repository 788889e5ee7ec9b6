"""The parts of a page: the frame, sections, tables and texts. Every function returns HTML whose texts are escaped."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("style.css")


def document(title: str, header: str, main: str, footer: str, style: str = "") -> str:
    """Returns a whole page. `title` is plain text, the others are HTML; `style` is what a page adds to style.css."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{STYLE.read_text(encoding="utf-8")}{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{main}
</main>
<footer>{footer}</footer>
</body>
</html>
"""


def navigation(sections: Iterable[tuple[str, str]]) -> str:
    """Returns links to (id, title) of sections on the page."""
    links = "\n".join(f'<a href="#{name}">{escape(title)}</a>' for name, title in sections)
    return f'<nav aria-label="Sections">{links}</nav>'


def section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>\n{body}\n</section>'


def table(name: str, head: str, bodies: str) -> str:
    """A table that scrolls sideways where the screen is narrow, by keyboard too. `head` is its cells, `bodies` the tbody elements."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><thead><tr>{head}</tr></thead>\n{bodies}</table></div>\n"
    )


def heads(names: Iterable[str], left: Iterable[str] = ()) -> str:
    """Returns the cells of a table's head; those of `left` are aligned as text is, the others as numbers."""
    texts = set(left)
    return "".join(f'<th scope="col"{text_class(name in texts)}>{escape(name)}</th>' for name in names)


def text_class(is_text: bool) -> str:
    """The attribute of a cell that is aligned as text is."""
    return ' class="text"' if is_text else ""


def figure(caption: str, picture: str) -> str:
    """`caption` is plain text, `picture` HTML."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{picture}</figure>"


def details(summary: str, body: str) -> str:
    """What is folded away until a reader asks for it."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def paragraphs(notes: Iterable[str]) -> str:
    return "".join(f'<p class="quiet">{escape(note)}</p>' for note in notes)


def digest(value: str) -> str:
    """The first twelve digits, with all of them in the title."""
    return f'<code title="{escape(value)}">{escape(value[:12])}</code>'


def number(value: float) -> str:
    """A return as a reader needs it: thousands apart, one digit after the point, two below ten, a true minus sign."""
    text = f"{value:,.2f}" if abs(value) < 9.995 else f"{value:,.1f}"
    return text.replace("-", "\u2212")
