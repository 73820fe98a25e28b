"""What is handed in to the challenge: alone with NumPy, it plays as the checkpoint does."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import output_of
from tests.handed_in import require_whole_to_load, used_together
from tests.playing import save_untrained
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import cell_spec, evaluate_blue
from workflow_rl.runs.saved_agent import saved_path
from workflow_rl.workflows.environment import OrderedCage2

pytestmark = pytest.mark.system

OPENING = ("DecoyFemitter User2", "DecoyTomcat User2")
VIEWS = {
    "table": Cage2("B_lineAgent"),
    "belief": Cage2("attackers", 100, "compiled", "belief", "by-host", OPENING),
    "all": Cage2("attackers", 100, "compiled", "belief"),
    "timed": Cage2("attackers", 100, "compiled", "evidence", "by-host-timed"),
}
ORDER = "users,op_hosts,op_server,enterprise"
ORDERED = OrderedCage2("attackers", 100, "compiled", order=ORDER)

PLAY = """
import json, sys
for name in ("numba", "torch", "workflow_rl", "agents"):
    sys.modules[name] = None
sys.path.insert(0, ".")
import evaluation
cells = json.loads(sys.argv[1])
simulator, agent = evaluation.find_simulator(), evaluation.BlueAgent()
print(json.dumps([
    [episode.total_reward for episode in
     evaluation.play(simulator, agent, red_agent, n_steps, len(seeds), seeds)]
    for n_steps, red_agent, seeds in cells
]))
"""

# The loop of the challenge's own evaluation.py: a reset before the first episode of a cell, and one
# after every episode.
OFFICIAL = """
import json, random, sys
sys.path.insert(0, ".")
import evaluation
simulator, agent, totals = evaluation.find_simulator(), evaluation.BlueAgent(), []
random.seed(153)
for num_steps in (30, 50, 100):
    for red_agent in ("B_lineAgent", "RedMeanderAgent", "SleepAgent"):
        cyborg = simulator.make(getattr(simulator.agents, red_agent))
        env = simulator.wrapper(env=cyborg, agent_name="Blue")
        observation, _ = env.reset()
        action_space = env.get_action_space("Blue")
        for _ in range(2):
            rewards = []
            for _ in range(num_steps):
                observation, reward, *_ = env.step(agent.get_action(observation, action_space))
                rewards.append(reward)
            agent.end_episode()
            totals.append(sum(rewards))
            observation, _ = env.reset()
