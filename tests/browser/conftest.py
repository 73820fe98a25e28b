"""A real browser, where there is one: `bash scripts/check_pages.sh` sees to it."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SCHEMES = ("light", "dark")
DESKTOP, PHONE = (1280, 900), (360, 780)


class Opened(NamedTuple):
    """A page in a tab. said: what it wrote to the console. requested: what it asked for."""

    tab: Any
    said: list[str]
    requested: list[str]


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if "WORKFLOW_RL_NEEDS_BROWSER" not in os.environ:
        pytest.importorskip("playwright.sync_api")
        pytest.importorskip("axe_playwright_python")
        if executable is None:
            pytest.skip("there is no chromium")
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a file in a tab of its own; at the end no tab may have complained, nor asked for
    anything but its file."""
    tabs: list[tuple[Opened, str]] = []

    def open_page(
        path: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light", at: str = ""
    ) -> Opened:
        width, height = size
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        opened = Opened(tab, [], [])
        tab.on("console", lambda message: opened.said.append(message.text))
        tab.on("pageerror", lambda error: opened.said.append(str(error)))
        tab.on("request", lambda request: opened.requested.append(request.url))
        tab.goto(path.as_uri() + at)
        tabs.append((opened, path.as_uri()))
        return opened

    yield open_page
    for opened, address in tabs:
        opened.tab.close()
        assert opened.said == []
        assert [url for url in opened.requested if not url.startswith("data:")] == [address]


def serious_findings(tab: Any) -> list[str]:
    """axe-core's, of serious and critical impact."""
    from axe_playwright_python.sync_playwright import Axe

    # All that can be unfolded is looked at too.
    tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = Axe().run(tab).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def is_wider_than_the_screen(tab: Any) -> bool:
    return bool(tab.evaluate("document.documentElement.scrollWidth > innerWidth"))


def overlapping_texts(tab: Any, charts: str) -> list[list[str]]:
    """The pairs of texts that lie on one another in the charts of a selector."""
    pairs: list[list[str]] = tab.evaluate(
        """(charts) => {
          const meet = (a, b) => a.x < b.right && b.x < a.right && a.y < b.bottom && b.y < a.bottom;
          return [...document.querySelectorAll(charts)].flatMap((chart) => {
            const texts = [...chart.querySelectorAll("text")].filter((one) => one.textContent);
            const boxes = texts.map((one) => one.getBoundingClientRect());
            const pairs = boxes.flatMap((a, i) => boxes.slice(i + 1).map((b, k) => [i, i + 1 + k]));
            return pairs.filter(([i, k]) => meet(boxes[i], boxes[k]))
              .map((pair) => pair.map((i) => texts[i].textContent));
          });
        }""",
        charts,
    )
    return pairs
