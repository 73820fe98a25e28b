"""CAGE-4 as the trainers see it: rows of a team, equal on every simulator."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.workflow_rl.cage4.counting_simulator import CountingSimulator
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.team_policy import TeamParameters, TeamPolicy
from workflow_rl.agents.team import ACTS, BUSY, CUT_OFF, policy_map
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.policy_team import PolicyTeam
from workflow_rl.cage4.agent.raw_record import NUMBERS
from workflow_rl.cage4.agent.views import ACTION_SETS, OBSERVATIONS, SLEEP, ViewRows
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.arguments import MOST_STEPS
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.env.team_envs import SerialNetworks, TeamEnvs
from workflow_rl.cage4.scenario.scenario4 import ACTIONS, ENV_ID, N_ACTIONS, SCENARIOS
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import EnvBatch, EpisodeError
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

RESTORE = 33
N_MASKS = sum(N_ACTIONS)


def specs(*numbers: int) -> list[EpisodeSpec]:
    return [episode_spec(0, number, ("FiniteStateRedAgent",)) for number in numbers]


def drawn(rows: NDArray[np.generic], random: np.random.Generator) -> NDArray[np.int64]:
    masks = np.split(rows[:, -N_MASKS:], np.cumsum(N_ACTIONS)[:-1], axis=1)
    return np.array([[random.choice(np.flatnonzero(row)) for row in mask] for mask in masks]).T


def status(rows: NDArray[np.generic]) -> list[int]:
    return rows[0, -N_MASKS - 5 : -N_MASKS].astype(int).tolist()


@pytest.mark.parametrize(
    ("observation", "messages"),
    [("flat", "none"), ("flat", "alerts"), ("belief", "alerts"), ("hidden", "none")],
)
def test_cyborg_and_the_compiled_simulator_give_the_same_rows(checkout, observation, messages):
    args = {"observation": observation, "messages": messages, "measures": True}
    made: list[EnvBatch] = [
        Cage4(simulator=one, max_steps=40, **args).make_envs(2) for one in ("compiled", "cyborg")
    ]
    random, rows = np.random.default_rng(3), [envs.reset([0, 1], specs(4, 5)) for envs in made]
    for _ in range(39):
        assert rows[0].dtype == rows[1].dtype
        assert np.array_equal(*rows)
        actions = drawn(rows[0], random)
        first, second = (envs.step([0, 1], actions) for envs in made)
        assert np.array_equal(first.reward, second.reward)
        assert np.array_equal(first.costs, second.costs)
        assert np.array_equal(first.truncated, second.truncated)
        rows = [first.obs, second.obs]
    assert first.truncated.all()
    assert not first.terminated.any()
    assert status(first.obs) == [CUT_OFF] * 5


def slept(envs: EnvBatch, env: int, spec: EpisodeSpec) -> list[Any]:
    """What an episode shows and pays a team that sleeps."""
    shown, truncated = [envs.reset([env], [spec]).tobytes()], False
    while not truncated:
        answer = envs.step([env], SLEEP[None])
        shown.append((answer.obs.tobytes(), answer.reward[0]))
        truncated = answer.truncated[0]
    return shown


@pytest.mark.parametrize("simulator", ["compiled", "cyborg"])
def test_each_episode_plays_the_scenario_that_it_draws(checkout, simulator):
    environment = Cage4(simulator=simulator, max_steps=60, scenarios=tuple(SCENARIOS))
    drawn = [episode_spec(0, number, environment.variants) for number in range(30)]
    assert {spec.variant for spec in drawn} == set(SCENARIOS)
    envs = environment.make_envs(2)
    # One env plays one scenario after another.
    for spec in drawn[:6]:
        plain = Cage4(simulator=simulator, max_steps=60, **asdict(SCENARIOS[spec.variant]))
        assert slept(envs, 1, spec) == slept(
            plain.make_envs(1), 0, spec._replace(variant=plain.red_agent)
        )


def test_each_episode_plays_the_red_agent_that_it_draws():
    reds = "DiscoveryFSRed=2,RandomSelectRedAgent"
    environment = Cage4(max_steps=20, red_agent=reds)
    assert environment.variants == ("DiscoveryFSRed", "DiscoveryFSRed", "RandomSelectRedAgent")
    assert environment.label == "cage4-DiscoveryFSRed-2-RandomSelectRedAgent"
    drawn = [episode_spec(0, number, environment.variants) for number in range(8)]
    assert {spec.variant for spec in drawn} == {*environment.variants}
    envs = environment.make_envs(2)
    for spec in drawn:
        alone = Cage4(max_steps=20, red_agent=spec.variant).make_envs(1)
        assert slept(envs, 1, spec) == slept(alone, 0, spec)
    names = ("more-phishing", "stealthy-red")
    both = Cage4(red_agent="DiscoveryFSRed,SleepAgent=2", scenarios=names)
    one_of_each = (("DiscoveryFSRed", 1), ("SleepAgent", 2))
    expected = {f"{name}, {red}": n for name in names for red, n in one_of_each}
    assert Counter(both.variants) == expected
    assert both.played["stealthy-red, SleepAgent"] == ("SleepAgent", SCENARIOS["stealthy-red"])


def test_a_busy_agent_decides_nothing_and_its_action_costs_nothing():
    envs = Cage4(max_steps=20, actions="repair").make_envs(1)
    rows = envs.reset([0], specs(0))
    assert status(rows) == [ACTS] * 5
    restores = np.tile(SLEEP, (1, 1))
    restores[0, 0] = RESTORE + np.flatnonzero(rows[0, -N_MASKS:][RESTORE : RESTORE + 16])[0]
    answer = envs.step([0], restores)
    assert answer.reward.tolist() == [-1]
    for _ in range(4):
        assert status(answer.obs) == [BUSY, ACTS, ACTS, ACTS, ACTS]
        answer = envs.step([0], restores)
        assert answer.reward.tolist() == [0]
    assert status(answer.obs) == [ACTS] * 5


def test_own_rewards_are_of_an_agents_own_zones():
    layout = Cage4(own_rewards=True).spaces().team
    envs = Cage4(max_steps=20, own_rewards=True).make_envs(2)
    rows = envs.reset([0, 1], specs(0, 1))
    assert not layout.rewards(rows).any()
    assert not layout.state(rows).any()
    restores = np.tile(SLEEP, (2, 1))
    restores[0, 2] = RESTORE + np.flatnonzero(rows[0, -N_MASKS + 2 * 82 :][RESTORE:])[0]
    first = envs.step([0, 1], restores)
    # Nothing else costs in the first step: red is in the contractor's zone, which is no agent's.
    assert layout.rewards(first.obs).tolist() == [[0, 0, -1, 0, 0], [0] * 5]
    assert first.reward.tolist() == [-1, 0]
    busy = layout.state(first.obs).reshape(2, 5, -1)[0, :, 18]
    assert busy.tolist() == pytest.approx([0, 0, 4 / 5, 0, 0])
    plain = Cage4(max_steps=20).make_envs(2)
    plain.reset([0, 1], specs(0, 1))
    without = plain.step([0, 1], restores).obs
    n_shown = sum(layout.obs_sizes) + 5
    assert np.array_equal(first.obs[:, :n_shown], without[:, :n_shown])
    assert np.array_equal(first.obs[:, -N_MASKS:], without[:, -N_MASKS:])


def test_a_set_of_actions_rules_out_the_others():
    envs = Cage4(max_steps=20, actions="repair").make_envs(1)
    mask = envs.reset([0], specs(0))[0, -N_MASKS:]
    kinds = [action.kind for actions in ACTIONS for action in actions]
    assert {kinds[i] for i in np.flatnonzero(mask)} == ACTION_SETS["repair"]


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_envs_do_not_depend_on_those_beside_them(observation):
    def played(envs: EnvBatch, steps: Sequence[Sequence[int]]) -> dict[int, list[bytes]]:
        rows = envs.reset([0, 1, 2], specs(0, 1, 2))
        shown = {env: [row.tobytes()] for env, row in enumerate(rows)}
        last, random = dict(enumerate(rows)), [np.random.default_rng(env) for env in range(3)]
        for group in steps:
            seen = [last[env][None] for env in group]
            actions = [drawn(row, random[env]) for env, row in zip(group, seen, strict=True)]
            for env, row in zip(group, envs.step(group, np.concatenate(actions)).obs, strict=True):
                last[env] = row
                shown[env].append(row.tobytes())
        return shown

    together = [[0, 1, 2]] * 12
    apart = [[2, 0], [1], [0], [1, 2]] * 3 + [[0, 1, 2]] * 6
    made = [Cage4(max_steps=30, observation=observation).make_envs(3) for _ in range(2)]
    assert played(made[0], together) == played(made[1], apart)


def random_team(environment: Cage4) -> TeamPolicy:
    layout = environment.spaces().team
    policies, parameters = policy_map(layout, ""), {}
    for name, of in policies.items():
        n_inputs = layout.obs_sizes[of[0]] + len(of) * (len(of) > 1)
        random = np.random.default_rng(len(of))
        weights = random.normal(size=(n_inputs, layout.n_actions[of[0]])).astype(np.float32)
        biases = np.zeros(weights.shape[1], np.float32)
        parameters[name] = PolicyParameters((weights,), (biases,), "tanh", masked=True)
    return TeamParameters(layout, policies, parameters).actor()


@pytest.mark.parametrize(
    ("own_rewards", "messages"),
    [(False, "none"), (True, "none"), (False, "alerts"), (True, "learned")],
)
@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_a_trained_team_plays_alone_as_in_training(observation, own_rewards, messages):
    environment = Cage4(
        observation=observation, max_steps=60, own_rewards=own_rewards, messages=messages
    )
    policy, (spec,) = random_team(environment), specs(7)
    trajectory = play_episode(environment.make_envs(1), policy, spec)
    simulator = CompiledSimulator("FiniteStateRedAgent", 60)
    team = SingleTeam(PolicyTeam(1, policy, observation, "all", messages))
    observations = simulator.reset(spec.env_seed)
    team.reset(simulator.masks, spec.action_seed)
    rewards, heard, done = [], 0, False
    while not done:
        observations, reward, _, _, done = simulator.step(*team.act_in(simulator, observations))
        rewards.append(reward)
        heard += sum(int(one[-32:].sum()) for one in observations)
    assert rewards == trajectory.reward.tolist()
    assert (heard > 0) == (messages != "none")
    assert np.count_nonzero(policy.parameters.layout.status(trajectory.obs) == BUSY) > 20


def test_an_error_names_its_episode():
    made = iter([CountingSimulator(), CountingSimulator(fails_at=2)])
    networks = SerialNetworks(2, lambda variant: next(made), False)
    envs = TeamEnvs(networks, ViewRows(2, "flat", "all"), 499)
    envs.reset([0, 1], specs(8, 9))
    envs.step([0, 1], np.tile(SLEEP, (2, 1)))
    with pytest.raises(EpisodeError) as error:
        envs.step([0, 1], np.tile(SLEEP, (2, 1)))
    assert error.value.spec.number == 9


def test_cyborg_needs_a_checkout(monkeypatch):
    monkeypatch.delenv("WORKFLOW_RL_CYBORG4", raising=False)
    with pytest.raises(ConfigError, match=r"git clone.*--cyborg4") as error:
        Cage4(simulator="cyborg").check()
    assert error.value.field_name == "simulator"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"max_steps": 2}, "max_steps: 2 is not allowed"),
        ({"max_steps": MOST_STEPS + 1}, f"max_steps: {MOST_STEPS + 1} is not allowed"),
        ({"actions": ""}, "actions: '' is not one of all, repair"),
        ({"scenarios": ["more-phishing"], "phishing_rate": 0.5}, r"leave out phishing rate 0\.5"),
        ({"own_rewards": True, "simulator": "cyborg"}, "needs the simulator compiled"),
    ],
)
def test_arguments_are_checked(args, message):
    with pytest.raises(ConfigError, match=message) as error:
        make_environment(ENV_ID, args)
    assert error.value.field_name == next(iter(args))


def test_own_rewards_do_not_go_with_actions_that_block():
    """What is trained is refused; what was trained before can still be read."""
    asked = {"own_rewards": True, "actions": "all"}
    with pytest.raises(ConfigError, match=r"actions all, .* repair") as error:
        make_environment(ENV_ID, asked).check()
    assert error.value.field_name == "own_rewards"
    make_environment(ENV_ID, {**asked, "actions": "repair"}).check()


def test_who_decides_nothing_sweeps_in_the_simulator():
    envs = Cage4(max_steps=40, actions="suspects", observation="belief").make_envs(1)
    envs.reset([0], specs(0))
    analysed, decoys = np.zeros((2, envs._networks.raw["files"].shape[1]), np.int64)
    for _ in range(39):
        envs.step([0], SLEEP[None])
        analysed += envs._networks.raw["files"][0] > 0
        decoys += envs._networks.raw["decoy"][0] > 0
    # Both actions take two steps, and all five agents begin another as soon as they are free.
    assert analysed.any()
    assert analysed.sum() + decoys.sum() == 5 * 19
    belief = envs._rows._sweeping.belief
    assert (analysed[NUMBERS] > 0).tolist() == (belief.analysed[0] > 0).tolist()
    assert decoys[NUMBERS].tolist() == belief.decoys[0].tolist()
    assert not (analysed[NUMBERS] > 0)[~belief.exists[0]].any()
