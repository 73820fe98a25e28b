"""Recordings of episodes: those of the evaluation, and true in every step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import own_reds
from tests.workflow_rl.cage2.actors import Reciting
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.cage.replay_frame import moments_of
from workflow_rl.cage2 import parity
from workflow_rl.cage2.agent.scripted import make_blue_agent, scripted_blue
from workflow_rl.cage2.attackers import Seen
from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.cyborg.red_cyborg import ShownRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.red_env import Cage2RedEnv
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import (
    ACTION_NAMES,
    RED_ACTION_NAMES,
    RED_AGENTS,
    RED_ENV_ID,
    RED_OBS_SIZE,
)
from workflow_rl.cage2.scoring import replay_page
from workflow_rl.cage2.scoring.players import TrainedBlue, load_blue
from workflow_rl.cage2.scoring.protocol import cell_spec, evaluate_blue
from workflow_rl.cage2.scoring.recording import Recording, record_episode
from workflow_rl.cage2.scoring.replay_page import compare_with_cyborg
from workflow_rl.cage2.scoring.scores import step_actions
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.training_state import TrainingState

ATTACKERS = RED_AGENTS[:2]
STEPS = 30
OWN = "tests.own_reds:RestlessRed"


def save_run(path: Path, ppo: PPOConfig | None = None, **env_args: object) -> PPOAgent:
    """A checkpoint of an agent that has learned nothing, but chooses different actions."""
    ppo = ppo or PPOConfig(hidden_sizes=(8,))
    config = TrainConfig("async", n_envs=2, settings=ppo, env_args=env_args)
    agent = PPOAgent(config.settings, config.environment.spaces(), seed=1)
    with torch.no_grad():
        agent.network.actor[-1].weight *= 200  # type: ignore[operator, union-attr]
    if agent.obs_moments is not None:
        agent.obs_moments.update(np.random.default_rng(1).integers(0, 2, (9, 52)).astype(float))
    if agent.return_scale is not None:
        agent.return_scale._moments.update(np.random.default_rng(2).normal(0, 9, (50, 1)))
    save_checkpoint(path, Checkpoint(config.to_dict(), agent.state_dict(), TrainingState()))
    return agent


def assert_as_in_cyborg(one: Recording, scenario: Scenario | None = None) -> None:
    """Everything that is shown of every step, read from CybORG."""
    scenario = scenario or Scenario.scenario2()
    n_hosts, n_subnets = len(scenario.hosts), len(scenario.subnets)
    env = Cage2Env(*(one.drawn, one.max_steps, "cyborg", "uint8"), scenario=scenario, measures=True)
    spec = cell_spec(one.seed, one.max_steps, one.red_agent, one.episode)
    obs, _ = env.reset(seed=spec.env_seed)
    total, shown, of_red, measured = 0.0, ShownRed(env), {}, []
    for after, step in zip(
        (one.beginning, *(step.after for step in one.steps)), (None, *one.steps), strict=True
    ):
        if step is not None:
            obs, reward, *_, info = env.step(scenario.action_names.index(step.blue_action))
            measured.append(info["costs"])
            total += reward
            told = env.describe(truth=True)
            assert (step.reward, step.total) == (reward, total)
            assert step.blue_success == told["blue_success"]
            assert (step.red_text, step.red_success) == (told["red_action"], told["red_success"])
            assert step.caught == told["suspicious_hosts"]
            assert round(sum(step.costs.values()), 1) == -reward
            if scenario.is_scenario2:
                assert step.red_choice.observation == of_red["red_observation"]
            mask = of_red["red_row"][-len(scenario.red_action_names) :]
            assert [i for i, is_possible in enumerate(mask) if is_possible] == [
                *step.red_choice.possible
            ]
            assert step.red_choice.action == f"{step.red_action} {step.red_target or ''}".rstrip()
        of_red = shown.after(step.red_choice.action if step else "Sleep")
        facts = of_red["red_row"][n_subnets : n_subnets + 5 * n_hosts]
        sessions_of_red = np.reshape(facts, (n_hosts, 5))[:, 3:].sum(1)
        assert [host.thought for host in after.hosts] == [
            ("none", "user", "privileged")[n] for n in sessions_of_red
        ]
        network = cyborg_network(env)
        assert list(after.subnets) == network["subnets Red knows"]
        assert after.red_knows_ot_service == network["Red knows the OT service"]
        stopped = {
            name
            for name in scenario.ot_hosts
            if 1043 not in [process[0] for process in network[f"{name}: processes"]]
        }
        assert {*after.ot_stopped} == stopped
        rows = zip(scenario.hosts, after.hosts, obs.reshape(n_hosts, 4), strict=True)
        for host, state, bits in rows:
            sessions = network[f"{host}: red sessions"]
            rights = {privileged for _, privileged in sessions}
            assert state.red == ("privileged" if True in rights else "user" if sessions else "none")
            assert state.red_files == network[f"{host}: red files"]
            ports = network[f"{host}: ports Red knows"]
            assert state.ports == tuple(ports or ())
            known = "address" if host in network["addresses Red knows"] else "nothing"
            assert state.known == (known if ports is None else "ports")
            services = network[f"{host}: services"].keys() - {"OTService"}
            assert {f"Decoy{name}" for name in state.decoys} == services
            saw = {"nothing": (0, 0), "scan": (1, 0), "exploit": (1, 1)}[state.activity]
            beliefs = {"clean": (0, 0), "unknown": (1, 0), "user": (0, 1), "privileged": (1, 1)}
            assert (*saw, *beliefs[state.belief]) == tuple(bits.tolist())
    for step, costs in zip(one.steps, measured, strict=True):
        assert step.measured == {name: costs[name] for name in step.measured}


@pytest.mark.parametrize("red_agent", RED_AGENTS)
@pytest.mark.parametrize("blue", ["sleep", "random", "react-restore"])
def test_every_step_is_as_in_cyborg(blue, red_agent):
    assert_as_in_cyborg(record_episode(scripted_blue(blue), red_agent, 100, seed=4))


@pytest.fixture(scope="module")
def office() -> Scenario:
    """Two hosts more than Scenario 2, of which one has a second OT service."""
    return (
        Scenario.scenario2()
        .add_host("Web0", "OP_Server", "Enterprise", availability="Medium")
        .add_host("Desk0", "windows_user_host1", "User", leads_to=["Web0"])
    )


@pytest.mark.parametrize("red_agent", RED_AGENTS[1:])
def test_every_step_in_another_network_is_as_in_cyborg(office, red_agent):
    blue = scripted_blue("react-restore").into(office)
    one = record_episode(blue, red_agent, 100, 4)
    assert_as_in_cyborg(one, office)
    assert compare_with_cyborg(one, scenario=office).is_same is True


def test_an_own_red_agent_attacks_in_another_network(office):
    blue = scripted_blue("sleep").into(office)
    stubborn = "workflow_rl.cage2.attackers:Stubborn"
    one = record_episode(blue, stubborn, 100, 4)
    assert {step.red_choice.action for step in one.steps} <= {*office.red_action_names}
    assert "Web0" in {step.red_target for step in one.steps}
    assert sum(step.reward for step in one.steps) < 0


def test_a_policy_of_a_family_is_shown_in_networks_that_it_never_saw(office, tmp_path):
    family = ScenarioFamily.from_ranges({"hosts": {"User": [3, 4]}, "networks": 2})
    args = {"scenario": family.text, "simulator": "compiled", "observation": "history"}
    ppo = PPOConfig(network="entities", hidden_sizes=(8,))
    config = TrainConfig("async", settings=ppo, env_args=args | {"actions": "by-host"})
    checkpoint = Checkpoint(config.to_dict(), make_agent(config).state_dict(), TrainingState())
    save_checkpoint(tmp_path / "agent.safetensors", checkpoint)
    blue = load_blue(tmp_path / "agent.safetensors")
    assert blue.network == family.draw(2)
    for network in (blue.network, office):
        one = record_episode(blue.into(network), "RedMeanderAgent", STEPS)
        assert_as_in_cyborg(one, network)
        decisions = [step.decision for step in one.steps if step.decision]
        assert len(decisions) == STEPS
        named = {name for decision in decisions for name, _ in decision.probabilities}
        assert named <= {*network.action_names}
    with pytest.raises(ConfigError, match="other hosts or actions"):
        load_blue(Path("champion")).into(office)


@pytest.mark.parametrize("red_agent", [OWN, f"SleepAgent,{OWN}"])
def test_an_own_red_agents_episode_is_as_in_cyborg_and_in_the_evaluation(red_agent):
    asked: dict[str, Any] = {"horizons": [STEPS], "red_agents": [red_agent]}
    (cell,) = evaluate_blue(scripted_blue("react-restore"), 4, seed=2, n_workers=1, **asked).cells
    for number, trajectory in enumerate(cell.trajectories):
        one = record_episode(scripted_blue("react-restore"), red_agent, STEPS, 2, number)
        assert_as_in_cyborg(one)
        assert [step.reward for step in one.steps] == trajectory.reward.tolist()
        assert one.drawn == trajectory.variant
        assert compare_with_cyborg(one).is_same is (None if one.drawn == OWN else True)
        assert one.opponent == (OWN if red_agent == OWN else f"{one.drawn}, drawn from {red_agent}")
    drawn = {trajectory.variant for trajectory in cell.trajectories}
    assert len(drawn) == len(red_agent.split(","))


@pytest.mark.parametrize("attacker", [own_reds.Restless, own_reds.Reckless])
def test_an_attacker_in_python_is_shown_as_it_plays_in_an_env(attacker):
    name = f"tests.own_reds:{attacker.__name__}"
    one = record_episode(scripted_blue("react-restore"), name, STEPS, seed=4)
    seen = []

    class Watched(attacker):  # type: ignore[misc]
        def act(self, shown: Seen) -> Any:
            seen.append((shown.observation, np.flatnonzero(shown.mask).tolist()))
            return super().act(shown)

    env = Cage2Env(Watched, STEPS, simulator="compiled")
    env.reset(seed=cell_spec(4, STEPS, name, 0).env_seed)
    is_possible = []
    for step in one.steps:
        _, reward, *_ = env.step(ACTION_NAMES.index(step.blue_action))
        choice = step.red_choice
        assert (reward, choice.decision) == (step.reward, None)
        assert seen.pop() == (choice.observation, [*choice.possible])
        is_possible.append(RED_ACTION_NAMES.index(choice.action) in choice.possible)
        assert is_possible[-1] or step.red_success == "FALSE"
    assert all(is_possible) == (attacker is own_reds.Restless)


def test_a_trained_red_agent_is_shown_as_its_policy_plays(tmp_path):
    """Beside the environment of Red's side, and CybORG."""
    n, draws = len(RED_ACTION_NAMES), np.random.default_rng(3)
    weights = draws.normal(0, 1, (RED_OBS_SIZE, n)).astype(np.float32)
    bias = np.zeros(n, np.float32)
    parameters = PolicyParameters((weights,), (bias,), "tanh", masked=True)
    write_policy(parameters, make_environment(RED_ENV_ID, {}), tmp_path / "red.npz")
    blue = scripted_blue("react-restore")
    one = record_episode(blue, str(tmp_path / "red.npz"), STEPS, seed=4)
    assert compare_with_cyborg(one).is_same is True
    env = Cage2RedEnv(Reciting([ACTION_NAMES.index(s.blue_action) for s in one.steps]))
    obs, info = env.reset(seed=cell_spec(4, STEPS, one.red_agent, 0).env_seed)
    for step in one.steps:
        choice, mask = step.red_choice, info["action_mask"]
        assert choice.observation == env.red_observation()
        assert [*choice.possible] == np.flatnonzero(mask).tolist()
        powers = np.where(mask, np.exp((obs @ weights).astype(np.float64)), 0)
        for name, shown in choice.decision.probabilities:
            expected = powers[RED_ACTION_NAMES.index(name)] / powers.sum()
            assert shown == pytest.approx(expected, rel=1e-4)
        assert choice.action in dict(choice.decision.probabilities)
        obs, reward, *_, info = env.step(RED_ACTION_NAMES.index(choice.action))
        assert reward == -step.reward
    likeliest = [step.red_choice.decision.probabilities[0][0] for step in one.steps]  # type: ignore[union-attr]
    assert likeliest != [step.red_choice.action for step in one.steps]  # It draws.


