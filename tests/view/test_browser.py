"""Every view in a real Chromium, on both engines: what a person sees there."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from graphmem import Episode, Memory
from graphmem.addresses import listening
from graphmem.search.embedding import open_embedder
from graphmem.view.page import build
from tests.view.chromium import found, opened
from tests.view.test_page import SCRIPT, TOKEN, learn

PHONE = {"width": 375, "height": 740, "deviceScaleFactor": 1, "mobile": True}


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    """A browser without a window."""
    there = found()
    if there is None:
        missing = "no Chromium: apt-get install chromium chromium-driver"
        if os.environ.get("GRAPHMEM_REQUIRE_CHROMIUM") == "1":
            pytest.fail(missing)
        print(f"\nPAGE IN CHROMIUM SKIPPED: {missing}", file=sys.__stderr__)
        pytest.skip(missing)
    window = opened(*there)
    yield window
    window.quit()


@contextmanager
def served(memory: Memory, *, write: bool = False) -> Iterator[str]:
    """The address of the page of a memory."""
    socket = listening("127.0.0.1", 0)
    host = f"127.0.0.1:{socket.getsockname()[1]}"
    app = build(memory, TOKEN, {host}, write=write)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    try:
        yield f"http://{host}/"
    finally:
        server.should_exit = True
        thread.join()
        socket.close()


class Person:
    """Who looks at the page."""

    def __init__(self, browser: webdriver.Chrome, address: str, pictures: Path) -> None:
        self.browser = browser
        self._address = address
        self._pictures = pictures

    def open(self) -> None:
        """Open the address with the token, as the command prints it."""
        self.browser.get(f"{self._address}?token={TOKEN.replace(' ', '%20')}")

    def go(self, view: str) -> None:
        """Open a view."""
        self.browser.get(f"{self._address}#/{view}")

    def press(self, name: str) -> None:
        """Press a button, by the keyboard."""
        self.browser.find_element(By.XPATH, f"//main//button[text()='{name}']").send_keys(
            Keys.ENTER
        )

    def count(self, what: str) -> int:
        """How many elements there are."""
        return len(self.browser.find_elements(By.CSS_SELECTOR, f"main {what}"))

    def until(self, happens: Callable[[], Any]) -> Any:
        """Wait for it."""
        return WebDriverWait(self.browser, 120, ignored_exceptions=[Exception]).until(
            lambda _: happens()
        )

    def seen(self, pattern: str) -> str:
        """Wait until the view says that, and return all it says."""

        def there() -> str | None:
            text = self.browser.find_element(By.TAG_NAME, "main").text
            return text if re.search(pattern, text, re.DOTALL) else None

        try:
            found = self.until(there)
        except TimeoutException:
            name = re.sub(r"\W+", "-", pattern)[:40]
            self.browser.save_screenshot(str(self._pictures / f"{name}.png"))
            raise
        nameless = self.browser.execute_script(NAMELESS)
        assert nameless == [], "every control and picture has a name for who does not see it"
        return str(found)

    def said(self) -> list[str]:
        """What the browser complained of."""
        rows = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [row["message"] for row in rows]


NAMELESS = """
return [...document.querySelectorAll("a, button, input, select, progress, [role=img]")]
  .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim()))
  .map((one) => one.outerHTML)
"""
OVERLAPPING = """
const cy = document.querySelector(".graph")._cyreg.cy;
const boxes = cy.nodes().filter((node) => !node.hasClass("quiet"))
  .map((node) => node.renderedBoundingBox({ includeNodes: false, includeOverlays: false }));
return boxes.filter((a, i) => boxes.some((b, j) =>
  j > i && a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2)).length;
