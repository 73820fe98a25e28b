from pathlib import Path

import pytest

from tests.browser.conftest import (
    DESKTOP,
    PHONE,
    SCHEMES,
    is_wider_than_the_screen,
    overlapping_texts,
    serious_findings,
)
from tests.cli import said_by
from tests.workflow_rl.cage2.scoring.test_report import cage2_run
from tests.workflow_rl.reporting.test_report import make_run
from workflow_rl.cage2.scoring import report as cage2_report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    runs = [cage2_run(folder / f"mixed-{seed}") for seed in range(2)]
    runs.append(make_run(folder / "cart-pole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cage2_report, "EPISODES", 4)
        said_by("report", *runs, "--output", folder / "report.html")
    return folder / "report.html"


def test_every_chart_is_drawn(page, open_page):
    tab = open_page(page).tab
    charts = tab.locator(".chart")
    assert charts.count() == 17
    for i in range(charts.count()):
        chart = charts.nth(i)
        assert chart.locator("svg.main-svg").count() > 0
        assert chart.locator(".trace, .hm").count() > 0
        assert chart.locator(".plot").get_attribute("aria-label")


def test_every_link_leads_somewhere(page, open_page):
    tab = open_page(page).tab
    links = tab.evaluate("[...document.querySelectorAll('a')].map((one) => one.href)")
    assert len(links) > 12
    for link in links:
        address, _, section = link.partition("#")
        if section:
            assert tab.locator(f"#{section}").count() == 1
        else:
            replay = Path(address.removeprefix("file://"))
            assert open_page(replay).tab.text_content("#now") == "Step 0 of 100"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_accessible_and_never_wider_than_the_screen(page, open_page, size, scheme):
    tab = open_page(page, size, scheme).tab
    assert not is_wider_than_the_screen(tab)
    assert serious_findings(tab) == []


def test_charts_follow_the_scheme(page, open_page):
    tab = open_page(page).tab
    colour = "getComputedStyle(document.querySelector('.chart .xtick text')).fill"
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{colour} !== '{light}'")
    assert tab.evaluate(colour) == tab.evaluate("getComputedStyle(document.body).color")


def test_no_text_of_a_chart_lies_on_another(page, open_page):
    for size in (DESKTOP, PHONE):
        assert overlapping_texts(open_page(page, size).tab, ".chart") == []
