"""A real browser for tests of pages: Debian's Chromium without a window, which may reach nothing, and tells what it tried to."""

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@dataclass
class Opened:
    """What happened while a page was opened: every script error and warning, and every address that was asked for but its own."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Browser:
    """Opens pages and looks at them. `driver` is selenium's, for whatever else a test asks."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path | str, width: int = 1280, dark: bool = False) -> Opened:
        """Opens a file, or an address, in a window of this width, and waits until it is loaded."""
        url = page.resolve().as_uri() if isinstance(page, Path) else page
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self._drain()
        self.driver.get(url)
        return self._drain(url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Returns what a script returns on the open page."""
        return self.driver.execute_script(script, *arguments)

    def is_wider_than_its_window(self) -> bool:
        """Whether the page scrolls sideways as a whole, as no page should."""
        return bool(self.run("return document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def screenshot(self, path: Path) -> None:
        """Writes the whole page, as far as it goes down, as a PNG file."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _drain(self, url: str = "") -> Opened:
        """Takes what was logged since it was last asked."""
        opened = Opened([entry["message"] for entry in self.driver.get_log("browser")])
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked = message["params"]["request"]["url"]
                if asked.split("#")[0] != url.split("#")[0] and not asked.startswith("data:"):
                    opened.requests.append(asked)
        return opened


def open_browser(profile: Path) -> Iterator[Browser]:
    """Yields a browser with a new profile in this folder. Skips the test where Chromium, its driver or selenium is not there."""
    missing = [name for name, path in (("chromium", CHROMIUM), ("chromedriver", DRIVER)) if path is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
