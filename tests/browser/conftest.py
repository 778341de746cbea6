"""One headless Chromium for all tests, with what a test wants to know of it: errors, requests, downloads.

Where there is no Chromium the tests are skipped with that reason, but where `CI` is set they fail: there it must be.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflinecli.report.plot.chart import Chart
from rooflinecli.report.plot.page import page
from rooflinecli.report.plot.scene import scene

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
PATIENCE = 60.0


class Tab:
    """A page that is open."""

    def __init__(self, driver: Any, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, what: str) -> Any:
        """Wait until a script says something true; the wait is bounded, and says what it waited for."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.run(script)
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited {PATIENCE:.0f} s for {what}")

    def view(self, width: int, height: int, scheme: str) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def show(self, drawn: Chart, folder: Path) -> None:
        """Open the page of a chart and wait until it is drawn and labelled."""
        (folder / "page.html").write_text(page(scene(drawn)), encoding="utf-8")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get((folder / "page.html").as_uri())
        self.until("return document.documentElement.dataset.ready", "the first drawing")
        self.settle()

    def settle(self) -> None:
        """Wait until the words have their places."""
        self.until("const p = document.getElementById('plot'); return p._fullLayout.annotations.length > 0", "labels")
        self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def click(self, id_: str) -> None:
        self.run("document.getElementById(arguments[0]).click()", id_)

    def tick(self, key: str, value: str) -> None:
        self.run(
            "document.querySelector(`input[data-key='${arguments[0]}'][value='${arguments[1]}']`).click()", key, value
        )
        self.settle()

    def downloaded(self, name: str) -> bytes:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            path = self.downloads / name
            if path.exists() and path.stat().st_size and not list(self.downloads.glob("*.crdownload")):
                return path.read_bytes()
            time.sleep(0.05)
        raise AssertionError(f"waited {PATIENCE:.0f} s for {name}")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Tab]]:
    found, driver_found = shutil.which("chromium"), shutil.which("chromedriver")
    if found is None or driver_found is None:
        missing = "Chromium and chromedriver are not installed (Debian: chromium, chromium-driver)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = found
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_found))
    driver.set_script_timeout(PATIENCE)

    def tab(downloads: Path) -> Tab:
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
        return Tab(driver, downloads)

    try:
        yield tab
    finally:
        driver.quit()


@pytest.fixture
def tab(chromium: Callable[[Path], Tab], tmp_path: Path) -> Tab:
    (tmp_path / "downloads").mkdir()
    return chromium(tmp_path / "downloads")
