"""A folder to hand in plays in the challenge's own evaluation, and scores what `evaluate` says."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.cli import output_of
from tests.handed_in import require_whole_to_load, used_together
from tests.workflow_rl.cage4.env.test_team_envs import random_team
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.scripted import make_scripted_team
from workflow_rl.cage4.agent.trained_teams import trained_team
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scoring.protocol import Author, play_protocol
from workflow_rl.cage4.scoring.submission.export import write_submission
from workflow_rl.errors import ConfigError

pytestmark = pytest.mark.system

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


PACKINGS: dict[str, Callable[[Path], Path]] = {
    "moved": lambda folder: folder.rename(folder.parent / "elsewhere"),
    # As the challenge says: `zip ../name.zip *`, which leaves out what folders hold.
    "zip *": lambda folder: zipped(folder, [file for file in folder.iterdir() if file.is_file()]),
    # With the folder's name in the zip, which CybORG's loader asks for.
    "zip -r": lambda folder: zipped(folder.parent, [folder, *folder.iterdir()]),
}

# Two envs of one submission, and the same two one after the other.
TWO_ENVS = """
import sys
sys.path[:0] = [{root!r}, {checkout!r}, {folder!r}]
from workflow_rl.cage4.cyborg.private_cyborg import stand_ins

with stand_ins():
    from CybORG import CybORG
    from CybORG.Agents import EnterpriseGreenAgent, FiniteStateRedAgent, SleepAgent
    from CybORG.Simulator.Scenarios import EnterpriseScenarioGenerator
    from submission import Submission

def begun(seed):
    scenario = EnterpriseScenarioGenerator(
        blue_agent_class=SleepAgent, green_agent_class=EnterpriseGreenAgent,
        red_agent_class=FiniteStateRedAgent, steps=500)
    env = Submission.wrap(CybORG(scenario, "sim", seed=seed))
    return env, env.reset()[0]

def actions(env, seen):
    return {{name: agent.get_action(seen[name], env.action_space(name))
            for name, agent in Submission.AGENTS.items()}}

def alone(seed):
    env, seen = begun(seed)
    for _ in range(20):
        taken = actions(env, seen)
        seen, *_ = env.step(taken)
        yield taken

expected = list(zip(list(alone(1)), list(alone(2))))
assert any(of_one != of_other for of_one, of_other in expected)
one, other = begun(1), begun(2)
for both in expected:
    taken = actions(*one), actions(*other)
    assert taken == both, (taken, both)
    one, other = [(env, env.step(acts)[0]) for (env, _), acts in zip((one, other), taken)]
"""


def zipped(folder: Path, files: Iterable[Path]) -> Path:
    packed = folder.parent / "handed-in.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for each in files:
            file.write(each, each.relative_to(folder))
    return packed


def official_totals(checkout: Path, folder: Path, steps: int) -> list[int]:
    out = folder.parent / "out"
    program = OFFICIAL.format(
        root=str(ROOT), checkout=str(checkout), folder=str(folder), out=str(out), steps=steps
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=280, cwd=folder.parent)
    return [int(t) for t in re.findall("total reward: (-?[0-9]+)", (out / "full.txt").read_text())]


@pytest.mark.parametrize(
    ("name", "packing"),
    [
        pytest.param("rules", "moved", marks=pytest.mark.slow),
        pytest.param("steadfast", "moved", marks=pytest.mark.slow),
        ("champion", "zip *"),
    ],
)
def test_a_team_of_the_package_is_handed_in(checkout, tmp_path, name, packing):
    folder = tmp_path / "submission"
    said = output_of("export", name, "--format", "cage4", "--output", folder)
    assert said.count("play it:") == 1
    scores = play_protocol(make_scripted_team(name), Author("", "", ""), "compiled", 2, 5, steps=60)
    assert official_totals(checkout, PACKINGS[packing](folder), 60) == scores.totals


@pytest.mark.parametrize("observation", ["belief", "hidden"])
def test_a_trained_team_is_handed_in(checkout, tmp_path, observation):
    environment = Cage4(observation=observation, actions="suspects", messages="learned")
    team = random_team(environment).parameters
    write_submission(team, environment, tmp_path / "submission")
    own = SingleTeam(trained_team(team.actor(greedy=True), environment)(1))
    scores = play_protocol(own, Author("", "", ""), "compiled", 2, 5, steps=60)
    packed = PACKINGS["zip -r"](tmp_path / "submission")
    assert official_totals(checkout, packed, 60) == scores.totals


def test_two_envs_of_one_submission_share_nothing(checkout, tmp_path):
    folder = tmp_path / "submission"
    write_submission("rules", Cage4(), folder)
    program = TWO_ENVS.format(root=str(ROOT), checkout=str(checkout), folder=str(folder))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


def test_what_is_missing_or_damaged_raises(tmp_path):
    write_submission("champion", Cage4(), tmp_path / "champion")
    require_whole_to_load(tmp_path / "champion", "submission", "Submission.wrap(None)")
    write_submission(random_team(Cage4()).parameters, Cage4(), tmp_path / "trained")
    require_whole_to_load(tmp_path / "trained", "submission", "Submission.wrap(None)")
    output_of("export", "rules", "--format", "cage4", "--output", tmp_path / "rules.zip")
    with zipfile.ZipFile(tmp_path / "rules.zip") as packed:
        assert "submission.py" in packed.namelist()


def test_submissions_of_one_process_play_their_own_teams(tmp_path):
    write_submission("rules", Cage4(), tmp_path / "rules")
    write_submission("champion", Cage4(), tmp_path / "champion")
    write_submission(random_team(Cage4()).parameters, Cage4(), tmp_path / "trained")
    files = [tmp_path / name / "submission.py" for name in ("rules", "champion", "trained")]
    teams = used_together("type(make_team()).__name__", *files)
    assert teams == ["RuleTeam", "PolicyTeam", "PolicyTeam"] * 2


def test_what_cannot_be_handed_in(tmp_path):
    team = random_team(Cage4()).parameters
    with pytest.raises(ConfigError, match="500 steps"):
        write_submission(team, Cage4(max_steps=100), tmp_path / "submission")
    with pytest.raises(ConfigError, match="sleep is none of rules"):
        write_submission("sleep", Cage4(), tmp_path / "submission")