print(json.dumps(totals))
"""


def submission(environment: Cage2, folder: Path) -> Path:
    """Return the folder handed in. The agent itself is beside it, as agent.npz."""
    return exported(save_untrained(folder / "agent.npz", environment), folder / "submission")


def exported(agent: Path | str, output: Path) -> Path:
    output_of("export", agent, "--format", "cage2", "--output", output)
    return output


def require_same_returns(
    agent: Path, folder: Path, cells: list[Any], episodes: int, scenario: Scenario | None = None
) -> None:
    """Play so many episodes of these cells with both. scenario: None stands for Scenario 2."""
    seeded = [
        (steps, red, [cell_spec(5, steps, red, n).env_seed for n in range(episodes)])
        for steps, red in cells
    ]
    command = [sys.executable, "-c", PLAY, json.dumps(seeded)]
    played = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stderr
    horizons, red_agents = zip(*cells, strict=True)
    scenario = scenario or Scenario.scenario2()
    blue = load_blue(agent, scenario)
    evaluation = evaluate_blue(blue, episodes, seed=5, horizons=horizons, red_agents=red_agents)
    returns = {(cell.max_steps, cell.red_agent): cell.returns for cell in evaluation.cells}
    for cell, theirs in zip(cells, json.loads(played.stdout), strict=True):
        # Sums of the same rewards, in another order.
        assert theirs == pytest.approx(returns[cell], abs=1e-9), cell
        assert cell[1] == "SleepAgent" or len(set(theirs)) > 1


@pytest.mark.parametrize("name", VIEWS)
def test_it_plays_as_the_agent_does(name: str, tmp_path: Path) -> None:
    folder = submission(VIEWS[name], tmp_path)
    cells = [(30, "B_lineAgent"), (50, "RedMeanderAgent")]
    require_same_returns(tmp_path / "agent.npz", folder, cells, episodes=2)


@pytest.mark.parametrize("view", [("table", "all"), ("table", "by-host"), ("history", "by-host")])
def test_an_agent_of_another_network_plays_as_it_does(view: Any, tmp_path: Path) -> None:
    network = Scenario.scenario2().add_host("Desk", "linux_user_host1", "User", "High")
    scenario = network.remove_host("Op_Host1").renamed("my-network")
    environment = Cage2("RedMeanderAgent", 100, "compiled", *view, scenario=scenario.text)
    folder = submission(environment, tmp_path)
    cells = [(50, "RedMeanderAgent")]
    require_same_returns(tmp_path / "agent.npz", folder, cells, 2, scenario)


def test_an_agent_of_any_network_is_handed_in_for_scenario2(tmp_path: Path) -> None:
    folder = exported("any-network", tmp_path / "submission")
    cells = [(30, "B_lineAgent"), (50, "RedMeanderAgent")]
    require_same_returns(saved_path(Path("any-network")), folder, cells, 2)


def test_it_takes_an_order(tmp_path: Path) -> None:
    folder = submission(ORDERED, tmp_path)
    cells = [(100, "B_lineAgent"), (50, "RedMeanderAgent")]
    require_same_returns(tmp_path / "agent.npz", folder, cells, episodes=2)
    told = "from agent import BlueAgent; BlueAgent('users').get_action([0] * 52)"
    command = [sys.executable, "-c", told]
    played = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "'users' has to name each of enterprise, op_server" in played.stderr


def test_what_is_missing_or_damaged_raises(tmp_path: Path) -> None:
    require_whole_to_load(submission(VIEWS["belief"], tmp_path), "agent", "BlueAgent()")


def test_an_agent_in_a_zip_plays_as_its_folder(tmp_path: Path) -> None:
    folder = submission(ORDERED, tmp_path)
    shutil.make_archive(str(tmp_path / "handed-in"), "zip", folder)
    acted = []
    for source in (folder, tmp_path / "handed-in.zip"):
        program = PLAY.replace('"."', repr(str(source)))
        command = [sys.executable, "-c", program, json.dumps([[30, "B_lineAgent", [1, 2]]])]
        acted.append(subprocess.check_output(command, cwd=tmp_path, text=True))
    assert acted[0] == acted[1]


def test_agents_of_one_process_have_their_own_files(tmp_path: Path) -> None:
    folders = []
    for number, environment in enumerate((VIEWS["table"], VIEWS["belief"], ORDERED)):
        (tmp_path / str(number)).mkdir()
        folders.append(submission(environment, tmp_path / str(number)))
    used = "read_handed_in('policy.npz') and BlueAgent() and read_handed_in.__globals__['__file__']"
    seen = used_together(used, *(folder / "agent.py" for folder in folders))
    assert seen == [str(folder / "acting_handed_in.py") for folder in folders] * 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_champion_scores_the_same_episode_for_episode(tmp_path: Path) -> None:
    cells = [(steps, red) for steps in (30, 50, 100) for red in RED_AGENTS]
    folder = exported("champion", tmp_path / "submission")
    require_same_returns(saved_path(Path("champion")), folder, cells, episodes=100)


@pytest.mark.slow
def test_its_evaluation_is_the_official_one(tmp_path: Path) -> None:
    folder = submission(VIEWS["belief"], tmp_path)
    command = [sys.executable, "evaluation.py", "--episodes", "2"]
    played = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stderr
    (result,) = folder.glob("*_BlueAgent.txt")
    assert re.fullmatch(r"\d{8}_\d{6}_BlueAgent", result.stem)
    lines = result.read_text().splitlines()
    assert len(lines) == 3 + 9 * 3
    assert re.match(r"steps: 30, adversary: B_lineAgent, mean: -\d", lines[3])
    assert lines[4].startswith("actions: [('DecoyFemitter User2', 'DiscoverRemoteSystems")
    assert "total" in played.stdout

    stock = [float(line.rpartition(": ")[2]) for line in lines if line.startswith("actions")]
    assert len(set(stock)) > 6

    challenge = subprocess.run(
        [sys.executable, "-c", OFFICIAL], cwd=folder, capture_output=True, text=True, check=True
    )
    assert stock == pytest.approx(json.loads(challenge.stdout), abs=1e-9)


def test_what_the_challenge_does_not_show_cannot_be_handed_in(tmp_path: Path) -> None:
    agent = save_untrained(tmp_path / "agent.npz", Cage2("mixed", 100, "compiled", "true-state"))
    folder = tmp_path / "submission"
    said = output_of("export", agent, "--format", "cage2", "--output", folder, code=2)
    assert "it sees the true state" in said
    assert not folder.exists()


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    submission(VIEWS["table"], tmp_path)
    agent = tmp_path / "agent.npz"
    for place in (tmp_path / "submission", agent):
        said = output_of("export", agent, "--format", "cage2", "--output", place, code=2)
        assert "give a new or empty folder" in said
