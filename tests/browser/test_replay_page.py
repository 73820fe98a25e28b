import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import (
    DESKTOP,
    PHONE,
    SCHEMES,
    Opened,
    is_wider_than_the_screen,
    overlapping_texts,
    serious_findings,
)
from tests.cli import said_by
from tests.workflow_rl.cage2.scoring.test_recording import save_run
from tests.workflow_rl.cage2.scoring.test_replay import data_of
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.cyborg.red_cyborg import ShownRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS, RED_OBS_SIZE
from workflow_rl.cage2.scoring.players import load_trained
from workflow_rl.cage2.scoring.protocol import cell_spec

MINUS = "\u2212"

EPISODES = range(10)
SHOWN = """() => {
  const fields = Object.fromEntries([...document.querySelectorAll("[data-field]")]
    .map((one) => [one.dataset.field, one.textContent]));
  const texts = (of, parts) => [...of.querySelectorAll(parts)].map((one) => one.textContent);
  const hosts = Object.fromEntries([...document.querySelectorAll(".truth tbody tr")]
    .map((row) => [row.dataset.host, texts(row, "td")]));
  const cards = Object.fromEntries([...document.querySelectorAll(".host")]
    .map((card) => [card.dataset.host, [...texts(card, ".red, .saw"), ...texts(card, ".decoys")]]));
  const options = [...document.querySelectorAll(".options:not(.reds) li")].map((one) =>
    [...one.querySelectorAll("span:not(.bar)")].map((span) => span.textContent));
  const reds = document.querySelector(".reds").textContent;
  return {...fields, hosts, cards, options, reds, now: document.getElementById("now").textContent};
}"""
SUCCESS = {"TRUE": "succeeded", "FALSE": "failed", "UNKNOWN": ""}
DOES = {
    "DiscoverRemoteSystems": "sweeps",
    "DiscoverNetworkServices": "scans",
    "ExploitRemoteService": "exploits",
    "PrivilegeEscalate": "escalates on",
    "Impact": "impacts",
    "Sleep": "sleeps",
}


def write(page: Path, *arguments: str | Path) -> Path:
    said_by("replay", *arguments, "--output", page)
    return page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("replays")
    agent = folder / "agent.safetensors"
    save_run(agent)
    return {
        "one": write(folder / "one.html", agent),
        "two": write(folder / "two.html", agent, "--against", "react-restore"),
        # The last two of its steps are not shown.
        "cage4": write(
            folder / "cage4.html", "sleep", "--env", "workflow_rl/CAGE4-v0",
            *("--against", "rules", "--max-steps", "102", "--seed", "6"),
        ),
    }  # fmt: skip


