"""Folders for the Hugging Face Hub."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from workflow_rl import api
from workflow_rl.commands.main import main
from workflow_rl.runs.config import TrainConfig


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", total_steps=400, steps_per_update=200, seed=5
    )
    return api.train(config, tmp_path_factory.mktemp("hub") / "pole")


def exported(run: Path, folder: Path) -> tuple[dict[str, Any], str]:
    """What the Hub reads of the card, and the card's text."""
    result = call("export", run, "--format", "hub", "--output", folder)
    assert result.exit_code == 0, result.output
    assert f"hf upload USER/NAME {folder}" in result.output
    _, about, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(about), text


def test_the_card_has_the_facts_of_the_run(trained: Path, tmp_path: Path) -> None:
    assert call("evaluate", trained, "--episodes", 7, "--seed", 3, "--quiet").exit_code == 0
    scores = json.loads((trained / "evaluation.json").read_text())
    about, text = exported(trained, tmp_path / "hub")
    (model,) = about["model-index"]
    (result,) = model["results"]
    (metric,) = result["metrics"]
    assert (model["name"], result["dataset"]["type"]) == ("pole", "CartPole-v1")
    assert metric["value"] == pytest.approx(scores["mean"], abs=1e-4)
    assert "reinforcement-learning" in about["tags"]
    summary = json.loads((trained / "summary.json").read_text())
    for fact in (summary["weights"], "| seed | 5 |", "7 episodes", f"| {summary['env_steps']} |"):
        assert fact in text
    assert "train-async --total-steps 400 --env CartPole-v1" in text.replace("\\\n", "") or (
        "--env CartPole-v1" in text
    )
    told = json.loads((tmp_path / "hub" / "results.json").read_text())
    assert told == {n: v for n, v in scores.items() if n not in ("returns", "lengths")}


def test_a_strangers_text_is_text(trained: Path, tmp_path: Path) -> None:
    evil = "a|b|<img src=x>[l](http://x)`\n# heading\n```\n*c*"
    run = tmp_path / "a|b <i>`c` *d*"
    shutil.copytree(trained, run)
    for name, field in (("summary.json", "weights"), ("machine.json", "processor")):
        content = json.loads((run / name).read_text())
        (content["machines"][0] if "machines" in content else content)[field] = evil
        (run / name).write_text(json.dumps(content))
    _, text = exported(run, tmp_path / "hub")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.count("|") == 3 for line in table)
    plain = text.partition("## Play")[0]
    fence = re.search("(?m)^(`{3,})bash$", plain)
    assert fence is not None
    told = (
        plain[: fence.start()].replace("`results.json`", "")
        + plain[fence.end() :].partition(f"\n{fence[1]}\n")[2]
    )
    assert not re.search(r"[<`\[]|\*[cd]|\n# heading", told), told


def test_a_link_in_a_strangers_run_is_not_copied(trained: Path, tmp_path: Path) -> None:
    """The folder is to be published, and the link may lead to the user's own files."""
    (tmp_path / "own").write_text("the user's")
    shutil.copytree(trained, run := tmp_path / "run")
    (run / "learning_curve.png").unlink()
    (run / "learning_curve.png").symlink_to(tmp_path / "own")
    result = call("export", run, "--format", "hub", "--output", tmp_path / "hub")
    assert result.exit_code == 2, result.output
    assert "learning_curve.png is a link" in result.output
    assert not (tmp_path / "hub").exists()


def test_the_folder_is_an_agent(trained: Path, tmp_path: Path) -> None:
    exported(trained, tmp_path / "hub")
    of_run, of_folder = (api.evaluate(path, 4, n_workers=1) for path in (trained, tmp_path / "hub"))
    assert of_run.returns == of_folder.returns


def test_an_agent_without_a_score_has_none_on_its_card(trained: Path, tmp_path: Path) -> None:
    (trained / "evaluation.json").unlink(missing_ok=True)
    about, text = exported(trained, tmp_path / "hub")
    assert "model-index" not in about
    assert "was not scored" in text
    assert not (tmp_path / "hub" / "results.json").exists()


def test_what_has_no_run_has_no_card(trained: Path, tmp_path: Path) -> None:
    for agent in ("champion", trained / "best.safetensors"):
        result = call("export", agent, "--format", "hub", "--output", tmp_path / "hub")
        assert result.exit_code == 2
        assert "is no run's folder" in result.output
    assert not (tmp_path / "hub").exists()
