"""The command `replay`: its page, without a browser (`tests/browser` opens it), and its errors."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli import output_of
from tests.html_pages import assert_valid
from tests.workflow_rl.cage2.scoring.test_recording import save_run
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario2 import ACTION_NAMES
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import cell_spec, evaluate_blue
from workflow_rl.cage2.scoring.replay_page import ReplayCheck

STEPS = "12"


def data_of(page: Path) -> Any:
    """What the page shows."""
    (text,) = re.findall(
        r'<script type="application/json" id="episodes">(.*?)</script>', page.read_text()
    )
    return json.loads(text)


def test_a_page_of_100_steps_is_small_valid_and_complete(tmp_path):
    save_run(tmp_path / "agent.safetensors")
    page = tmp_path / "replay.html"
    asked = ("--red-agent", "RedMeanderAgent", "--output", page)
    said = output_of("replay", tmp_path / "agent.safetensors", *asked)
    assert "is equal, the networks included" in said
    text = page.read_text()
    assert_valid(text)
    assert len(text.encode()) < 2_000_000
    assert "Every step was compared with csle-cyborg" in text
    shown = data_of(page)
    assert len(shown["hosts"]) == 13
    assert sum(map(len, shown["subnets"].values())) == 13
    assert ["Enterprise2", "Op_Server0"] in shown["leads"]
    (one,) = shown["recordings"]
    blue = load_blue(tmp_path / "agent.safetensors")
    (trajectory,) = (
        evaluate_blue(blue, 1, horizons=[100], red_agents=["RedMeanderAgent"]).cells[0].trajectories
    )
    assert [step["reward"] for step in one["steps"]] == trajectory.reward.tolist()
    assert f"return {trajectory.episode_return:.1f}" in said


def test_two_agents_in_the_same_episode(tmp_path):
    page = tmp_path / "two.html"
    given = ["--seed", "3", "--episode", "5", "--max-steps", STEPS, "--output", page]
    output_of("replay", "sleep", "--against", "react-restore", *given)
    assert_valid(page.read_text())
    sleeping, reacting = data_of(page)["recordings"]
    assert (sleeping["agent"], reacting["agent"]) == ("sleep", "react-restore")
    env = Cage2Env("B_lineAgent", int(STEPS))
    env.reset(seed=cell_spec(3, int(STEPS), "B_lineAgent", 5).env_seed)
    for one, other in zip(sleeping["steps"], reacting["steps"], strict=True):
        _, reward, *_ = env.step(ACTION_NAMES.index("Sleep"))
        assert one["reward"] == reward
        if one["blue_action"] == other["blue_action"]:
            assert one["red_text"] == other["red_text"]
    alone = tmp_path / "alone.html"
    output_of("replay", "react-restore", *given[:-1], alone)
    assert data_of(alone)["recordings"] == [reacting]


def test_nothing_in_a_name_becomes_html(tmp_path):
    folder = tmp_path / "<b>&</script>"  # Its last part is script>.
    folder.mkdir(parents=True)
    save_run(folder / "a<i>.safetensors")
    page = tmp_path / "replay.html"
    output_of("replay", folder / "a<i>.safetensors", "--max-steps", "2", "--output", page)
    assert_valid(page.read_text())
    assert "a&lt;i&gt;.safetensors" in page.read_text()
    assert data_of(page)["recordings"][0]["agent"] == "script>/a<i>.safetensors"


def test_a_difference_from_cyborg_is_no_success(tmp_path, monkeypatch):
    page = tmp_path / "replay.html"
    monkeypatch.setattr(
        "workflow_rl.cage2.scoring.replays.compare_with_cyborg",
        lambda one, **options: ReplayCheck(False, "Differs in step 3."),
    )
    said = output_of("replay", "sleep", "--max-steps", "5", "--output", page, code=1)
    assert "Differs in step 3." in said
    assert "Differs in step 3." in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "Invalid value for AGENT: there is no checkpoint at nowhere"),
        (["sleep", "--against", "nowhere"], "for --against: there is no checkpoint at nowhere"),
        (["sleep", "--red-agent", "b_line"], "for --red-agent: 'b_line' is no red agent: choose"),
        (["sleep", "--max-steps", "1001"], "1001 is not in the range 1<=x<=1000"),
        (["sleep", "--which", "best"], "--which best goes with a run folder"),
        (["sleep", "--output", "no/folder.html"], "no/folder.html cannot be written"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    said = output_of("replay", *arguments, code=2)
    assert message in " ".join(said.replace("'AGENT'", "AGENT").split())
    assert not list(tmp_path.iterdir())


def test_where_cyborg_fails_so_does_the_replay(tmp_path, monkeypatch):
    def fails(*given: object) -> None:
        raise RuntimeError("env 0: CybORG itself fails at this point")

    page = tmp_path / "replay.html"
    page.write_text("before")
    monkeypatch.setattr("workflow_rl.cage2.scoring.replays.record_episode", fails)
    said = output_of("replay", "sleep", "--episode", "4", "--output", page, code=2)
    assert "--episode 4 cannot be played" in said
    assert page.read_text() == "before"
