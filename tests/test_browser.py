"""The browser that pages are tested in notices what a page must not do."""

import pytest

PAGE = """<!DOCTYPE html><title>bad</title><style>body { background: white; margin: 0 }
@media (prefers-color-scheme: dark) { body { background: black } }</style>
<div style="width: 800px">wide</div><img src="http://127.0.0.1:9/beacon.png"><img src="data:,"><script>lost()</script>"""


@pytest.mark.slow
def test_the_browser_tells_errors_requests_width_and_colours(browser, tmp_path):
    page, shot = tmp_path / "page.html", tmp_path / "shot.png"
    page.write_text(PAGE)
    opened = browser.open(page, width=390, dark=True)
    assert opened.requests == ["http://127.0.0.1:9/beacon.png"]
    assert any("lost is not defined" in error for error in opened.errors)
    assert browser.is_wider_than_its_window()
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(0, 0, 0)"
    browser.screenshot(shot)
    assert shot.read_bytes().startswith(b"\x89PNG")
    page.write_text("<!DOCTYPE html><title>good</title>")
    opened = browser.open(page)
    assert (opened.errors, opened.requests, browser.is_wider_than_its_window()) == ([], [], False)