def number(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")  # noqa: RUF001 (the page's minus)


def expected_hosts(
    env: Cage2Env, obs: Any, row: list[int]
) -> Iterator[tuple[str, list[Any], list[str]]]:
    """Of every host, what is true in CybORG, what Red knows and what Blue saw, in the words of the
    page. row: see `ShownRed.after`."""
    network = cyborg_network(env)
    stopped = 1043 not in [process[0] for process in network["Op_Server0: processes"]]
    of_red = np.reshape(row[3 : 3 + 5 * 13], (13, 5))[:, 3:].sum(1).tolist()
    for host, bits, thought in zip(HOSTS, obs.reshape(13, 4).tolist(), of_red, strict=True):
        rights = [privileged for _, privileged in network[f"{host}: red sessions"]]
        session = "privileged" if any(rights) else "user" if rights else ""
        more = ", OT service stopped" if stopped and host == "Op_Server0" else ""
        has = (session or "nothing") + ", files" * network[f"{host}: red files"] + more
        ports = network[f"{host}: ports Red knows"]
        known = "its address" if host in network["addresses Red knows"] else "nothing"
        if ports is not None:
            known = f"ports {', '.join(map(str, ports))}"
        thinks = ("", "user", "privileged")[thought]
        if thinks or session:
            known += f"; session: {thinks}" if thinks else "; no session"
        known = "≠\u00a0" * (thinks != session) + known
        belief = {0: "clean", 1: "unknown", 2: "user", 3: "privileged"}[bits[2] + 2 * bits[3]]
        seen = belief + {0: "", 1: ", scan", 3: ", exploit"}[bits[0] + 2 * bits[1]]
        differs = belief != {"": "clean"}.get(session, session)
        decoys = network[f"{host}: services"].keys() - {"OTService"}
        names = sorted(name.removeprefix("Decoy") for name in decoys)
        yield (
            host,
            [has, known, "≠\u00a0" * differs + seen, names],
            [f"Red: {session or 'no session'}{more}", f"Blue saw: {seen}"],
        )


@pytest.mark.parametrize("episode", EPISODES)
@pytest.mark.parametrize("red_agent", RED_AGENTS[:2])
def test_the_page_equals_the_environment_step_for_step(tmp_path, open_page, red_agent, episode):
    """The episode that `evaluate` plays, on CybORG, beside what the keys bring up on the page.

    In turns an agent with a network and those that reach what it seldom does.
    """
    blue: Any = [tmp_path / "agent.safetensors", "react-restore", "random", "sleep"][episode % 4]
    save_run(tmp_path / "agent.safetensors")
    given = ["--red-agent", red_agent, "--seed", "3", "--episode", str(episode)]
    page = write(tmp_path / "replay.html", blue, *given)
    actor = load_trained(blue)[0] if isinstance(blue, Path) else None
    tab = open_page(page).tab
    spec = cell_spec(3, 100, red_agent, episode)
    env = Cage2Env(red_agent, 100, obs_dtype="uint8")
    obs, info = env.reset(seed=spec.env_seed)
    if actor is None:
        from workflow_rl.cage2.agent.scripted import make_scripted_agent

        scripted = make_scripted_agent(blue)
        scripted.reset(spec.action_seed)
    else:
        actor.reset(spec.action_seed)
    total, truncated, step, shown_red = 0.0, False, 0, ShownRed(env)
    of_red = shown_red.after("Sleep")
    assert tab.evaluate(SHOWN)["now"] == "Step 0 of 100"
    while not truncated:
        action = int(actor.act(obs[None])[0][0]) if actor else scripted.act(obs, info)
        obs, reward, _, truncated, info = env.step(action)
        total, step = total + reward, step + 1
        told = env.describe(truth=True)
        tab.keyboard.press("ArrowRight")
        shown = tab.evaluate(SHOWN)
        assert shown["now"] == f"Step {step} of 100"
        assert shown["blue"] == told["blue_action"]
        assert shown["blue-success"] == SUCCESS[told["blue_success"]]
        name, _, where = told["red_action"].partition(" ")
        target = "" if not where else f" {_place(env, where)}"
        assert shown["red"] == DOES[name] + target
        assert shown["red-success"] == SUCCESS[told["red_success"]]
        caught = ", ".join(told["suspicious_hosts"])
        assert shown["caught"] == (f"a process on {caught}" if caught else "no process")
        assert (shown["reward"], shown["return"]) == (number(reward), number(total))
        mask = of_red["red_row"][RED_OBS_SIZE:]
        assert shown["n-possible"] == f"{sum(mask)} of 44 actions were possible"
        assert json.loads(shown["shown-to-red"]) == of_red["red_observation"]
        of_red = shown_red.after(shown["reds"].removesuffix(" (chosen)"))
        for host, row, card in expected_hosts(env, obs, of_red["red_row"]):
            *facts, decoys = shown["hosts"][host]
            names = [] if decoys == "none" else decoys.split(", ")
            # Some can be set up twice; CybORG lists their service once.
            assert [*facts, sorted(set(names))] == row, (step, host)
            n = f"{len(names)} decoy{'s' * (len(names) > 1)}" if names else ""
            assert shown["cards"][host] == [*card, n], (step, host)
        if actor is not None:
            assert shown["options"][0][0] == f"{ACTION_NAMES[action]} (chosen)"


def _place(env: Cage2Env, where: str) -> str:
    """The host or the subnet of an address, if it is one."""
    network = cyborg_network(env)
    subnets = {cidr: name for name, cidr in network["subnets"].items()}
    addresses = {network[f"{host}: address"]: host for host in HOSTS}
    return subnets.get(where) or addresses.get(where) or where


def now(opened: Opened) -> int:
    """The step that is shown, everywhere the same."""
    tab = opened.tab
    step = int(tab.input_value("#slider"))
    assert tab.text_content("#now") == f"Step {step} of 100"
    marked = tab.evaluate(
        "[...document.querySelectorAll('tr[aria-current]')].map((r) => r.rowIndex)"
    )
    n_sides = tab.locator(".side").count()
    assert marked == ([step] * n_sides if step else [])
    return step


def test_keys_slider_and_buttons(pages, open_page):
    opened = open_page(pages["two"])
    tab = opened.tab
    for key, step in [("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 100)]:
        tab.keyboard.press(key)
        assert now(opened) == step
    for key, step in [("ArrowRight", 100), ("Home", 0), ("ArrowLeft", 0)]:
        tab.keyboard.press(key)
        assert now(opened) == step
    tab.focus("#slider")
    tab.keyboard.press("ArrowRight")
    assert now(opened) == 1  # Once, not by the slider and the page.
    tab.evaluate("""() => {
      const slider = document.getElementById("slider");
      slider.value = 57; slider.dispatchEvent(new Event("input"));
    }""")
    assert now(opened) == 57
    for button, step in [("#back", 56), ("#forward", 57), ("#first", 0), ("#last", 100)]:
        tab.click(button)
        assert now(opened) == step
    # Where keys have a meaning of their own, they keep it.
    tab.focus("#speed")
    tab.keyboard.press("Home")
    assert now(opened) == 100


def test_it_plays_and_pauses(pages, open_page):
    opened = open_page(pages["one"])
    tab = opened.tab
    tab.select_option("#speed", "15")
    tab.locator("body").click(position={"x": 5, "y": 5})
    tab.keyboard.press("Space")
    assert tab.text_content("#play") == "Pause"
    tab.wait_for_function("document.getElementById('slider').value > 4")
    tab.keyboard.press("Space")
    assert tab.text_content("#play") == "Play"
    step = now(opened)
    tab.wait_for_timeout(200)
    assert now(opened) == step
    tab.click("#last")
    tab.click("#play")  # From the beginning again.
    tab.wait_for_function(
        "(at => 0 < at && at < 50)(Number(document.getElementById('slider').value))"
    )
    tab.click("#play")
    tab.focus("#play")
    tab.keyboard.press("Space")  # The button's own: once.
    assert tab.text_content("#play") == "Pause"
    tab.keyboard.press("End")
    assert tab.text_content("#play") == "Play"


def test_the_costliest_moments_are_one_click_away(pages, open_page):
    opened = open_page(pages["two"])
    tab = opened.tab
    buttons, pins = tab.locator(".moments button"), tab.locator("#chart rect.pin")
    assert buttons.count() == pins.count() == 6
    for places in (buttons, pins):
        for i in range(6):
            wanted = int(places.nth(i).get_attribute("data-step"))
            places.nth(i).click(force=True)
            assert now(opened) == wanted
    box = tab.locator("#chart").bounding_box()
    tab.mouse.click(box["x"] + box["width"] - 14, box["y"] + box["height"] - 60)
    assert now(opened) == 100
    assert now(open_page(pages["two"], at="#step=41")) == 41


def test_what_was_lost_in_all_adds_up(pages, open_page):
    tab = open_page(pages["one"], at="#step=100").tab
    (sums,) = tab.locator("#lists p").all_text_contents()
    lost = [float(cost) for cost in re.findall(rf" {MINUS}(\d+\.\d)", sums)]
    assert len(lost) > 1
    assert sums.count("Restore") == 1
    assert lost == sorted(lost, reverse=True)
    total = float(tab.text_content("[data-field=return]").replace(MINUS, "-"))
    assert -sum(lost) == pytest.approx(total, abs=0.01)


def test_a_screen_reader_is_told_every_step(pages, open_page):
    tab = open_page(pages["one"]).tab
    assert tab.get_attribute("#spoken", "aria-live") == "polite"
    said = set()
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
        text = tab.text_content("#spoken")
        shown = tab.evaluate(SHOWN)
        assert f"Blue: {shown['blue']}" in text
        assert f"Reward {shown['reward']}, return {shown['return']}." in text
        said.add(text)
    assert len(said) == 5
    names = tab.evaluate(
        "[...document.querySelectorAll('button')].map((b) => b.ariaLabel || b.textContent.trim())"
    )
    assert all(names)
    # All that the chart shows is a table too.
    tab.click("summary")
    rows = tab.locator(".log tbody tr")
    assert rows.count() == 100
    tab.click(".log tbody tr:nth-child(3) button")
    assert rows.nth(2).get_attribute("aria-current") == "step"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["one", "two", "cage4"])
def test_accessible_and_never_wider_than_the_screen(pages, open_page, name, size, scheme):
    tab = open_page(pages[name], size, scheme, "#step=40").tab
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(x) for x in ground[4:-1].split(",")]) > 128) == (scheme == "light")
    for step in (0, 40, 100):
        tab.evaluate(f"location.hash = 'step={step}'")
        tab.wait_for_function(f"document.getElementById('slider').value == {step}")
        assert not is_wider_than_the_screen(tab)
    assert serious_findings(tab) == []


