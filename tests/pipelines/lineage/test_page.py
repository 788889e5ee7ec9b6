"""The page of lineage in a real browser: a thing is found and followed to its source, a break is red, and 500 things can be read."""

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.provenance.model import Draft, Fault, Kind, Node, Provenance, node_id
from pipelines.lineage.provenance.page import render_page
from tests.pipelines.lineage.small_project import copy, write

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")]  # DVC's use of pygtrie
RED = "rgb(179, 38, 30)"


@pytest.fixture
def broken_page(history, tmp_path, monkeypatch) -> Path:
    """The page of a project in which one number of the split was changed by hand."""
    own = copy(history, tmp_path / "own")
    monkeypatch.chdir(own.root)
    table = own.root / "artifacts/splits/walks/1.0.0/episodes.csv"
    text = table.read_text()
    table.unlink()  # DVC may have linked it to its cache
    write(table, text.replace("w3,train,9", "w3,train,99"))
    assert CliRunner().invoke(app, ["lineage", "walks_iql:iqm", "--format", "html", "--out", "page.html"]).exit_code == 0
    return own.root / "page.html"


def project_of(size: int) -> Provenance:
    """Data sets with three experiments of five seeds each, at least `size` things, a break in the second data set's split."""
    draft, number = Draft(), 0

    def add(kind: Kind, name: str, how: str = "", *sources: str) -> str:
        made = draft.add(
            Node(node_id(kind, name), kind, name, paths=(f"artifacts/{name}",), digests={"content": f"{abs(hash(name)):064x}"})
        )
        draft.link(made, how, *sources)
        return made

    commit = add(Kind.COMMIT, "0123456789", "by", add(Kind.PERSON, "Ada"))
    shown = []
    while number * 30 < size:
        data = add(Kind.DATASET, f"data_{number}", "collected in", add(Kind.ENVIRONMENT, "CartPole-v1"))
        split = add(Kind.SPLIT, f"data_{number}", "split from", data)
        for learner in ("iql", "cql", "bc"):
            key = f"data_{number}_{learner}"
            training = add(Kind.TRAINING, key, "trained on", split)
            draft.link(training, "with", add(Kind.PARAMETERS, f"parameters of train@{key}", "last changed in", commit))
            models = [add(Kind.MODEL, f"{key}/seed_{seed}", "learnt in", training) for seed in range(5)]
            shown.append(add(Kind.METRIC, f"{key}:iqm", "computed from", add(Kind.EVALUATION, key, "played", *models)))
        number += 1
    add(Kind.REPORT, "report", "shows", *shown)
    return draft.finish().with_faults({"split:data_1": [Fault("broken", "output artifacts/data_1", "md5 is abc, dvc.lock says def")]})


def overlapping(browser) -> int:
    """How many pairs of boxes of the graph overlap."""
    return browser.run(
        """const boxes = [...document.querySelectorAll(".node rect.box")].map((box) => box.getBoundingClientRect());
        let found = 0;
        boxes.forEach((one, index) => boxes.slice(index + 1).forEach((two) => {
          if (one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 1 && two.top < one.bottom - 1) found += 1;
        }));
        return found;"""
    )


def text_of(browser, selector: str) -> str:
    return browser.run("return document.querySelector(arguments[0]).innerText", selector)


