"""The graph as a page that can be explored: one file that needs no network, drawn by layout.js and page.js with page.css."""

import json
from dataclasses import asdict
from html import escape
from pathlib import Path

from pipelines.lineage.provenance.model import Provenance
from rl_datasets.page.html import document

_SCRIPTS = (Path(__file__).with_name("layout.js"), Path(__file__).with_name("page.js"))
_STYLE = Path(__file__).with_name("page.css")
_MAIN = """<div class="tools">
<div class="find"><input type="search" id="find" role="combobox" aria-label="Find a thing by name, path or digest" aria-expanded="false"
aria-controls="results" autocomplete="off" placeholder="Find by name, path or digest ( / )">
<ul id="results" role="listbox" hidden></ul></div>
<button type="button" id="fit">Show all of it</button><button type="button" id="in" aria-label="larger">+</button>
<button type="button" id="out" aria-label="smaller">&minus;</button><button type="button" id="all" hidden>Back to everything</button>
<span class="quiet" id="count" aria-live="polite"></span></div>
<div class="tools kinds" id="kinds" role="group" aria-label="Kinds that are shown"></div>
<div class="view"><svg id="graph" role="group" aria-label="What was made from what"></svg>
<aside class="panel" id="panel" tabindex="-1" aria-label="Details"></aside></div>
<noscript><p>Scripts are off, and this page draws its graph with one. 'hindcast lineage' prints the same in a terminal.</p></noscript>"""

_HELP = (
    "What things were made from stands left of them. Keys: <code>/</code> find; arrows go to what a thing was made from (left) and into "
    "(right); <code>Enter</code> its details; <code>+</code> <code>-</code> <code>0</code> size; <code>Esc</code> back. "
    "Drag to move, wheel to zoom."
)


def render_page(graph: Provenance, title: str) -> str:
    """Returns the whole page; equal graphs give equal bytes."""
    header = f'<p class="overline">Hindcast lineage</p>\n<h1>{escape(title)}</h1>\n<p class="quiet">{_HELP}</p>'
    values = {
        "targets": list(graph.targets),
        "nodes": [asdict(node) for node in graph.nodes.values()],
        "links": [asdict(link) for link in graph.links],
    }
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")  # no tag can end the script
    code = "".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    script = f'<script type="application/json" id="data">{text}</script>\n<script>\n"use strict";\n{code}</script>'
    return document(f"Hindcast lineage: {title}", header, f"{_MAIN}\n{script}", "", _STYLE.read_text(encoding="utf-8"))