"""


def test_every_view_shows_what_the_memory_holds(
    memory: Memory, chromium: webdriver.Chrome, tmp_path: Path
) -> None:
    learn(memory)
    memory.policies.update({"page": "home"}, "open", 1.0, next_state={"page": "fare"}, agent="ada")
    with served(memory) as address:
        look_at_all(Person(chromium, address, tmp_path), chromium)
        [long] = memory.episodes(agent=SCRIPT)
        [item] = memory.strategies("refund-1", limit=1)
        views = {
            "": "What works best",
            "?q=refund%20a%20cancelled%20flight": "Try, best",
            "lessons": "Lessons",
            "trust": "trusted",
            f"show/{long.id}": "Steps",
            f"item/{item.id}": "Against it",
            f"near/{item.id}": "All of it",
        }
        look_on_a_phone(Person(chromium, address, tmp_path), chromium, views)


def test_what_was_left_does_not_replace_what_was_opened(
    chromium: webdriver.Chrome, tmp_path: Path
) -> None:
    with Memory.open("memory:") as memory, served(memory) as address:
        person = Person(chromium, address, tmp_path)
        person.open()
        person.seen("This memory is empty")
        chromium.execute_script(SLOW_LESSONS)
        chromium.execute_async_script("""
            location.hash = "#/lessons"; const done = arguments[0];
            setTimeout(() => { location.hash = "#/levels"; setTimeout(done, 700); }, 50);
        """)
        assert "No levels" in chromium.find_element(By.TAG_NAME, "main").text


SLOW_LESSONS = """
const fetched = window.fetch;
window.fetch = async (url, given) => {
  if (url.includes("lessons")) await new Promise((ready) => setTimeout(ready, 400));
  return fetched(url, given);
};
"""


def look_on_a_phone(person: Person, chromium: webdriver.Chrome, views: Mapping[str, str]) -> None:
    """No view is wider than a phone, even one of words that are."""
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    try:
        for view, said in views.items():
            person.go(view)
            person.seen(said)
            wide = chromium.execute_script("return document.documentElement.scrollWidth")
            assert wide <= PHONE["width"], f"{view or 'ask'} is wider than a phone"
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def look_at_all(person: Person, chromium: webdriver.Chrome) -> None:
    """Look at each view, as a person with refunds would."""
    seen, go, press = person.seen, person.go, person.press
    person.open()
    text = seen("What works best.*check the fare rules first")
    assert "4 of 4" in text
    assert SCRIPT in text, "a script is shown as its text"

    chromium.find_element(By.TAG_NAME, "body").send_keys("/")
    chromium.switch_to.active_element.send_keys("refund a cancelled flight", Keys.ENTER)
    assert "refund at once" in seen("Try, best first.*check the fare rules first")
    chromium.find_element(By.LINK_TEXT, "check the fare rules first").send_keys(Keys.ENTER)
    text = seen("What would change this.*Against it")
    assert "4 of 4 trials worked" in text
    assert "On “refund a cancelled flight”" in text
    person.until(lambda: person.count("svg .band"))  # the bounds over time, which come later

    chromium.find_element(By.LINK_TEXT, "What is around it, as a graph").click()
    assert "refund a cancelled flight" in seen("nodes, .* edges.*tried on")
    assert chromium.execute_script(OVERLAPPING) == 0
    before = person.count("tbody tr")
    press("Open")
    person.until(lambda: person.count("tbody tr") > before)
    assert chromium.execute_script(OVERLAPPING) == 0
    chromium.back()
    seen("What would change this")
    of_task, of_episode, *_ = chromium.find_elements(By.LINK_TEXT, "refund a cancelled flight")
    assert "#/show/" in str(of_task.get_attribute("href")), "a task with a key has its wording"
    of_episode.send_keys(Keys.ENTER)
    seen("episode.*✓ worked.*score 1.*check the fare rules first.*Steps.*open.*recorded at")
    chromium.find_element(By.LINK_TEXT, "refund a cancelled flight").send_keys(Keys.ENTER)
    seen("task.*What was tried on it.*4 of 4.*The latest episodes.*✗ failed")
    go("?q=xylophone%20quartz")
    seen("No task in this memory is like this one.*What works best.*check the fare rules first")
    go("near/unknown")
    seen("That did not work.*no node with the id 'unknown'")

    go("lessons")
    assert "PolicyError" in seen("What works.*What fails.*Rules.*Mistakes")
    go("policies")
    seen("States with the best values.*home")
    chromium.find_element(By.PARTIAL_LINK_TEXT, "home").click()
    seen("All states.*open.*page: fare")
    chromium.find_element(By.LINK_TEXT, "open").send_keys(Keys.ENTER)
    seen("policy of ada.*Updates of its value.*TD error.*0.1000.*1.0000")
    go("levels")
    seen("Levels, and what flows where.*working")
    assert chromium.find_elements(By.CSS_SELECTOR, "main svg .arrow")
    go("trust")
    seen("Can it be trusted")
    press("Verify")
    seen("All numbers follow from the facts")
    press("Calibrate")
    seen("Over 9 episodes the Brier score is")

    person.go("lessons")
    seen("What works")
    go("trust")
    seen("All numbers follow from the facts.*|Over 9 episodes"), "who comes back finds the answers"

    assert [line for line in person.said() if "404" not in line] == []


def test_a_thousand_episodes_are_behind_it(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    with Memory.open("memory:", embedder=open_embedder("hashing")) as memory:
        memory.learn_many(
            Episode(
                task=f"answer question {number % 500}",
                strategy=["read the question twice", f"look in book {number % 100}"],
                success=number % 3 > 0,
                agent=f"agent {number % 4}",
            )
            for number in range(1_000)
        )
        with served(memory, write=True) as address:
            person = Person(chromium, address, tmp_path)
            person.open()
            person.seen("1,000 episodes on 500 tasks, 67% of them succeeded; 101 strategies")
            assert "read the question twice" in person.seen("What works best")
            chromium.find_element(By.LINK_TEXT, "read the question twice").click()
            person.seen("666 of 1,000 trials.*trial 1,000.*the order in which it was learned")
            chromium.find_element(By.LINK_TEXT, "What is around it, as a graph").click()
            person.seen("25 nodes.*There is more; these have the most trials")
            person.press("Show up to 200")
            person.seen("200 nodes.*too many to draw.*most trials.*Show all")
            assert chromium.execute_script(OVERLAPPING) == 0
            person.go("trust")
            person.seen("Success of agents")
            person.press("Calibrate")
            person.press("Verify")
            person.seen("Over 1,000 episodes")
            person.seen("All numbers follow from the facts")
            person.press("Rebuild")
            person.seen("Done: every number is derived")
            [episode] = memory.episodes(limit=1)
            person.go(f"show/{episode.id}")
            person.seen("All that is known of it")
            person.press("Erase this episode")
            person.press("Erase it for good")
            person.seen("It was erased")
            memory.close()
            person.go("lessons")
            person.seen("That did not work.*closed")
        person.go("levels")
        person.seen("That did not work.*is graphmem ui still running")
        person.said()