def test_a_thing_is_found_followed_to_its_source_and_a_break_is_red(browser, broken_page):
    opened = browser.open(broken_page)
    assert (opened.errors, opened.requests, browser.is_wider_than_its_window()) == ([], [], False)
    told = browser.run("return [...document.querySelectorAll('#panel .fault')].map((fault) => fault.innerText)")
    (planted,) = (fault for fault in told if "artifacts/splits/walks" in fault and fault.startswith("split walks"))
    assert "episodes.csv changed" in planted

    style = "return getComputedStyle(document.querySelector(arguments[0])).stroke"
    assert browser.run(style, '.node[data-id="split:walks"] rect.box') == RED
    assert browser.run(style, 'path.link[data-source="split:walks"]') == RED
    assert browser.run(style, 'path.link[data-source="evaluation:walks_iql"]') != RED
    assert "episodes.csv changed" in browser.run(
        "return document.querySelector(arguments[0]).textContent", 'path.link[data-source="split:walks"] title'
    )

    body = browser.driver.find_element("tag name", "body")
    body.send_keys("/")
    browser.driver.switch_to.active_element.send_keys("iql seed_0", Keys.ENTER)
    assert text_of(browser, "#panel h2") == "walks_iql/seed_0"
    assert "model" in text_of(browser, "#panel small")
    for name in ("walks_iql", "walks", "walks", "data/walks.csv"):  # made from, made from, made from ...
        button = browser.driver.find_element(
            "xpath", f"//aside//h3[text()='Made from']/following-sibling::ul[1]//button[b[text()='{name}']]"
        )
        button.click()
        assert text_of(browser, "#panel h2") == name
    assert "source file" in text_of(browser, "#panel small")
    assert browser.run("return document.querySelector('.node.selected').dataset.id") == "source file:data/walks.csv"


def test_keys_move_through_the_graph_and_a_digest_is_copied_whole(browser, broken_page):
    browser.open(broken_page)
    browser.run("document.querySelector('.node.target').focus()")
    active = browser.driver.switch_to.active_element
    active.send_keys(Keys.ARROW_LEFT)
    assert browser.run("return document.activeElement.dataset.id") == "evaluation:walks_iql"
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert browser.run("return document.activeElement.dataset.id").startswith(("model:", "code:"))
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.run("return document.activeElement.dataset.id") == "evaluation:walks_iql"
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert "What the audit says" in text_of(browser, "#panel")
    browser.run(
        "location.hash = ''; document.querySelector('[data-id=\"data set:walks\"]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    )
    shown, whole = browser.run(
        """const copied = []; document.execCommand = () => { copied.push(document.activeElement.value); return true; };
        Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => { window.copied = text; }}, configurable: true});
        document.querySelector("#panel dd button").click();
        return [document.querySelector("#panel dd code").innerText, window.copied];"""
    )
    assert len(whole) == 64
    assert whole.startswith(shown.rstrip("\u2026"))


@pytest.mark.parametrize(("size", "width", "dark"), [(20, 1280, False), (20, 390, True), (500, 1280, True), (500, 390, False)])
def test_the_graph_is_readable_at_any_size(browser, tmp_path, size, width, dark):
    page = tmp_path / "page.html"
    page.write_text(render_page(project_of(size), "What everything was made from"), encoding="utf-8")
    opened = browser.open(page, width=width, dark=dark)
    assert (opened.errors, opened.requests, browser.is_wider_than_its_window()) == ([], [], False)
    assert overlapping(browser) == 0
    letters = browser.run("return document.querySelector('.node text').getBoundingClientRect().height")
    assert letters >= 9  # pixels
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(20, 23, 27)") is dark
    find = browser.driver.find_element("id", "find")
    find.send_keys("data_0_iql/seed_3", Keys.ENTER)  # of a kind that is left out at first where there are many
    box = browser.run(
        """const box = document.querySelector(".node.selected").getBoundingClientRect();
        const view = document.getElementById("graph").getBoundingClientRect();
        return box.left >= view.left && box.right <= view.right && box.top >= view.top && box.bottom <= view.bottom;"""
    )
    assert box
    browser.run("[...document.querySelectorAll('#panel button')].find((button) => button.innerText.startsWith('Show only')).click()")
    assert int(text_of(browser, "#count").split()[0]) < 20
    if size > 30:
        browser.run("document.getElementById('all').click()")
        assert browser.run("return document.querySelectorAll('.node').length") > 100
        browser.run("[...document.querySelectorAll('#kinds button')].find((button) => button.innerText.startsWith('model')).click()")
        assert overlapping(browser) == 0
