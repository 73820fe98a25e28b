import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli import CART_POLE, TINY, call, refused, said_by
from workflow_rl.cage2.cyborg.simulators import SimulatorVersion
from workflow_rl.cage2.scenario2 import HORIZONS, RED_AGENTS
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores
from workflow_rl.cage2.scoring.scoring import Cage2Scoring, ProtocolSettings
from workflow_rl.errors import ConfigError
from workflow_rl.runs.checkpoint import read_values, save_checkpoint, write_values
from workflow_rl.runs.read_checkpoint import load_checkpoint

HAS_MOVIEPY = importlib.util.find_spec("moviepy") is not None
FEW = "--episodes 2 --n-workers 1 --quiet"


def scores(*trained_against: str) -> ProtocolScores:
    """Cells whose mean is the episode's length, negated."""
    cells = [
        CellScore(max_steps, red_agent, [SimpleNamespace(episode_return=-float(max_steps))] * 2)
        for max_steps in HORIZONS
        for red_agent in RED_AGENTS
    ]
    version = SimulatorVersion("csle-cyborg", "0.0.3", "26ce1c1")
    return ProtocolScores("an agent", version, 0, 1.0, cells, trained_against=trained_against)


def scored_of(run: Path) -> dict:
    return json.loads((run / "evaluation.json").read_text())


def test_a_run_against_one_attacker_ends_with_that_attackers_cells():
    first, *others = scores("B_lineAgent").closing_lines("it")
    assert "-30.0 after 30, -50.0 after 50, -100.0 after 100" in first
    assert "sum -180.0" in first
    assert "(the champion's sum: -22.0)" in first
    assert len(others) == 2
    assert "Meander" not in "".join([first, *others])


def test_a_run_against_all_ends_with_three_lines():
    against_all = scores(*RED_AGENTS)
    closing = against_all.closing_lines("it")
    assert len(closing) == 3
    assert "-540.0" in closing[0]
    assert "-540.00" in against_all.lines("it")[0]


def test_only_all_cells_are_the_agents_own_scores():
    scoring = Cage2Scoring()
    assert scoring.is_whole(ProtocolSettings(max_steps=(100, 50, 30)))
    assert not scoring.is_whole(ProtocolSettings(max_steps=(30,)))
    assert not scoring.is_whole(ProtocolSettings(red_agent=("B_lineAgent",)))
    with pytest.raises(ConfigError, match="true-state"):
        scoring.settings_for({"simulator": "compiled", "observation": "true-state"})


def test_the_end_of_a_run_writes_all_scores(tmp_path):
    tiny = "--n-envs 4 --total-episodes 4 --episodes-per-update 4 --hidden-sizes 4 --quiet"
    run = ["--simulator compiled --red-agent B_lineAgent", tiny, "--run-dir", tmp_path]
    assert "(the champion's sum: -22.0)" in said_by("train-async --final-evaluation 1", *run)
    written = scored_of(tmp_path)
    assert len(written["cells"]) == 9
    assert written["actions"] == "greedy"
    said_by("evaluate", tmp_path, "--episodes 1 --quiet")
    assert {**scored_of(tmp_path), "seconds": 0} == {**written, "seconds": 0}


@pytest.mark.parametrize(
    "option", ["--red-agent B_lineAgent", "--max-steps 30", "--simulator cyborg", "--author Ada"]
)
def test_an_option_of_another_environment_is_refused(option, cart_pole_run):
    refused(call("evaluate", cart_pole_run, option), option.partition(" ")[0], "CartPole-v1")


@pytest.mark.parametrize("env", ["module:Class", "Acrobot-v1", "workflow_rl/CAGE4-v0"])
def test_another_environment_than_the_agents_is_named(env, cart_pole_run):
    refused(
        call("evaluate", cart_pole_run, "--env", env),
        *("--env", env, "trained on, CartPole-v1: leave it out"),
    )


def test_the_environment_of_an_agent_may_be_named(cart_pole_run):
    said_by("evaluate", cart_pole_run, CART_POLE, FEW)


def test_compare_is_advised_only_where_it_finds_scores(tmp_path):
    tiny = "--simulator compiled --total-episodes 4 --n-envs 2 --n-workers 1 --hidden-sizes 4"
    said_by("train-async", tiny, "--max-steps 5 --n-policies 2 --quiet --run-dir", tmp_path)
    both = [tmp_path / f"policy-{number}" for number in (0, 1)]
    part = "--episodes 1 --quiet --red-agent B_lineAgent --max-steps 5"
    assert "together: " not in said_by("evaluate", *both, part)
    assert "policy alone" not in said_by("evaluate", tmp_path, part)
    assert "policy alone" not in said_by("evaluate", both[0], "--episodes 1 --quiet")