def test_decoys_are_shown_while_they_are_there():
    blue = make_blue_agent("mixed-decoys")
    one = record_episode(blue, "RedMeanderAgent", 100, seed=1)
    assert_as_in_cyborg(one)
    assert any(len(host.decoys) > 2 for host in one.steps[-1].after.hosts)


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("red_agent", ATTACKERS)
def test_episode_k_is_that_of_the_evaluation(tmp_path, red_agent, greedy):
    save_run(tmp_path / "agent.safetensors")
    blue = load_blue(tmp_path / "agent.safetensors", greedy=greedy)
    evaluation = evaluate_blue(
        blue, 3, seed=7, n_workers=1, horizons=[STEPS], red_agents=[red_agent]
    )
    for number, trajectory in enumerate(evaluation.cells[0].trajectories):
        one = record_episode(blue, red_agent, STEPS, 7, number)
        assert [step.reward for step in one.steps] == trajectory.reward.tolist()
        played = [(step.blue_action, step.red_text) for step in one.steps]
        assert played == step_actions(trajectory, ACTION_NAMES)
    returns = {record_episode(blue, red_agent, STEPS, 7, k).episode_return for k in range(3)}
    assert len(returns) > 1


def test_probabilities_and_values_are_the_networks_own(tmp_path):
    agent = save_run(
        tmp_path / "agent.safetensors",
        PPOConfig(hidden_sizes=(8,), normalise_obs=True, normalise_returns=True, reward_scale=0.5),
    )
    one = record_episode(load_blue(tmp_path / "agent.safetensors"), "B_lineAgent", STEPS)
    obs = np.zeros((1, 52), np.float32)
    mean, scale = agent.obs_moments.mean_and_scale()  # type: ignore[union-attr]
    with torch.no_grad():
        logits, value = agent.network(torch.from_numpy((obs - mean) * scale))
    probability = torch.softmax(logits[0], 0)
    decision = one.steps[0].decision
    assert decision.value is not None
    for name, shown in decision.probabilities:
        assert shown == pytest.approx(probability[ACTION_NAMES.index(name)].item(), rel=1e-4)
    unit = 0.5 * agent.return_scale.scaled(np.array([1e-3]))[0] / 1e-3  # type: ignore[union-attr]
    assert decision.value == pytest.approx(value.item() / unit, rel=1e-4)
    for step in one.steps:
        shown = [probability for _, probability in step.decision.probabilities]
        assert step.decision.probabilities[0][0] == step.blue_action  # Greedy.
        assert shown == sorted(shown, reverse=True)
        assert sum(shown) <= 1 + 1e-9
    assert len({step.decision.value for step in one.steps if step.decision}) > 1


