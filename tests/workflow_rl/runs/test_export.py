"""A team's policies in formats that others read: what comes out there is what the team plays."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages import ROOT
from tests.tiny_teams import Doors, ShiftEnv
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.agents.policies.team_policy import TeamParameters
from workflow_rl.agents.team import ACTS, TeamLayout
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.export import export_policy

AGENTS, SIZES, N_ACTIONS = ("north", "south", "chief"), (3, 3, 4), (3, 3, 2)
POLICIES = {"guards": (0, 1), "chief": (2,)}
NOWHERE = make_environment("CartPole-v1", {})


def policy_of(n_inputs: int, n_actions: int, network: str, masked: bool) -> PolicyParameters:
    actor = ActorCritic(
        n_inputs, Categorical(n_actions), (8, 6), "tanh", seed=1, kind=network, masked=masked
    )
    policy, random = actor.policy_parameters(), np.random.default_rng(n_inputs)
    mean, scale = random.normal(size=(2, n_inputs)).astype(np.float32)
    weights = tuple(random.normal(size=of.shape).astype(np.float32) for of in policy.weights)
    return policy._replace(weights=weights, obs_mean=mean, obs_scale=scale)


def team_of(network: str, masked: bool) -> TeamParameters:
    layout = TeamLayout(AGENTS, SIZES, N_ACTIONS, masked=masked)
    policies = {
        name: policy_of(layout.n_seen_by(of[0], of), N_ACTIONS[of[0]], network, masked)
        for name, of in POLICIES.items()
    }
    return TeamParameters(layout, POLICIES, policies)


def rows_of(layout: TeamLayout, n_steps: int) -> np.ndarray:
    """Rows of observations in which all agents decide, with masks that rule out one action."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(n_steps, layout.row_size)).astype(np.float32)
    rows[:, sum(SIZES) : layout.obs_dim] = ACTS
    if layout.masked:
        masks = [np.arange(n) != random.integers(n, size=(n_steps, 1)) for n in N_ACTIONS]
        rows[:, layout.obs_dim :] = np.concatenate(masks, axis=1)
    return rows


def own(layout: TeamLayout, agent: int, row: np.ndarray) -> np.ndarray:
    """What an agent's environment shows it in a row, [1, D]: its observation and its mask."""
    return layout.seen_by(agent, row[None], (agent,))


def play_onnx(folder: Path, layout: TeamLayout, rows: np.ndarray) -> list[list[int]]:
    onnxruntime = pytest.importorskip("onnxruntime")
    files = json.loads((folder / "team.json").read_text())
    agents = {file["policy"]: file["agents"] for file in files}
    assert agents == {"guards": ["north", "south"], "chief": ["chief"]}
    sessions = [onnxruntime.InferenceSession(str(folder / file["file"])) for file in files]
    players = {name: (n, k) for n, f in enumerate(files) for k, name in enumerate(f["agents"])}
    states: dict[str, Any] = {}
    actions = []
    for row in rows:
        actions.append([])
        for agent, name in enumerate(layout.agents):
            n, k = players[name]
            given = {"obs": own(layout, agent, row), "agent": np.array([k])}
            inputs = {one.name: one.shape for one in sessions[n].get_inputs()}
            if "state" in inputs:
                given["state"] = states.get(name, np.zeros((1, inputs["state"][1]), np.float32))
            told = sessions[n].run(None, {name: given[name] for name in inputs})
            states[name] = told[-1]
            actions[-1].append(int(told[0].argmax()))
    return actions


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_onnx_models_of_a_team_choose_its_actions(network, masked, tmp_path):
    """With normalisation, which of the agents acts, masks and memories inside the graph."""
    pytest.importorskip("onnxscript")
    team = team_of(network, masked)
    rows = rows_of(team.layout, 30)
    actor = team.actor(greedy=True)
    actor.reset(0)
    expected = [actor.act(row[None])[0][0].tolist() for row in rows]
    assert len({tuple(actions) for actions in expected}) > 2
    export_policy(team, NOWHERE, "onnx", tmp_path / "team")
    assert play_onnx(tmp_path / "team", team.layout, rows) == expected


def test_a_folder_with_something_in_it_is_kept(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        export_policy(team_of("mlp", masked=False), NOWHERE, "onnx", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def agents_of(path: Path) -> Any:
    """Play a file with the lines that the page shows, as a reader would."""
    page: dict[str, Any] = {}
    exec((ROOT / "examples" / "play_npz.py").read_text(), page)
    return page["agents_of"](path)


def test_the_lines_on_the_page_play_an_agent(tmp_path):
    policy = policy_of(4, 2, "mlp", masked=False)
    save_policy(tmp_path / "agent.npz", policy, {"env": "CartPole-v1", "env_args": {}})
    agent = load_agent(tmp_path / "agent.npz")
    (by_page,) = agents_of(tmp_path / "agent.npz").values()
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    actions = [agent.act(obs) for obs in observations]
    assert set(actions) == {0, 1}
    assert [by_page.act(obs) for obs in observations] == actions


@pytest.mark.system
@pytest.mark.parametrize("env_class", [Doors, ShiftEnv])
def test_the_lines_on_the_page_play_a_team(env_class, tmp_path):
    """Agents that share a policy, and agents with masks."""
    settings = {"hidden_sizes": (8,), "normalise_obs": True, "learning_rate": 0.05}
    counts = {"total_episodes": 12, "episodes_per_update": 4, "n_envs": 2}
    config = TrainConfig("sync", env="team", settings=settings, **counts)
    run, file = train(config, tmp_path / "run", env=env_class), tmp_path / "team.npz"
    team = load_agent(run, env=env_class)
    export_policy(team.policy.parameters, NOWHERE, "npz", file)
    env, by_page, chosen = env_class(), agents_of(file), set()
    for seed in range(5):
        observations, infos = env.reset(seed=seed)
        team.reset(seed)
        while env.agents:
            actions = team.act({name: observations[name] for name in env.agents}, infos)
            for name, action in actions.items():
                mask = infos.get(name, {}).get("action_mask")
                assert by_page[name].act(observations[name], mask) == action
                chosen.add((name, int(action)))
            observations, _, _, _, infos = env.step(actions)
    assert len(chosen) > len(env_class.possible_agents)
