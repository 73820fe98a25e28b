import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import output_of
from workflow_rl import api
from workflow_rl.runs.config import TrainConfig


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = TrainConfig(
        *("async", 4), env="CartPole-v1", total_steps=400, steps_per_update=200, seed=5
    )
    return api.train(config, tmp_path_factory.mktemp("hub") / "pole")


def exported(run: Path, folder: Path) -> tuple[dict[str, Any], str]:
    """What the Hub reads of the card, and the card's text."""
    said = output_of("export", run, "--format", "hub", "--output", folder)
    assert f"hf upload USER/NAME {folder}" in said
    _, about, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(about), text


def test_the_card_has_the_facts_of_the_run(trained, tmp_path):
    output_of("evaluate", trained, "--episodes", 7, "--seed", 3, "--quiet")
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
    assert "--env CartPole-v1" in text
    told = json.loads((tmp_path / "hub" / "results.json").read_text())
    assert told == {n: v for n, v in scores.items() if n not in ("returns", "lengths")}
    # The folder is an agent.
    of_run, of_folder = (api.evaluate(path, 4, n_workers=1) for path in (trained, tmp_path / "hub"))
    assert of_run.returns == of_folder.returns


def test_a_strangers_text_is_text(trained, tmp_path):
    evil = "a|b|<img src=x>[l](http://x)`\n# heading\n```\n*c*"
    run = tmp_path / "a|b <i>`c` *d*"
    shutil.copytree(trained, run)
    summary, machine = (json.loads((run / f"{n}.json").read_text()) for n in ("summary", "machine"))
    summary["weights"] = machine["machines"][0]["processor"] = evil
    (run / "summary.json").write_text(json.dumps(summary))
    (run / "machine.json").write_text(json.dumps(machine))
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


def test_a_link_in_a_strangers_run_is_not_copied(trained, tmp_path):
    """The folder is to be published, and the link may lead to the user's own files."""
    (tmp_path / "own").write_text("the user's")
    shutil.copytree(trained, run := tmp_path / "run")
    (run / "learning_curve.png").unlink()
    (run / "learning_curve.png").symlink_to(tmp_path / "own")
    said = output_of("export", run, "--format", "hub", "--output", tmp_path / "hub", code=2)
    assert "learning_curve.png is a link" in said
    assert not (tmp_path / "hub").exists()


def test_an_agent_without_a_score_has_none_on_its_card(trained, tmp_path):
    (trained / "evaluation.json").unlink(missing_ok=True)
    about, text = exported(trained, tmp_path / "hub")
    assert "model-index" not in about
    assert "was not scored" in text
    assert not (tmp_path / "hub" / "results.json").exists()


def test_what_has_no_run_has_no_card(trained, tmp_path):
    for agent in ("champion", trained / "best.safetensors"):
        said = output_of("export", agent, "--format", "hub", "--output", tmp_path / "hub", code=2)
        assert "is no run's folder" in said
    assert not (tmp_path / "hub").exists()