def test_a_sampled_action_is_shown_even_if_unlikely():
    policy = np.random.default_rng(3)
    weights = policy.normal(0, 0.1, (52, 145)).astype(np.float32)
    flat = PolicyParameters((weights,), (np.zeros(145, np.float32),), "tanh")
    blue = TrainedBlue("flat", NumpyPolicy(flat), Cage2())
    one = record_episode(blue, "B_lineAgent", STEPS)
    assert one.choice == "sampled"
    decisions = [(step.blue_action, step.decision) for step in one.steps]
    assert all(action in dict(decision.probabilities) for action, decision in decisions)  # type: ignore[union-attr]
    assert any(len(decision.probabilities) == 6 for _, decision in decisions)  # type: ignore[union-attr]


def test_choices_that_come_to_one_action_are_one(tmp_path):
    """With one choice for all decoys of a host, it is the next decoy; after the last, to sleep."""
    opening = ["DecoyFemitter User2", "Sleep"]
    save_run(tmp_path / "agent.safetensors", actions="by-host", opening=opening)
    blue = load_blue(tmp_path / "agent.safetensors", greedy=False)
    one = record_episode(blue, "B_lineAgent", 100)
    decisions = [step.decision for step in one.steps]
    assert [step.blue_action for step in one.steps[:2]] == opening
    assert [decision.is_opening for decision in decisions if decision] == [True] * 2 + [False] * 98
    assert decisions[0].probabilities == ((opening[0], 1.0),)
    for step in one.steps[2:]:
        assert step.blue_action in dict(step.decision.probabilities)
        assert len(dict(step.decision.probabilities)) == len(step.decision.probabilities)


