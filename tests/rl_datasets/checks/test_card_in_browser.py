"""Data cards in a real browser: no script error, no request, nothing that is cut off, in a wide and a narrow window, light and dark."""

import dataclasses

import pytest

from rl_datasets.checks import CheckParams, Expected
from rl_datasets.checks.gate import run_gate
from rl_datasets.checks.output import write_report
from rl_datasets.manifest import read_manifest
from rl_datasets.rlds import RldsReader
from tests.rl_datasets.checks.card_data import SPECS, make_episodes, write_data

UNREADABLE = """
const seen = [];
for (const image of document.images) if (!image.complete || !image.naturalWidth) seen.push("no picture: " + image.alt);
for (const svg of document.querySelectorAll("svg.chart")) {
  const frame = svg.closest("figure").getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const box = text.getBoundingClientRect();
    if (box.right > frame.right + 1 || box.left < frame.left - 1) seen.push("outside of its figure: " + text.textContent);
  }
}
return seen;
"""


@pytest.fixture(scope="module", params=SPECS)
def card(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    episodes = make_episodes(request.param)
    long = "a policy with a name that is much longer than any chart is wide"
    episodes[1] = dataclasses.replace(episodes[1], metadata={**episodes[1].metadata, "policy": long})
    raw = write_data(folder, request.param, episodes)
    expected = Expected.of(SPECS[request.param], read_manifest(raw))
    report, shown = run_gate(RldsReader(raw), ["raw"], expected, CheckParams())
    write_report(folder / "card", request.param, raw, expected, CheckParams(), report, shown)
    return folder / "card" / "card.html"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_card_stands_in_a_browser(card, browser, width, dark):
    opened = browser.open(card, width, dark)
    assert (opened.errors, opened.requests) == ([], [])
    assert not browser.is_wider_than_its_window()
    assert browser.run(UNREADABLE) == []
    ink, paper = browser.run("const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]")
    assert (brightness(ink) > brightness(paper)) == dark


@pytest.mark.slow
def test_every_link_within_a_card_leads_somewhere(card, browser):
    browser.open(card)
    links = "return [...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))"
    lost = [name for name in browser.run(links) if not browser.run("return document.getElementById(arguments[0]) !== null", name)]
    assert lost == []
    beside = browser.run("return [...document.querySelectorAll('footer a')].map(a => a.getAttribute('href'))")
    assert all((card.parent / name).is_file() for name in beside)


def brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])
