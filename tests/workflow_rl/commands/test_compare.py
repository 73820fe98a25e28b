import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli import CART_POLE, call, refused, said_by
from tests.tiny_runs import config_of
from workflow_rl.environments.source import guests
from workflow_rl.evaluation.evaluate import AGENT_DIGEST, Evaluation
from workflow_rl.output_files import sha256_of


def scored(path: Path, returns: list[float], seed: int = 0, digest: str | None = None) -> Path:
    scores = Evaluation("CartPole-v1", seed, returns, [1] * len(returns), 1.0)
    path.write_text(json.dumps({**scores.to_dict(), AGENT_DIGEST: digest}))
    return path


TRAIN = f"train-sync {CART_POLE} --total-steps 200 --n-envs 2 --quiet"


@pytest.fixture
def agents(tmp_path: Path) -> list[Path]:
    return [scored(tmp_path / f"{n}.json", [n, n + 2.0]) for n in range(3)]


def test_folders_and_files_are_compared(tmp_path, agents):
    scored(tmp_path / "evaluation.json", [10, 10])
    said = said_by("compare", tmp_path, *agents[:2], "--baseline", agents[2])
    assert "4.33" in said  # (10 + 1 + 2) / 3
    assert "1.33" in said
    assert "Agents: 3, with 2 episodes each. The baseline has 1." in said


def test_agents_of_several_kinds_draw_a_hint(tmp_path):
    paths = [tmp_path / name for name in ("new-0", "new-1", "old-0")]
    for seed, (path, clip) in enumerate(zip(paths, (0.2, 0.2, 0.1), strict=True)):
        path.mkdir()
        scored(path / "evaluation.json", [seed, seed + 1.0])
        config = config_of(settings={"clip_range": clip}, seed=seed)
        (path / "config.json").write_text(json.dumps(config.to_dict()))
    assert "Hint" not in said_by("compare", *paths[:2])
    told = "differ in more than their seed (new (2 seeds), old-0)"
    assert told in said_by("compare", *paths)


def test_the_table_as_text_of_three_kinds(tmp_path, agents):
    files = [tmp_path / f"table.{ending}" for ending in ("csv", "json", "tex")]
    for file in files:
        said_by("compare", *agents, "--output", file)
    (row,) = csv.DictReader(files[0].open())
    (same,) = json.loads(files[1].read_text())
    assert float(row["mean"]) == same["mean"] == 2.0
    assert float(row["iqm_low"]) == same["iqm_low"]
    assert r"2.00 $\pm$" in files[2].read_text()
    assert "\r" not in files[2].read_text()


def test_a_strangers_text_is_text(tmp_path):
    task = "a|b_{c} \\input{/etc/passwd} $x^2$ ~ 5% & # \x1b[2J \n \\"
    cells = [{"red_agent": task, "max_steps": 3, "episodes": 2, "returns": [-1, -3]}]
    (tmp_path / "scores.json").write_text(json.dumps({"seed": 0, "cells": cells}))
    said = said_by("compare", tmp_path / "scores.json", "--output", tmp_path / "t.tex")
    assert "\x1b" not in said
    written = (tmp_path / "t.tex").read_text()
    assert "\x1b" not in written
    assert len([line for line in written.splitlines() if "input" in line]) == 1
    known = r"\\(begin|end)\{tabular\}|textbackslash\{\}|textascii(tilde|circum)\{\}|\$\\pm\$"
    rest = re.sub(rf"{known}|\\\\$|\\(?=text)|\\[_%&#${{}}]| & ", "", written, flags=re.M)
    assert not set(re.sub(r"\{[lcr]+\}", "", rest)) & set("\\{}$%#&_^~")


def test_cells_are_tasks(tmp_path):
    cells = [
        {"red_agent": red, "max_steps": 30, "episodes": 2, "returns": [-1, -3]}
        for red in ("B_lineAgent", "SleepAgent")
    ]
    files = [tmp_path / f"scores-{n}.json" for n in range(2)]
    for file in files:
        file.write_text(json.dumps({"seed": 0, "cells": cells}))
    said = said_by("compare", *files, "--output", tmp_path / "t.csv")
    assert "B_lineAgent, 30 steps" in said
    assert "-4.00" in said.splitlines()[-4]


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
def test_what_cannot_be_compared_is_one_line(content, told, tmp_path, agents):
    other = tmp_path / "other.json"
    if content is not None:
        other.write_text(content)
    refused(call("compare", *agents, "--baseline", other), told)


@pytest.mark.parametrize("name", ["best.safetensors", "checkpoint.safetensors"])
def test_scores_of_an_agent_that_has_learned_on_are_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"an agent")
    scored(tmp_path / "evaluation.json", [1.0, 2.0], digest=sha256_of(tmp_path / name))
    said_by("compare", tmp_path)
    (tmp_path / name).write_bytes(b"another agent")
    refused(call("compare", tmp_path), "again")


@pytest.mark.parametrize("way", ["again", "another path", "a link", "a copy", "the baseline"])
def test_an_agent_that_is_given_twice_is_refused(way, tmp_path, agents):
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    (folder / "best.safetensors").write_bytes(b"an agent")
    scored(folder / "evaluation.json", [1.0, 2.0], digest=sha256_of(folder / "best.safetensors"))
    if way == "a link":
        other.symlink_to(folder)
    elif way == "a copy":
        shutil.copytree(folder, other)
    second = {"again": folder, "another path": tmp_path / "run" / ".." / "run"}.get(way, other)
    given = ["--baseline", folder] if way == "the baseline" else [second]
    refused(call("compare", folder, agents[0], *given), "are one agent: give it once")
    said_by("compare", agents[0], agents[0], code=2)  # Nobody knows its digest.
    said_by("compare", folder, agents[0])


def test_an_agent_is_compared_with_its_own_sampling(tmp_path):
    said_by(TRAIN, "--run-dir", tmp_path / "run")
    files = [tmp_path / "greedy.json", tmp_path / "sampled.json"]
    for file, how in zip(files, ("--greedy", "--stochastic"), strict=True):
        said_by("evaluate", tmp_path / "run", "--episodes 2", how, "--json", file)
    said_by("compare", files[0], "--baseline", files[1])
    said_by("compare", *files)


def test_other_networks_and_lengths_are_other_tasks():
    cage2, cage4 = (guests[f"workflow_rl/CAGE{n}-v0"].scoring() for n in (2, 4))
    assert cage2 is not None
    assert cage4 is not None
    cell = {"red_agent": "B_lineAgent", "max_steps": 30, "returns": [-1]}
    tasks = list(cage2.returns({"scenario": "office 12", "cells": [cell]}))
    assert tasks == ["B_lineAgent, 30 steps, office 12"]
    played = {"red_agent": "FiniteStateRedAgent", "steps": 500, "totals": [-1]}
    for scenario, more in (({}, ""), ({"users": 3}, ", users 3")):
        tasks = list(cage4.returns({**played, "scenario": scenario}))
        assert tasks == [f"FiniteStateRedAgent, 500 steps{more}"]


def test_the_policies_of_a_run_are_compared_together(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    for seed, path in enumerate((a, b)):
        said_by(TRAIN, f"--n-policies 2 --seed {seed} --run-dir", path)
        for policy in (0, 1):
            said_by("evaluate", path / f"policy-{policy}", "--episodes 2 --quiet")
    told = "Agents: 2, with 2 episodes each. The baseline has 2."
    assert told in said_by("compare", a, "--baseline", b)
    globbed = [a / "policy-0", a / "policy-1", b / "policy-1", "--baseline", b / "policy-0"]
    refused(call("compare", *globbed), f"--baseline {b} takes all")
