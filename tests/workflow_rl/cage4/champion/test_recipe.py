"""The champion's recipe, in the smallest size that has all its parts."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from workflow_rl.cage4.agent.champion import load_weights
from workflow_rl.cage4.champion import recipe
from workflow_rl.cage4.champion.config import ChampionConfig
from workflow_rl.cage4.champion.recipe import STATE_FILE, Cage4Recipe, Training
from workflow_rl.collection.failures import StopRequested
from workflow_rl.commands.main import main
from workflow_rl.runs.folder import RunDirError

SMALL = {"episodes_per_update": 2, "copy_epochs": 1, "epochs": 1}


def train(folder: Path, total_episodes: int = 6, seed: int = 3) -> float:
    return Cage4Recipe().train(folder, seed, total_episodes, True, **SMALL)


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / STATE_FILE) as stored:
        return {name: stored[name] for name in stored.files if name != "rows"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("champion") / "run"
    train(folder)
    return folder


def test_a_run_that_was_stopped_ends_with_the_same_weights(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, update = tmp_path / "run", Training.update

    def interrupted(training: Training) -> None:
        update(training)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Training, "update", interrupted)
    for _ in range(2):
        with pytest.raises(StopRequested):
            train(folder)
    monkeypatch.undo()
    before = json.loads(json.dumps((folder / "metrics.csv").read_text().splitlines()))
    assert len(before) == 3
    train(folder)
    expected, found = arrays_of(run), arrays_of(folder)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert rows[:3] == before
    assert len(rows) == 4


def test_a_signal_is_heeded_from_the_first_moment_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(name: str) -> None:
        whole = getattr(Training, name)

        def interrupted(training: Training) -> None:
            monkeypatch.setattr(Training, name, whole)
            whole(training)
            signal.raise_signal(signal.SIGTERM)

        monkeypatch.setattr(Training, name, interrupted)

    for name in ("copy_the_rules", "update"):
        once(name)
        with pytest.raises(StopRequested):
            train(tmp_path / "run", total_episodes=2)
    assert train(tmp_path / "run", total_episodes=2) > 0


def test_other_seeds_and_strange_folders_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="whose seed is 3 and not 4"):
        train(run, seed=4)
    with pytest.raises(RunDirError, match="whose total_episodes is 6 and not 8"):
        train(run, total_episodes=8)
    (tmp_path / "a file").touch()
    with pytest.raises(RunDirError, match="is not empty"):
        train(tmp_path)
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / STATE_FILE).write_bytes((run / STATE_FILE).read_bytes()[:-200])
    with pytest.raises(RunDirError, match="is damaged"):
        train(damaged)


def test_learning_changes_both_networks_and_seeds_differ(run: Path, tmp_path: Path) -> None:
    first = Training(ChampionConfig(seed=3, **SMALL)).weights
    trained = arrays_of(run)
    for i, network in enumerate(first):
        assert not np.array_equal(network[0], trained[f"{i}/w/host"])
    assert not np.array_equal(first[0][0], Training(ChampionConfig(seed=4, **SMALL)).weights[0][0])


def test_the_command_chooses_scores_and_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        recipe, "ChampionConfig", lambda **given: ChampionConfig(**{**SMALL, **given})
    )
    monkeypatch.setattr(recipe, "totals_of", lambda weights, seeds: np.arange(-len(seeds), 0.0))
    folder = tmp_path / "champion"
    words = ["train-champion", "--env", "workflow_rl/CAGE4-v0", "--run-dir", str(folder)]
    sizes = ["--total-episodes", "4", "--selection-episodes", "32", "--episodes", "1", "--quiet"]
    with monkeypatch.context() as patched:
        patched.setattr(recipe, "load_weights", lambda path: signal.raise_signal(signal.SIGTERM))
        result = CliRunner().invoke(main, [*words, *sizes])
    assert result.exit_code == 128 + signal.SIGTERM
    assert "go on with: " in result.output
    result = CliRunner().invoke(main, [*words, *sizes])
    assert result.exit_code == 0, result.output
    card = json.loads((folder / "card.json").read_text())
    assert card["selection"]["candidates"] == 3
    assert card["command"].startswith("workflow-rl train-champion --env workflow_rl/CAGE4-v0")
    chosen = load_weights(folder / card["selection"]["chosen"])
    agent = load_weights(folder / "champion.npz")
    assert all(np.array_equal(a, b) for a, b in zip(chosen[0], agent[0], strict=True))
    total = card["evaluation"]["totals"]

    # The folder, as the file, is an agent that can be evaluated and handed in.
    played = ["--episodes", "1", "--json", str(tmp_path / "scores.json"), "--quiet"]
    result = CliRunner().invoke(main, ["evaluate", str(folder), *played])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "scores.json").read_text())["totals"] == total
    exported = ["--format", "cage4", "--output", str(tmp_path / "submission")]
    result = CliRunner().invoke(main, ["export", str(folder), *exported])
    assert result.exit_code == 0, result.output
    same = load_weights(tmp_path / "submission" / "champion.npz")
    assert all(np.array_equal(a, b) for a, b in zip(same[1], agent[1], strict=True))
    shown = ["--max-steps", "5", "--output", str(tmp_path / "replay.html")]
    result = CliRunner().invoke(main, ["replay", str(folder), *shown])
    assert result.exit_code == 0, result.output


def test_one_training_at_a_time(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one's weights would be replaced."""
    folder, update, refused = tmp_path / "run", Training.update, []

    def beside(training: Training) -> None:
        update(training)
        if training.updates == 2:  # The first has been saved.
            monkeypatch.setattr(Training, "update", update)
            with pytest.raises(RunDirError, match="in use: another process"):
                train(folder)
            refused.append(training)

    monkeypatch.setattr(Training, "update", beside)
    train(folder)
    assert len(refused) == 1


def test_a_run_without_its_state_is_not_a_new_one(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / STATE_FILE).unlink()
    before = (folder / "metrics.csv").read_bytes()
    with pytest.raises(RunDirError, match=f"no {STATE_FILE} to go on from"):
        train(folder)
    assert (folder / "metrics.csv").read_bytes() == before


def test_links_in_a_folder_lead_to_no_other_file(run: Path, tmp_path: Path) -> None:
    own, folder = tmp_path / "own", tmp_path / "run"
    own.mkdir()
    (own / "file").write_text("the user's")
    shutil.copytree(run, folder)
    for link in ("champion.npz", "kept/mean.npz"):
        (folder / link).symlink_to(own / "file")
    Cage4Recipe().choose(folder, 32, True)
    assert (own / "file").read_text() == "the user's"
    load_weights(folder / "champion.npz")
    (folder / "kept").rename(tmp_path / "kept")
    (folder / "kept").symlink_to(own)
    with pytest.raises(RunDirError, match="kept is a link"):
        train(folder)
    assert [path.name for path in own.iterdir()] == ["file"]


def test_a_run_whose_candidates_are_gone_is_one_line_of_error(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    for path in (tmp_path / "run" / "kept").iterdir():
        path.unlink()
    with pytest.raises(RunDirError, match="kept is empty"):
        Cage4Recipe().choose(tmp_path / "run", 32, True)
