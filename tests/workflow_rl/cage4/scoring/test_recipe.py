"""The champion's recipe, in the smallest size that has all its parts."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.cli import output_of
from workflow_rl.agents.policies.team_policy import load_policy_or_team
from workflow_rl.cage.recipe import AGENT_FILE
from workflow_rl.cage4.env.presets import CHAMPION
from workflow_rl.cage4.guest import Cage4Guest
from workflow_rl.cage4.scenario.scenario4 import ENV_ID
from workflow_rl.cage4.scoring import selection
from workflow_rl.collection.messages import StopRequested
from workflow_rl.errors import ConfigError
from workflow_rl.runs.folder import weights_digest
from workflow_rl.runs.learner import Learner
from workflow_rl.runs.read_checkpoint import load_checkpoint

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

EPISODES = 6
SMALL = {
    **{"n_envs": 2, "episodes_per_update": 2, "keep_every": 1, "n_workers": 1},
    **{"teacher_episodes": 2, "teacher_epochs": 1},
    "settings": {**CHAMPION["settings"], "epochs": 1},
}


@contextmanager
def small_preset() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setitem(CHAMPION, name, value)
        yield


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_preset():
        yield


def train(folder: Path, total_episodes: int = EPISODES, seed: int = 3) -> float:
    return Cage4Guest().champion_recipe().train(folder, seed, total_episodes, True)


def digest(path: Path) -> str:
    return weights_digest(load_checkpoint(path).agent["network"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("champion") / "run"
    with small_preset():
        assert train(folder) > 0
    return folder


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_with_the_same_weights(run, tmp_path, monkeypatch):
    folder, learn = tmp_path / "run", Learner.learn_once

    def interrupted(learner: Learner, may_diverge: bool = False) -> dict[str, float]:
        row = learn(learner, may_diverge)
        signal.raise_signal(signal.SIGTERM)
        return row

    monkeypatch.setattr(Learner, "learn_once", interrupted)
    with pytest.raises(StopRequested):
        train(folder)
    monkeypatch.undo()
    stopped = load_checkpoint(folder / "checkpoint.safetensors").training.updates
    assert 0 < stopped < EPISODES / 2
    train(folder)
    assert digest(folder / "checkpoint.safetensors") == digest(run / "checkpoint.safetensors")
    kept = [path.name for path in sorted(folder.glob("kept/*.safetensors"))]
    assert kept == [path.name for path in sorted(run.glob("kept/*.safetensors"))]
    # A finished run has nothing to do.
    train(folder)
    assert digest(folder / "checkpoint.safetensors") == digest(run / "checkpoint.safetensors")


def test_other_runs_and_strange_folders_are_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="whose seed is 3 and not 4"):
        train(run, seed=4)
    shutil.copytree(run, tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    text = json.dumps(config).replace('"teacher_episodes": 2', '"teacher_episodes": 3')
    (tmp_path / "run" / "config.json").write_text(text)
    with pytest.raises(ConfigError, match="whose teacher_episodes is 3 and not 2"):
        train(tmp_path / "run")
    (tmp_path / "a file").touch()
    with pytest.raises(ConfigError, match="holds no run of workflow_rl/CAGE4-v0"):
        train(tmp_path)


def test_the_command_chooses_scores_and_describes(tmp_path, monkeypatch):
    def totals_of(team: object, environment: object, episodes: int, seed: int = 0) -> np.ndarray:
        return np.arange(-episodes, 0.0)

    monkeypatch.setattr(selection, "totals_of", totals_of)
    folder = tmp_path / "champion"
    words = ["train-champion", "--env", ENV_ID, "--run-dir", folder, "--quiet"]
    words += ["--total-episodes", "4", "--selection-episodes", "32", "--episodes", "1"]
    output_of(*words)
    card = json.loads((folder / "card.json").read_text())
    assert card["selection"]["candidates"] == 2
    assert card["command"].startswith("workflow-rl train-champion --env workflow_rl/CAGE4-v0")
    assert card["config"]["preset"] == "cage4-champion"
    assert digest(folder / card["selection"]["chosen"]) == digest(folder / "best.safetensors")
    (agent, _), (total,) = load_policy_or_team(folder / AGENT_FILE), card["evaluation"]["totals"]
    said = output_of(*words, "--seed", "1", code=2)
    assert "whose seed is 0 and not 1" in " ".join(said.split())

    # The folder, as the file, is an agent that can be evaluated, handed in and played with.
    for source in (folder, folder / AGENT_FILE):
        played = ["--episodes", "1", "--json", tmp_path / "scores.json", "--quiet"]
        output_of("evaluate", source, *played)
        assert json.loads((tmp_path / "scores.json").read_text())["totals"] == [total]
    exported = ["--format", "cage4", "--output", tmp_path / "submission"]
    output_of("export", folder / AGENT_FILE, *exported)
    team, _ = load_policy_or_team(tmp_path / "submission" / "team.npz")
    assert team.layout == agent.layout
    shown = ["--max-steps", "5", "--output", tmp_path / "replay.html"]
    output_of("replay", folder / AGENT_FILE, *shown)


def test_links_in_a_folder_lead_to_no_other_file(run, tmp_path):
    own, folder = tmp_path / "own", tmp_path / "run"
    own.write_text("the user's")
    shutil.copytree(run, folder)
    (folder / "best.safetensors").unlink(missing_ok=True)
    for link in (AGENT_FILE, "best.safetensors"):
        (folder / link).symlink_to(own)
    with pytest.raises(OSError, match="is a link"):
        Cage4Guest().champion_recipe().choose(folder, 2, True)
    assert own.read_text() == "the user's"
