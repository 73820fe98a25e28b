"""The command `compare`: what it reads, shows and writes."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.tiny_runs import config_of
from workflow_rl.commands.compare import compare
from workflow_rl.commands.main import main
from workflow_rl.environments.source import guests
from workflow_rl.evaluation.evaluate import AGENT_DIGEST, Evaluation
from workflow_rl.output_files import sha256_of


def scored(path: Path, returns: list[float], seed: int = 0, digest: str | None = None) -> Path:
    scores = Evaluation("CartPole-v1", seed, returns, [1] * len(returns), 1.0)
    path.write_text(json.dumps({**scores.to_dict(), AGENT_DIGEST: digest}))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(compare, list(map(str, arguments)))


@pytest.fixture
def agents(tmp_path: Path) -> list[Path]:
    return [scored(tmp_path / f"{n}.json", [n, n + 2.0]) for n in range(3)]


def test_folders_and_files_are_compared(tmp_path: Path, agents: list[Path]) -> None:
    scored(tmp_path / "evaluation.json", [10, 10])
    shown = run(tmp_path, *agents[:2], "--baseline", agents[2])
    assert shown.exit_code == 0, shown.output
    assert "4.33" in shown.output  # (10 + 1 + 2) / 3
    assert "1.33" in shown.output
    assert "Agents: 3, with 2 episodes each. The baseline has 1." in shown.output


def test_agents_of_several_kinds_draw_a_hint(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("new-0", "new-1", "old-0")]
    for seed, (path, clip) in enumerate(zip(paths, (0.2, 0.2, 0.1), strict=True)):
        path.mkdir()
        scored(path / "evaluation.json", [seed, seed + 1.0])
        config = config_of(settings={"clip_range": clip}, seed=seed)
        (path / "config.json").write_text(json.dumps(config.to_dict()))
    assert "Hint" not in run(*paths[:2]).output
    assert "differ in more than their seed (new (2 seeds), old-0)" in run(*paths).output


def test_the_table_as_text_of_three_kinds(tmp_path: Path, agents: list[Path]) -> None:
    files = [tmp_path / f"table.{ending}" for ending in ("csv", "json", "tex")]
    for file in files:
        assert run(*agents, "--output", file).exit_code == 0
    (row,) = csv.DictReader(files[0].open())
    (same,) = json.loads(files[1].read_text())
    assert float(row["mean"]) == same["mean"] == 2.0
    assert float(row["iqm_low"]) == same["iqm_low"]
    assert r"2.00 $\pm$" in files[2].read_text()
    assert "\r" not in files[2].read_text()


def test_a_strangers_text_is_text(tmp_path: Path) -> None:
    task = "a|b_{c} \\input{/etc/passwd} $x^2$ ~ 5% & # \x1b[2J \n \\"
    cells = [{"red_agent": task, "max_steps": 3, "episodes": 2, "returns": [-1, -3]}]
    (tmp_path / "scores.json").write_text(json.dumps({"seed": 0, "cells": cells}))
    shown = run(tmp_path / "scores.json", "--output", tmp_path / "t.tex")
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.output
    written = (tmp_path / "t.tex").read_text()
    assert "\x1b" not in written
    assert len([line for line in written.splitlines() if "input" in line]) == 1
    known = r"\\(begin|end)\{tabular\}|textbackslash\{\}|textascii(tilde|circum)\{\}|\$\\pm\$"
    rest = re.sub(rf"{known}|\\\\$|\\(?=text)|\\[_%&#${{}}]| & ", "", written, flags=re.M)
    assert not set(re.sub(r"\{[lcr]+\}", "", rest)) & set("\\{}$%#&_^~")


def test_cells_are_tasks(tmp_path: Path) -> None:
    scoring = guests["workflow_rl/CAGE2-v0"].scoring()
    assert scoring is not None
    cells = [
        {"red_agent": red, "max_steps": 30, "episodes": 2, "returns": [-1, -3]}
        for red in ("B_lineAgent", "SleepAgent")
    ]
    files = [tmp_path / f"scores-{n}.json" for n in range(2)]
    for file in files:
        file.write_text(json.dumps({"seed": 0, "cells": cells}))
    shown = run(*files, "--output", tmp_path / "t.csv").output
    assert "B_lineAgent, 30 steps" in shown
    assert "-4.00" in shown.splitlines()[-4]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "run `evaluate"),
        ("[1, 2]", "has no scores"),
        ('{"seed": 0, "returns": []}', "has no scores"),
        ('{"seed": 0, "env": "CartPole-v1", "returns": [1, 2, 3]}', "the same --episodes"),
        ('{"seed": 7, "env": "CartPole-v1", "returns": [1, 2]}', "with --seed 7"),
        ('{"seed": 0, "env": "Acrobot-v1", "returns": [1, 2]}', "and 2 of Acrobot-v1"),
        (
            '{"seed": 0, "env": "CartPole-v1", "env_args": {"x": [1]}, "returns": [1, 2]}',
            "other.json with --seed 0, x=[1]",
        ),
        ('{"seed": 0, "env": "CartPole-v1", "env_args": 7, "returns": [1, 2]}', "has no scores"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    content: str | None, told: str, tmp_path: Path, agents: list[Path]
) -> None:
    other = tmp_path / "other.json"
    if content is not None:
        other.write_text(content)
    shown = run(*agents, "--baseline", other)
    assert shown.exit_code == 2
    assert told in shown.output


@pytest.mark.parametrize("name", ["best.safetensors", "checkpoint.safetensors"])
def test_scores_of_an_agent_that_has_learned_on_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"an agent")
    scores = Evaluation("CartPole-v1", 0, [1.0, 2.0], [1, 1], 1.0).to_dict()
    digest = sha256_of(tmp_path / name)
    (tmp_path / "evaluation.json").write_text(json.dumps({**scores, AGENT_DIGEST: digest}))
    assert run(tmp_path).exit_code == 0
    (tmp_path / name).write_bytes(b"another agent")
    shown = run(tmp_path)
    assert shown.exit_code == 2
    assert "again" in shown.output


@pytest.mark.parametrize("way", ["again", "another path", "a link", "a copy", "the baseline"])
def test_an_agent_that_is_given_twice_is_refused(
    way: str, tmp_path: Path, agents: list[Path]
) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    (folder / "best.safetensors").write_bytes(b"an agent")
    scored(folder / "evaluation.json", [1.0, 2.0], digest=sha256_of(folder / "best.safetensors"))
    if way == "a link":
        other.symlink_to(folder)
    elif way == "a copy":
        shutil.copytree(folder, other)
    second = {"again": folder, "another path": tmp_path / "run" / ".." / "run"}.get(way, other)
    if way == "the baseline":
        shown = run(folder, agents[0], "--baseline", folder)
    else:
        shown = run(folder, agents[0], second)
    assert shown.exit_code == 2
    assert "are one agent: give it once" in shown.output
    assert run(agents[0], agents[0]).exit_code == 2, "nobody knows its digest"
    assert run(folder, agents[0]).exit_code == 0


def test_an_agent_is_compared_with_its_own_sampling(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = "train-sync --env CartPole-v1 --total-steps 200 --n-envs 2 --quiet --run-dir"
    assert CliRunner().invoke(main, [*words.split(), str(folder)]).exit_code == 0
    files = [tmp_path / "greedy.json", tmp_path / "sampled.json"]
    for file, how in zip(files, ("--greedy", "--stochastic"), strict=True):
        asked = ["evaluate", str(folder), "--episodes", "2", how, "--json", str(file)]
        assert CliRunner().invoke(main, asked).exit_code == 0
    shown = run(files[0], "--baseline", files[1])
    assert shown.exit_code == 0, shown.output
    assert run(*files).exit_code == 0


def test_runs_on_other_arguments_of_an_environment_are_refused(tmp_path: Path) -> None:
    words = "train-sync --env CartPole-v1 --total-steps 200 --n-envs 2 --quiet --final-evaluation 2"
    for name, most in (("a", 20), ("b", 20), ("c", 30)):
        asked = [*words.split(), "--env-arg", f"max_episode_steps={most}", "--seed", str(ord(name))]
        assert CliRunner().invoke(main, [*asked, "--run-dir", str(tmp_path / name)]).exit_code == 0
    assert run(tmp_path / "a", tmp_path / "b").exit_code == 0
    shown = run(tmp_path / "a", "--baseline", tmp_path / "c")
    assert shown.exit_code == 2
    assert "max_episode_steps=20" in shown.output.splitlines()[-1]
    assert "max_episode_steps=30" in shown.output.splitlines()[-1]


def test_other_networks_and_lengths_are_other_tasks() -> None:
    cage2, cage4 = (guests[f"workflow_rl/CAGE{n}-v0"].scoring() for n in (2, 4))
    assert cage2 is not None
    assert cage4 is not None
    cell = {"red_agent": "B_lineAgent", "max_steps": 30, "returns": [-1]}
    assert [*cage2.returns({"scenario": "office 12", "cells": [cell]})] == [
        "B_lineAgent, 30 steps, office 12"
    ]
    played = {"red_agent": "FiniteStateRedAgent", "steps": 500, "totals": [-1]}
    tasks = [
        *cage4.returns({**played, "scenario": {}}),
        *cage4.returns({**played, "scenario": {"users": 3}}),
    ]
    assert tasks == ["FiniteStateRedAgent, 500 steps", "FiniteStateRedAgent, 500 steps, users 3"]


def test_the_policies_of_a_run_are_compared_together(tmp_path: Path) -> None:
    words = "train-sync --env CartPole-v1 --n-policies 2 --total-steps 200 --n-envs 2 --quiet"
    for seed, name in enumerate("ab"):
        asked = [*words.split(), "--seed", str(seed), "--run-dir", str(tmp_path / name)]
        assert CliRunner().invoke(main, asked).exit_code == 0
        for policy in (0, 1):
            asked = ["evaluate", str(tmp_path / name / f"policy-{policy}"), "--episodes", "2"]
            assert CliRunner().invoke(main, [*asked, "--quiet"]).exit_code == 0
    shown = run(tmp_path / "a", "--baseline", tmp_path / "b")
    assert "Agents: 2, with 2 episodes each. The baseline has 2." in shown.output
    a, b = tmp_path / "a", tmp_path / "b"
    globbed = run(a / "policy-0", a / "policy-1", b / "policy-1", "--baseline", b / "policy-0")
    assert globbed.exit_code == 2
    assert f"--baseline {b} takes all" in globbed.output
