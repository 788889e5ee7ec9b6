"""What a card is made of, written twice: as HTML, with pictures, and as Markdown, without."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from rl_datasets.page import html
from rl_datasets.words import count


class Code(str):
    """A name or a digest, in letters of one width."""

    __slots__ = ()


class Text(NamedTuple):
    """A paragraph."""

    words: str


class Bullets(NamedTuple):
    lines: Sequence[str]


class Listing(NamedTuple):
    """Text as it stands, such as JSON. `title` is what unfolds it."""

    title: str
    content: str


class Facts(NamedTuple):
    """Terms and what they are."""

    rows: Sequence[tuple[str, str]]


class Table(NamedTuple):
    """`texts` are the headings of columns that hold text; the others hold numbers."""

    label: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[str] = ()


class Folded(NamedTuple):
    """What unfolds on a page, and stands in Markdown as it is."""

    title: str
    content: Table


class Picture(NamedTuple):
    """HTML that Markdown has no place for."""

    content: str


class Finding(NamedTuple):
    """The faults of one check: how many, where the first are, and what to do. Each example is (where, found, expected)."""

    check: str
    severity: str
    faults: int
    finds: str
    why: str
    remedy: str
    examples: Sequence[tuple[str, str, str]]


Block = Text | Bullets | Listing | Facts | Table | Folded | Picture | Finding


class Section(NamedTuple):
    name: str  # its id on the page
    title: str
    blocks: Sequence[Block]


def html_of(section: Section) -> str:
    return html.section(section.name, section.title, "\n".join(_html(block) for block in section.blocks))


def markdown_of(sections: Iterable[Section]) -> str:
    """Returns the sections that hold more than pictures."""
    parts = []
    for section in sections:
        blocks = [_markdown(block) for block in section.blocks if not isinstance(block, Picture)]
        if blocks:
            parts += [f"## {section.title}", *blocks]
    return "\n\n".join(parts) + "\n"


def _html(block: Block) -> str:
    match block:
        case Text(words):
            return f"<p>{_inline(words)}</p>"
        case Bullets(lines):
            return f"<ul>{''.join(f'<li>{_inline(line)}</li>' for line in lines)}</ul>"
        case Listing(title, content):
            return html.details(title, f'<pre tabindex="0">{escape(content)}</pre>')
        case Facts(rows):
            return f'<dl class="terms">{"".join(f"<dt>{escape(term)}</dt><dd>{_cell(value)}</dd>" for term, value in rows)}</dl>'
        case Table(label, header, rows, texts):
            body = "".join(f"<tr>{_row(header, row, set(texts))}</tr>" for row in rows)
            return html.table(label, html.heads(header, texts), f"<tbody>{body}</tbody>")
        case Folded(title, content):
            return html.details(title, _html(content))
        case Picture(content):
            return content
        case Finding():
            return _finding(block)


def _row(header: Sequence[str], row: Sequence[str], texts: set[str]) -> str:
    first, *others = zip(header, row, strict=True)
    cells = [f'<th scope="row">{_cell(first[1])}</th>']
    return "".join(cells + [f"<td{html.text_class(name in texts)}>{_cell(value)}</td>" for name, value in others])


def _cell(value: str) -> str:
    return f"<code>{escape(value)}</code>" if isinstance(value, Code) else _inline(value)


def _inline(words: str) -> str:
    """Text in which `marks` are names in letters of one width, as Markdown has it."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def _finding(found: Finding) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(where)}</th><td class="text">{escape(what)}</td><td class="text">{escape(expected)}</td></tr>'
        for where, what, expected in found.examples
    )
    head = html.heads(("Where", "Found", "Expected"), ("Where", "Found", "Expected"))
    examples = html.table(f"Findings of {found.check}", head, f"<tbody>{rows}</tbody>") if rows else ""
    hidden = found.faults - len(found.examples)
    more = f'<p class="quiet">{hidden:,} more are counted but not written out.</p>' if hidden > 0 else ""
    return (
        f'<article class="finding {found.severity}" id="finding-{escape(found.check)}">'
        f'<h3><span class="badge {found.severity}">{_SEVERITIES[found.severity]}</span> {escape(_title(found.check))}'
        f' <span class="quiet">{count(found.faults, "fault")}</span></h3>'
        f"<p>{_inline(found.finds)} {_inline(found.why)}</p>{examples}{more}<p><b>What to do.</b> {_inline(found.remedy)}</p></article>"
    )


def _markdown(block: Block) -> str:
    match block:
        case Text(words):
            return words
        case Bullets(lines):
            return "\n".join(f"- {_one_line(line)}" for line in lines)
        case Listing(title, content):
            return f"{title}:\n\n```\n{content}\n```"
        case Facts(rows):
            return _markdown_table(("", ""), rows)
        case Table(_, header, rows):
            return _markdown_table(header, rows)
        case Folded(_, content):
            return _markdown(content)
        case Finding():
            hidden = block.faults - len(block.examples)
            more = [f"{hidden:,} more are counted but not written out."] if hidden > 0 else []
            title = f"### {_SEVERITIES[block.severity]}: {_title(block.check)} ({count(block.faults, 'fault')})"
            examples = [_markdown_table(("where", "found", "expected"), block.examples)] if block.examples else []
            return "\n\n".join([title, f"{block.finds} {block.why}".strip(), *examples, *more, f"**What to do.** {block.remedy}"])
        case _:
            return ""


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[_markdown_cell(value) for value in line] for line in (header, *rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], ["---"] * len(header), *lines[1:]))


def _markdown_cell(value: str) -> str:
    text = _one_line(value).replace("|", "\\|")
    return f"`{text}`" if isinstance(value, Code) and text else text


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _title(check: str) -> str:
    return check.replace("_", " ")


_SEVERITIES = {"fail": "Failure", "quarantine": "Set aside", "warn": "Warning", "off": "Off"}
