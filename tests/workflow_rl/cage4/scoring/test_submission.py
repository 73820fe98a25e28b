"""A folder to hand in plays in the challenge's own evaluation, and scores what `evaluate` says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.workflow_rl.cage4.env.test_team_envs import random_team
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scoring.protocol import Author, evaluate
from workflow_rl.cage4.scoring.scoring import policy_team
from workflow_rl.cage4.scoring.submission.export import write_submission
from workflow_rl.commands.main import main
from workflow_rl.environments.environment import InvalidEnvironmentError

OFFICIAL = """
import runpy, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from workflow_rl.cage4.cyborg.private_cyborg import stand_ins

# CybORG imports packages that no episode needs. Without this package's own modules:
for name in [one for one in sys.modules if one.split(".")[0] in ("workflow_rl", "agents")]:
    del sys.modules[name]
sys.path[0] = {checkout!r}
with stand_ins():
    sys.argv = ["evaluation.py", {folder!r}, {out!r}, "--seed", "5", "--max-eps", "2"]
    script = Path({checkout!r}, "CybORG", "Evaluation", "evaluation.py")
    source = script.read_text().replace("EPISODE_LENGTH = 500", "EPISODE_LENGTH = {steps}")
    exec(compile(source, script, "exec"), {{"__name__": "__main__"}})
own = {{"workflow_rl", "agents", "torch", "numba", "pydantic"}}
assert not own & {{name.split(".")[0] for name in sys.modules}}
"""
ROOT = Path(__file__).parents[4]


def official_totals(checkout: Path, folder: Path, steps: int) -> list[int]:
    out = folder.parent / "out"
    program = OFFICIAL.format(
        root=str(ROOT), checkout=str(checkout), folder=str(folder), out=str(out), steps=steps
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=280, cwd=folder.parent)
    return [int(t) for t in re.findall("total reward: (-?[0-9]+)", (out / "full.txt").read_text())]


@pytest.mark.parametrize("name", ["rules", "champion"])
def test_a_team_of_the_package_is_handed_in(checkout: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "submission"
    command = ["export", name, "--format", "cage4", "--output", str(folder)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert result.output.count("play it:") == 1
    scores = evaluate(make_scripted_team(name), Author("", "", ""), "compiled", 2, 5, steps=40)
    assert official_totals(checkout, folder, 40) == scores.totals


def test_a_trained_team_is_handed_in(checkout: Path, tmp_path: Path) -> None:
    environment = Cage4(observation="belief", actions="suspects", messages="learned")
    team = random_team(environment).parameters
    write_submission(team, environment, tmp_path / "submission")
    own = policy_team(team.actor(), environment, 500)
    scores = evaluate(own, Author("", "", ""), "compiled", 2, 5, steps=60)
    assert official_totals(checkout, tmp_path / "submission", 60) == scores.totals


def test_what_cannot_be_handed_in(tmp_path: Path) -> None:
    team = random_team(Cage4()).parameters
    with pytest.raises(InvalidEnvironmentError, match="500 steps"):
        write_submission(team, Cage4(max_steps=100), tmp_path / "submission")
    with pytest.raises(InvalidEnvironmentError, match="sleep is neither rules"):
        write_submission("sleep", Cage4(), tmp_path / "submission")
