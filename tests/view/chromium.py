"""Debian's Chromium, without a window."""

from __future__ import annotations

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def found() -> tuple[str, str] | None:
    """Return where Chromium and its driver are, if both are there."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


def opened(browser: str, driver: str) -> webdriver.Chrome:
    """Return a new browser."""
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for name in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{name}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    window.set_window_size(1200, 1000)
    return window