@pytest.mark.parametrize("name", ["two", "cage4"])
def test_no_text_lies_on_another(pages, open_page, name):
    """Of the chart, whose labels are placed by hand."""
    for size in (DESKTOP, PHONE):
        assert overlapping_texts(open_page(pages[name], size).tab, "#chart") == []


def test_cage4_shows_every_side_as_the_file_has_it(pages, open_page):
    opened = open_page(pages["cage4"])
    opened.tab.keyboard.press("End")
    assert now(opened) == 100
    recordings = data_of(pages["cage4"])["recordings"]
    for side, recording in zip(opened.tab.locator(".side").all(), recordings, strict=True):
        states, last = dict(recording["beginning"]), recording["steps"][-1]
        for step in recording["steps"]:
            states.update(step["changes"])
        held: dict[str, list[int]] = {"root": [], "user": [], "none": []}
        for host, state in sorted(states.items()):
            user, root, *_ = recording["states"][state]
            held["root" if root else "user" if user else "none"].append(host)
        for red, hosts in held.items():
            marks = side.locator(f".zones .host[data-red={red}]")
            assert marks.evaluate_all("all => all.map(one => +one.dataset.host)") == hosts
        assert side.locator("[data-field=return]").text_content() == str(last["total"]).replace(
            "-", MINUS
        )
        told = side.locator(".acts tbody td:last-child").all_text_contents()
        busy = [bool(deed and deed[3]) for deed in (*last["blue"], *last["red"])]
        assert [text.startswith("busy, ") for text in told] == busy
        table = side.locator(".truth tbody tr[data-red=root]")
        assert table.count() == len(held["root"]) > 0 or recording["agent"] == "rules"
        known: dict[int, int] = {}
        for step in recording["steps"]:
            known.update(step["knows"])
        titles = side.locator(".zones .host").evaluate_all(
            "all => Object.fromEntries(all.map(one => [one.dataset.host, one.title]))"
        )
        for host in states:
            if host not in known:
                assert "Blue knows: nothing." in titles[str(host)]
                continue
            _, _, escalate, shell, _, attacks = recording["known"][known[host]]
            knows = titles[str(host)].partition("Blue knows: ")[2]
            assert (f"a shell since step {shell}" in knows) == bool(shell)
            assert ("escalate.sh" in knows) == bool(escalate)
            assert all(f" in step {step}" in knows for _, step, _ in attacks)


def test_cage4_tells_that_failed_impacts_cost(pages, open_page):
    tab = open_page(pages["cage4"]).tab
    impact, failed = 2, 3
    n_failed = 0
    recordings = data_of(pages["cage4"])["recordings"]
    for side, recording in zip(tab.locator(".side").all(), recordings, strict=True):
        for now, step in enumerate(recording["steps"], start=1):
            hit = [
                host for cause, _, _, hosts in step["costs"] if cause == impact for host in hosts
            ]
            outcomes = {deed[1]: deed[4] for deed in step["red"] if deed and not deed[3]}
            if not hit:
                continue
            tab.evaluate(f"seek({now})")
            text = side.locator("[data-field=costs]").text_content()
            expected = sum(outcomes[host] == failed for host in hit)
            assert text.count(", failed") == expected, (now, text)
            n_failed += expected
    assert n_failed > 0
