"""A headless browser for the tests of pages: Chromium or Chrome, driven through Selenium."""

import importlib.util
import json
import shutil
import time
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> list[str]:
    """The packages that are missing for a browser."""
    return [name for name, found in (
        ("chromium", any(map(shutil.which, BROWSERS))),
        ("chromium-driver", shutil.which("chromedriver")),
        ("python3-selenium", importlib.util.find_spec("selenium"))) if not found]


class Browser:
    """One window; pages are opened as files."""

    def __init__(self, width: int = 1300, height: int = 900) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--disable-dev-shm-usage", f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                                       options=options)

    def close(self) -> None:
        """Ends the browser."""
        self.driver.quit()

    def open(self, page: Path, fragment: str = "") -> float:
        """Opens a page and waits until it is drawn; the seconds of computing that this took."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        self.driver.get("about:blank")
        self.driver.get(page.as_uri() + fragment)
        self.wait("return document.documentElement.dataset.ready")
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, script: str, seconds: float = 30) -> Any:
        """Waits until a script returns something that is true, and returns it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(script):
                return found
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for: {script}")

    def all(self, selector: str) -> list[Any]:
        """The elements that match."""
        return self.driver.find_elements("css selector", selector)

    def draw_everything(self) -> None:
        """Draws what waits until it comes into the window."""
        self.wait("for (const target of [...waiting.keys()]) makeNow(target);"
                  "return waiting.size === 0")

    def complaints(self) -> list[str]:
        """The messages of the console so far."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses asked for so far that are no part of the page."""
        events = [json.loads(entry["message"])["message"]
                  for entry in self.driver.get_log("performance")]
        asked = [event["params"]["request"]["url"] for event in events
                 if event["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))]