def test_scores_on_the_environment_of_the_run(cart_pole_run):
    said = said_by("evaluate", cart_pole_run, "--episodes 5 --n-workers 2 --quiet")
    assert "CartPole-v1: 5 episodes, seed 0" in said
    found = scored_of(cart_pole_run)
    assert len(found["returns"]) == len(found["lengths"]) == 5
    # CartPole gives 1 for every step.
    assert found["returns"] == found["lengths"]
    mean = sum(found["returns"]) / 5
    assert found["mean"] == pytest.approx(mean)
    assert found["actions"] == "greedy"
    row = next(line for line in said.splitlines() if "return" in line)
    assert f"{mean:.2f}" in row
    assert f"± {found['interval_95']:.2f}" in row
    assert f"{min(found['returns']):.2f}" in row
    # One episode in their place has no interval, and is not taken for as good.
    again = said_by("evaluate", cart_pole_run, "--episodes 1 --seed 7 --n-workers 1 --quiet")
    assert "(in the place of those of 5 episodes)" in again
    assert "nan" not in again
    found = scored_of(cart_pole_run)
    assert found["seed"] == 7
    assert found["std"] is found["interval_95"] is None


def test_several_agents_are_scored_one_after_another(cart_pole_run, tmp_path):
    runs = [shutil.copytree(cart_pole_run, tmp_path / name) for name in "ab"]
    # The best agent is another one, and plays the same.
    best = load_checkpoint(runs[1] / "best.safetensors")
    best.training.best_score = 1.0
    save_checkpoint(runs[1] / "best.safetensors", best)
    said = said_by("evaluate", *runs, FEW)
    assert all((run / "evaluation.json").exists() for run in runs)
    assert f"compare {runs[0]} {runs[1]}" in said
    said_by("compare", *runs)
    refused(call("evaluate", *runs, FEW, "--json", tmp_path / "x.json"), "one agent")
    before = (runs[0] / "evaluation.json").read_bytes()
    refused(call("evaluate", runs[0], tmp_path / "none", "--episodes 3"), "no checkpoint at")
    assert (runs[0] / "evaluation.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"env": "NoSuchEnv-v0"}, ["NoSuchEnv-v0 cannot be made"]),
        ({"env_args": {"wheels": 3}}, ["wheels"]),
        ({"total_steps": 0}, ["config", "total_steps"]),
    ],
)
def test_a_run_whose_environment_is_not_here(change, parts, cart_pole_run, tmp_path):
    content = read_values(cart_pole_run / "checkpoint.safetensors")
    content["config"] |= change
    write_values(tmp_path / "changed.safetensors", content)
    refused(call("evaluate", tmp_path / "changed.safetensors", "--quiet"), *parts)


def test_mistakes_in_an_evaluation(cart_pole_run, tmp_path):
    (tmp_path / "file").touch()
    refused(call("evaluate", cart_pole_run, "--video", tmp_path / "file"), "--video")
    refused(call("evaluate champion --video", tmp_path / "videos"), "--video")
    assert not (tmp_path / "videos").exists()


@pytest.mark.skipif(not HAS_MOVIEPY, reason="moviepy is not installed")
def test_a_video_of_the_first_episode(cart_pole_run, tmp_path):
    said = said_by("evaluate", cart_pole_run, FEW, "--video", tmp_path / "v")
    (video,) = (tmp_path / "v").glob("*.mp4")
    assert f"video: {video}" in said
    assert video.stat().st_size > 1000


@pytest.mark.skipif(HAS_MOVIEPY, reason="moviepy is installed")
def test_a_video_without_what_it_takes(cart_pole_run, tmp_path):
    result = call("evaluate", cart_pole_run, "--quiet --video", tmp_path / "v")
    refused(result, "--video", "moviepy", "pip install")


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ("TargetEnv", "TargetEnv draws no pictures"),
        ("any_size", "give it an argument render_mode=None"),
    ],
)
def test_no_video_of_an_environment_that_draws_no_pictures(env, told, tmp_path):
    said_by(f"train-async --env tests.any_envs:{env}", TINY, "--run-dir", tmp_path / "run")
    result = call("evaluate", tmp_path / "run", "--quiet --video", tmp_path / "v")
    refused(result, "--video", told)


def test_one_evaluate_has_the_options_of_every_environment():
    shown = said_by("evaluate --help")
    for option in ("--simulator", "--video", "--trust"):
        assert option in shown
