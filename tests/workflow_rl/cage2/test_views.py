"""What Blue's policy sees and chooses from: the same around envs and around an actor."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from agents.distributions import Categorical
from agents.networks import ActorCritic
from agents.numpy_policy import NumpyPolicy
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.cage2.compiled.tables import FALSE
from workflow_rl.cage2.environment import MIXTURES, Cage2
from workflow_rl.cage2.evaluation import evaluate_actor, load_policy
from workflow_rl.cage2.scenario2 import ACTION_NAMES, HOSTS
from workflow_rl.cage2.views import (
    LONGEST_OPENING,
    ViewingActor,
    make_action_set,
    opening,
    useful_actions,
)
from workflow_rl.collection.environment import InvalidEnvironmentError
from workflow_rl.collection.episode import episode_spec
from workflow_rl.collection.play import play_episodes
from workflow_rl.training.checkpoint import CheckpointError

MEMORY = Cage2("attackers", 20, "compiled", "memory", "useful")


def policy_for(environment: Cage2, greedy: bool = False) -> NumpyPolicy:
    spaces = environment.spaces()
    network = ActorCritic(spaces.obs_dim, spaces.distribution, (16,), "tanh", seed=1)
    return NumpyPolicy(network.policy_parameters(), greedy=greedy)


def test_the_useful_actions() -> None:
    names = {ACTION_NAMES[action] for action in useful_actions()}
    assert len(names) == 67
    assert {"Sleep", "Analyse Op_Host2", "Remove User1", "Restore Op_Server0"} <= names
    assert {"DecoyFemitter Enterprise1", "DecoyVsftpd User4"} <= names
    # Of what would do nothing, or no good.
    assert not {"Monitor", "Restore User0", "Analyse Defender", "DecoyApache User4"} & names
    assert make_action_set("all").n == len(ACTION_NAMES)


def test_spaces() -> None:
    assert Cage2().spaces() == (4 * len(HOSTS), Categorical(145))
    assert MEMORY.spaces().obs_dim > 200
    assert MEMORY.spaces().distribution == Categorical(67)


@pytest.mark.parametrize("name", ["observation", "actions"])
def test_unknown_views_are_refused(name: str) -> None:
    with pytest.raises(InvalidEnvironmentError, match="'none' is not one of") as error:
        Cage2(**{name: "none"})
    assert error.value.argument == name


def test_attackers_are_drawn_more_often_than_the_one_that_sleeps() -> None:
    variants = MEMORY.variants
    assert set(variants) == set(MIXTURES["mixed"])
    assert variants.count("SleepAgent") / len(variants) == 0.05


def test_both_simulators_show_the_same() -> None:
    specs = [episode_spec(3, number, MEMORY.variants) for number in range(6)]
    played = []
    for simulator in ("compiled", "cyborg"):
        environment = Cage2("attackers", 20, simulator, "memory", "useful")
        envs = environment.make_envs(3)
        episodes = play_episodes(envs, policy_for(environment), specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
        envs.close()
    for ours, its in zip(*played, strict=True):
        assert (ours.obs == its.obs).all()
        assert (ours.action == its.action).all()
        assert (ours.reward == its.reward).all()


def test_an_actor_plays_outside_as_it_does_inside() -> None:
    """On bare envs, some of which begin while others are in the middle of an episode."""
    specs = [episode_spec(3, number, MEMORY.variants) for number in range(7)]
    bare = Cage2("attackers", 20, "compiled")
    played = []
    for environment, actor in (
        (MEMORY, policy_for(MEMORY)),
        (bare, pickle.loads(pickle.dumps(MEMORY.bare_actor(policy_for(MEMORY))))),
    ):
        # More episodes than envs: each begins where another ends.
        episodes = play_episodes(environment.make_envs(3), actor, specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
    for inside, outside in zip(*played, strict=True):
        assert (useful_actions()[inside.action] == outside.action).all()
        assert (inside.obs[:, :52] == outside.obs).all()
        assert inside.episode_return == outside.episode_return


def test_envs_that_begin_and_others_that_go_on_in_one_call() -> None:
    policy = policy_for(MEMORY, greedy=True)
    together, alone = (ViewingActor(policy, "memory", "useful") for _ in range(2))
    obs = np.random.default_rng(0).integers(2, size=(3, 52)).astype(np.uint8)
    for actor, env in ((together, 4), (alone, 0)):
        actor.reset(0, env)
        actor.act(obs[:1], [env])
    together.reset(0, 2)
    actions, _ = together.act(obs[1:], [4, 2])
    assert actions[0] == alone.act(obs[1:2], [0])[0][0]
    alone.reset(0, 0)
    assert actions[1] == alone.act(obs[2:], [0])[0][0]


def test_the_table_alone_needs_no_wrapping() -> None:
    policy = policy_for(Cage2())
    assert Cage2().bare_actor(policy) is policy


def test_a_run_with_a_view_is_evaluated_and_loaded(tmp_path: Path) -> None:
    env_args = {
        **{"red_agent": "attackers", "max_steps": 20, "simulator": "compiled"},
        **{"observation": "memory", "actions": "useful"},
    }
    config = TrainConfig(
        *("async", 8),
        env_args=env_args,
        n_workers=1,
        total_episodes=16,
        episodes_per_update=8,
        ppo={"hidden_sizes": (16,)},
    )
    run = train(config, tmp_path / "run")
    policy = load_policy(run / "checkpoint.pt")
    scores = evaluate_actor(policy, 2, n_workers=1, horizons=[30])
    assert scores.cells[0].mean < 0
    agent = load_agent(run)
    agent.reset()
    actions = [agent.act(np.zeros(52, np.uint8)) for _ in range(3)]
    assert set(actions) <= set(useful_actions().tolist())


def test_the_true_state_is_for_the_compiled_simulator_alone() -> None:
    with pytest.raises(InvalidEnvironmentError, match="--simulator compiled"):
        Cage2(observation="true-state")
    environment = Cage2("attackers", 20, "compiled", "true-state", "useful")
    specs = [episode_spec(3, number, MEMORY.variants) for number in range(6)]
    episodes = play_episodes(environment.make_envs(6), policy_for(environment), specs)
    for trajectory in (t for block in episodes for t in block):
        assert trajectory.obs.shape == (20, environment.spaces().obs_dim)
        assert trajectory.obs.max() == 1
        # Who attacks is among what it shows, and the same in every step.
        assert (trajectory.obs.min(axis=0) == 1).any()
    with pytest.raises(ValueError, match="true state is seen in the compiled simulator alone"):
        environment.bare_actor(policy_for(environment))


def test_an_agent_that_sees_the_true_state_is_not_evaluated(tmp_path: Path) -> None:
    env_args = {"simulator": "compiled", "max_steps": 10, "observation": "true-state"}
    config = TrainConfig(
        *("async", 4), env_args=env_args, n_workers=1, total_episodes=4, episodes_per_update=4
    )
    run = train(config, tmp_path / "run")
    with pytest.raises(CheckpointError, match="which no evaluation shows"):
        load_policy(run / "checkpoint.pt")


def test_openings_set_up_decoys_on_one_host_and_follow_from_the_seed() -> None:
    specs = [episode_spec(3, number, MEMORY.variants) for number in range(400)]
    openings = [opening(spec, 0.5) for spec in specs]
    assert openings == [opening(spec, 0.5) for spec in specs]
    played = [[ACTION_NAMES[action] for action in actions] for actions in openings if actions]
    assert 0.4 < len(played) / len(specs) < 0.6
    assert {len(names) for names in played} == {1, 2, 3, 4} == set(range(1, LONGEST_OPENING + 1))
    for names in played:
        assert all(name.startswith("Decoy") for name in names)
        assert len({name.partition(" ")[2] for name in names}) == 1
        assert len(set(names)) == len(names)
    assert not any(opening(spec, 0.0) for spec in specs)


def test_episodes_with_openings_are_shorter_and_begin_with_what_they_led_to() -> None:
    environment = Cage2("RedMeanderAgent", 20, "compiled", "memory", "useful", 1.0)
    specs = [episode_spec(3, number, environment.variants) for number in range(30)]
    policy = policy_for(environment)
    episodes = play_episodes(environment.make_envs(7), policy, specs)
    for trajectory in (t for block in episodes for t in block):
        actions = opening(specs[trajectory.episode], 1.0)
        assert trajectory.length == 20 - len(actions)
        assert trajectory.truncated
        bare = Cage2("RedMeanderAgent", 20, "compiled").make_envs(1)
        obs = bare.reset([0], [specs[trajectory.episode]])
        for action in actions:
            obs = bare.step([0], np.array([action])).obs
        assert (trajectory.obs[0][:52] == obs[0]).all()
        # The decoys are remembered.
        assert trajectory.obs[0][52:].sum() > 0


def test_openings_need_longer_episodes() -> None:
    for arguments in ({"openings": 1.5}, {"openings": 0.5, "max_steps": 4}):
        with pytest.raises(InvalidEnvironmentError) as error:
            Cage2(**arguments)
        assert error.value.argument == "openings"


def test_one_action_for_all_decoys_of_a_host() -> None:
    """The next that fits, in the order in which Red falls for them, until Restore takes them."""
    actions = make_action_set("by-host")
    assert actions.n == 45
    actions.begin([0, 3])
    restore = ACTION_NAMES.index("Restore User2")

    def play(choice: int, envs: list[int]) -> list[str]:
        chosen = actions.chosen(envs, np.full(len(envs), choice))
        actions.after(envs, chosen)
        return [ACTION_NAMES[action] for action in chosen]

    on_user2 = actions.n - 3
    in_order = [f"Decoy{name} User2" for name in ("Femitter", "Tomcat", "Apache", "SSHD")]
    assert play(on_user2, [3]) == in_order[:1]
    # Every env has its own.
    assert play(on_user2, [0, 3]) == in_order[:2]
    assert [play(on_user2, [3])[0] for _ in range(3)] == [*in_order[2:], "Sleep"]
    actions.after([3], np.array([restore]))
    assert play(on_user2, [0, 3]) == [in_order[1], in_order[0]]
    actions.begin([0])
    assert play(on_user2, [0]) == in_order[:1]


def test_the_next_decoy_is_one_that_can_be_set_up() -> None:
    """As the simulator has it: every action on the way succeeds."""
    environment = Cage2("SleepAgent", 60, "compiled", "memory", "by-host")
    envs = environment.make_envs(1)
    envs.reset([0], [episode_spec(0, 0, environment.variants)])
    (simulator,) = {envs._envs._simulator}
    for choice in range(make_action_set("by-host").n - 11, make_action_set("by-host").n):
        for _ in range(5):
            envs.step([0], np.array([choice]))
            # Sleep's success is not known.
            assert simulator.states[0]["blue_success"] != FALSE
