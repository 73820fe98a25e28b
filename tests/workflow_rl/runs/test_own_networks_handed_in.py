"""A user's torch module in a folder for a challenge: ONNX plays it there as torch does here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from tests.own_networks import Remembering
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.policies.own_network import kind_of
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.team import ACTS
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.environments.environment import Environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.export import export_policy

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


class Plain(nn.Module):
    """Has no state, and sees no mask."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_inputs, n_outputs)

    def forward(self, obs: Tensor) -> Tensor:
        return self.linear(obs)


class Unwritable(Plain):
    """Reads a number, which no file of operations can hold."""

    def forward(self, obs: Tensor) -> Tensor:
        return self.linear(obs) * float(np.sin(obs.detach().numpy()).max() < 2)


PLAY = """
import json, sys
for name in ("torch", "workflow_rl", "agents", "numba"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
seen, played = np.load(sys.argv[2]), []
if sys.argv[3] == "cage2":
    from agent import BlueAgent
    agent = BlueAgent()
    for episode in seen:
        played.append([agent.get_action(obs) for obs in episode])
        agent.end_episode()
else:
    sys.modules["CybORG"] = None
    from acting_handed_in import read_handed_in
    from acting_team_policy import load_policy_or_team
    policy = load_policy_or_team("team.npz", read_handed_in("team.npz"))[0].player()
    for episode in seen:
        policy.reset(0)
        played.append([policy.act(row)[0][0].tolist() for row in episode])
print(json.dumps(played))
"""


def policy_of(network: type, n_inputs: int, n_actions: int, masked: bool) -> PolicyParameters:
    """One that chooses several actions."""
    made = ActorCritic(
        n_inputs, Categorical(n_actions), (8,), "tanh", 1, kind=kind_of(network), masked=masked
    )
    policy = made.policy_parameters()
    sizes, *weights = policy.weights
    return policy._replace(weights=(sizes, *(5 * weight for weight in weights)))


def played_there(exported: Any, environment: Environment, folder: Path, seen: Any) -> Any:
    format_ = "cage2" if isinstance(exported, PolicyParameters) else "cage4"
    export_policy(exported, environment, format_, folder / "handed-in")
    assert "onnxruntime" in (folder / "handed-in" / "requirements.txt").read_text()
    np.save(folder / "seen.npy", seen)
    arguments = [str(folder / "handed-in"), str(folder / "seen.npy"), format_]
    command = [sys.executable, "-B", "-c", PLAY, *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


@pytest.mark.parametrize("network", [Plain, Remembering])
def test_cage2(network, tmp_path):
    environment = Cage2(observation="history", simulator="compiled")
    spaces = environment.spaces()
    n_actions = spaces.distribution.n_outputs
    policy = policy_of(network, spaces.obs_dim, n_actions, spaces.masked)
    seen = np.random.default_rng(0).integers(0, 2, (2, 20, 52), np.uint8)
    actor, expected = environment.actor_on_observations(NumpyPolicy(policy, greedy=True)), []
    for episode in seen:
        actor.reset(0)
        expected.append([int(actor.act(obs[None])[0][0]) for obs in episode])
    assert len(set(expected[0])) > 1
    assert played_there(policy, environment, tmp_path, seen) == expected


@pytest.mark.parametrize("network", [Plain, Remembering])
def test_a_team_of_cage4(network, tmp_path):
    environment = Cage4()
    layout = environment.spaces().team
    assert layout is not None
    policies = {"zone": (0, 1, 2, 3), "headquarters": (4,)}
    members = {}
    for name, of in policies.items():
        n_inputs, n_actions = layout.n_seen_by(of[0], of), layout.n_actions[of[0]]
        members[name] = policy_of(network, n_inputs, n_actions, layout.masked)
    team = TeamParameters(layout, policies, members)
    seen = np.random.default_rng(0).integers(0, 2, (2, 12, layout.row_size), np.uint8)
    seen[:, :, sum(layout.obs_sizes) : sum(layout.obs_sizes) + 5] = ACTS
    actor, expected = team.actor(greedy=True), []
    for episode in seen:
        actor.reset(0)
        expected.append([actor.act(row)[0][0].tolist() for row in episode])
    assert played_there(team, environment, tmp_path, seen) == expected


def test_what_onnx_cannot_hold_is_one_line(tmp_path):
    policy = policy_of(Unwritable, 52, 145, masked=False)
    with pytest.raises(ConfigError, match=r"torch cannot write it as ONNX: .*") as caught:
        export_policy(policy, Cage2(), "cage2", tmp_path / "handed-in")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "handed-in").exists()