def test_moments_add_up_to_the_return_and_the_costliest_comes_first():
    one = record_episode(scripted_blue("react-restore"), "B_lineAgent", 100)
    assert round(sum(moment.cost for moment in one.moments), 1) == -round(one.episode_return, 1)
    assert [m.cost for m in one.moments] == sorted((m.cost for m in one.moments), reverse=True)
    found = moments_of([{"a": 1.0}, {"a": 1.0, "b": 0.1}, {}, {"a": 0.1}])
    shown = [(moment.cause, moment.first, moment.last, moment.cost) for moment in found]
    assert shown == [("a", 1, 2, 2.0), ("b", 2, 2, 0.1), ("a", 4, 4, 0.1)]


def test_is_held_against_cyborg_and_says_if_it_is_not(monkeypatch):
    one = record_episode(scripted_blue("random"), "RedMeanderAgent", STEPS)
    assert compare_with_cyborg(one).is_same is True
    # What Blue did makes a difference: it is this episode that is compared.
    played = []
    compare_episode = replay_page.compare_episode

    def watched(*given: Any) -> Any:
        played.append(given)
        return compare_episode(*given)

    monkeypatch.setattr(replay_page, "compare_episode", watched)
    compare_with_cyborg(one)
    ((_, _, players, episode, network_every),) = played
    assert (episode.steps, network_every) == (STEPS, 1)
    assert next(players._left, None) is None  # All of it.

    step = CompiledSimulator.step

    def step_with_fault(self: CompiledSimulator, action: int) -> Any:
        obs, reward = step(self, action)
        n_steps.append(action)
        return obs, reward - (len(n_steps) == 3)

    n_steps: list[int] = []
    monkeypatch.setattr(CompiledSimulator, "step", step_with_fault)
    different = compare_with_cyborg(one)
    assert different.is_same is False
    assert "in step 3." in different.text

    def missing(*given: object, **named: object) -> None:
        raise ModuleNotFoundError("No module named 'csle_cyborg'")

    monkeypatch.setattr(parity, "both_sides", missing)
    assert compare_with_cyborg(one).is_same is None


def test_agents_are_loaded_as_evaluate_does(tmp_path):
    save_run(tmp_path / "agent.safetensors")
    (tmp_path / "run").mkdir()
    save_run(tmp_path / "run" / "checkpoint.safetensors")
    assert load_blue(tmp_path / "agent.safetensors").name == f"{tmp_path.name}/agent.safetensors"
    assert load_blue(tmp_path / "run").name == "run"
    assert load_blue(Path("react-remove")).choice == "scripted"
    assert load_blue(Path("champion")).choice == "greedy"
    save_run(tmp_path / "seeing.safetensors", simulator="compiled", observation="true-state")
    with pytest.raises(UserError, match="which no evaluation shows"):
        load_blue(tmp_path / "seeing.safetensors")
    with pytest.raises(UserError):
        load_blue(tmp_path / "none")
