"""The page in a real browser: a step is clicked, keys step on, and nothing goes wrong."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mstarc.cli.main import run_command
from tests.support.golden import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    target = tmp_path / "orpheus.html"
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["show", spec, "--as", "html", "-o", str(target)]) == 0
    opened = browser.new_page(viewport={"width": 1440, "height": 1000})
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    opened.on("request", lambda r: problems.append(r.url) if r.url[:5] != "file:" else None)
    opened.goto(target.as_uri())
    yield opened
    opened.close()
    assert problems == []


def test_a_click_on_a_step_shows_states_streams_and_the_line(page: Any) -> None:
    page.locator("#log button", has_text="vocoder reads a chunk of codes").nth(1).click()
    assert "vocoder · listen" in page.inner_text("#now")
    assert page.locator(".machine[data-machine=speak] .pill").inner_text() != ""
    assert page.locator(".state.here").evaluate_all("all => all.map(s => s.dataset.state)") == [
        "decode",
        "listen",
    ]
    cells = page.locator("#streams .cell")
    assert cells.count() == 35
    assert page.locator("#streams .cell.context").count() == 21
    assert page.locator("#streams .cell.fresh").count() == 7
    assert "each codes as window run vocode(window)" in page.inner_text("#source .row.at")
    assert page.locator("#outputs .cell").count() == 1


def test_keys_step_and_the_end_says_so(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#count").startswith("step 2 of ")
    page.keyboard.press("n")
    assert "enters state decode" in page.inner_text("#now")
    page.keyboard.press("End")
    assert "the request is finished" in page.inner_text("#now")
    assert page.locator(".pill.done").count() == 2


def test_who_cannot_see_is_told(page: Any) -> None:
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#now", "aria-live") == "polite"
    assert "frontend.encode" in (page.get_attribute("#slider", "aria-valuetext") or "")
    assert page.locator("[aria-current=step]").count() == 2  # a block, and a line of the list
    unnamed = page.locator("button").evaluate_all(
        "all => all.filter(b => !(b.getAttribute('aria-label') || b.textContent.trim())).length"
    )
    assert unnamed == 0


def test_light_and_dark(page: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
