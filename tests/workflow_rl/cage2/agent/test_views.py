"""What Blue's policy sees and chooses from: the same around envs and around an actor."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.async_train_workflow_rl import train_async
from workflow_rl.cage2.agent.views import ActionSet, ViewingActor
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, ENV_ID, HOSTS, RED_AGENTS
from workflow_rl.cage2.scoring.players import load_blue
from workflow_rl.cage2.scoring.protocol import evaluate_blue
from workflow_rl.collection.player import play_episodes
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError, UserError

BELIEF = Cage2("attackers", 20, "compiled", "belief", "by-host")


def policy_for(environment: Cage2, greedy: bool = False) -> NumpyPolicy:
    spaces = environment.spaces()
    network = ActorCritic(spaces.obs_dim, spaces.distribution, (16,), "tanh", seed=1)
    return NumpyPolicy(network.policy_parameters(), greedy=greedy)


def test_spaces() -> None:
    assert Cage2().spaces()[:4] == (4 * len(HOSTS), Categorical(145), None, True)
    assert BELIEF.spaces().obs_dim > 200
    assert BELIEF.spaces().distribution == Categorical(45)


@pytest.mark.parametrize("name", ["observation", "actions"])
def test_unknown_views_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="'none' is not one of") as error:
        make_environment(ENV_ID, {name: "none"})
    assert error.value.field_name == name


def test_masks_that_belong_to_a_view_cannot_be_ignored() -> None:
    with pytest.raises(ConfigError, match="asked for masks"):
        make_environment(ENV_ID, {"observation": "history"}, masks=False)


def test_attackers_are_drawn_more_often_than_the_one_that_sleeps() -> None:
    variants = BELIEF.variants
    assert set(variants) == set(RED_AGENTS)
    assert variants.count("SleepAgent") / len(variants) == 0.05


def test_both_simulators_show_the_same() -> None:
    specs = [episode_spec(3, number, BELIEF.variants) for number in range(6)]
    played = []
    for simulator in ("compiled", "cyborg"):
        environment = Cage2("attackers", 20, simulator, "evidence", "by-host")
        envs = environment.make_envs(3)
        episodes = play_episodes(envs, policy_for(environment), specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
        envs.close()
    for ours, its in zip(*played, strict=True):
        assert (ours.obs == its.obs).all()
        assert (ours.action == its.action).all()
        assert (ours.reward == its.reward).all()


@pytest.mark.parametrize("observation", ["belief", "evidence"])
def test_an_actor_plays_outside_as_it_does_inside(observation: str) -> None:
    """On bare envs, some of which begin while others are in the middle of an episode."""
    seeing = dataclasses.replace(BELIEF, observation=observation)
    specs = [episode_spec(3, number, BELIEF.variants) for number in range(7)]
    bare = Cage2("attackers", 20, "compiled")
    played = []
    for environment, actor in (
        (seeing, policy_for(seeing)),
        (bare, pickle.loads(pickle.dumps(seeing.actor_on_observations(policy_for(seeing))))),
    ):
        # More episodes than envs: each begins where another ends.
        episodes = play_episodes(environment.make_envs(3), actor, specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
    for inside, outside in zip(*played, strict=True):
        assert taken_in_an_episode(inside.action) == outside.action.tolist()
        assert (inside.obs[:, :52] == outside.obs).all()
        assert inside.episode_return == outside.episode_return


def taken_in_an_episode(choices: np.ndarray) -> list[int]:
    """The environment's actions for the policy's choices, one after another."""
    actions, taken = ActionSet("by-host", BELIEF.facts), []
    actions.begin([0])
    for choice in choices:
        action = actions.chosen([0], np.array([choice]))
        actions.after([0], action)
        taken.append(int(action[0]))
    return taken


def test_envs_that_begin_and_others_that_go_on_in_one_call() -> None:
    policy = policy_for(BELIEF, greedy=True)
    together, alone = (
        ViewingActor(policy, "belief", "by-host", (), BELIEF.facts) for _ in range(2)
    )
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
    assert Cage2().actor_on_observations(policy) is policy


def test_a_run_with_a_view_is_evaluated_and_loaded(tmp_path: Path) -> None:
    env_args = {
        **{"red_agent": "attackers", "max_steps": 20, "simulator": "compiled"},
        **{"observation": "belief", "actions": "by-host"},
    }
    config = TrainConfig(
        *("async", 8),
        env_args=env_args,
        n_workers=1,
        total_episodes=16,
        episodes_per_update=8,
        settings={"hidden_sizes": (16,)},
    )
    run = train(config, tmp_path / "run")
    blue = load_blue(run / "checkpoint.safetensors")
    scores = evaluate_blue(blue, 2, n_workers=1, horizons=[30])
    assert scores.cells[0].mean < 0
    agent = load_agent(run)
    agent.reset()
    actions = [agent.act(np.zeros(52, np.uint8)) for _ in range(3)]
    assert all(0 <= action < len(ACTION_NAMES) for action in actions)


def test_the_true_state_is_for_the_compiled_simulator_alone() -> None:
    with pytest.raises(ConfigError, match="compiled"):
        make_environment(ENV_ID, {"observation": "true-state", "simulator": "cyborg"})
    environment = Cage2("attackers", 20, "compiled", "true-state", "by-host")
    specs = [episode_spec(3, number, BELIEF.variants) for number in range(6)]
    episodes = play_episodes(environment.make_envs(6), policy_for(environment), specs)
    for trajectory in (t for block in episodes for t in block):
        assert trajectory.obs.shape == (20, environment.spaces().obs_dim)
        assert trajectory.obs.max() == 1
        # Who attacks is among what it shows, and the same in every step.
        assert (trajectory.obs.min(axis=0) == 1).any()
    with pytest.raises(ConfigError, match="compiled alone"):
        environment.actor_on_observations(policy_for(environment))


def test_an_agent_that_sees_the_true_state_is_not_evaluated(tmp_path: Path) -> None:
    env_args = {"simulator": "compiled", "max_steps": 10, "observation": "true-state"}
    config = TrainConfig(
        *("async", 4), env_args=env_args, n_workers=1, total_episodes=4, episodes_per_update=4
    )
    run = train(config, tmp_path / "run")
    with pytest.raises(UserError, match="which no evaluation shows"):
        load_blue(run / "checkpoint.safetensors")


@pytest.mark.parametrize(("actions", "n_steps"), [("by-host", 20), ("by-host-timed", 40)])
def test_an_opening_begins_every_episode(actions: str, n_steps: int) -> None:
    """The policy chooses after it, and its rewards come with the first of the policy's. The clock
    counts it."""
    opening = ("DecoyFemitter User2", "Sleep", "Restore User1", "DecoyTomcat User2")
    environment = Cage2("RedMeanderAgent", n_steps, "compiled", "belief", actions, opening)
    bare = Cage2("RedMeanderAgent", n_steps, "compiled")
    specs = [episode_spec(3, number, bare.variants) for number in range(7)]
    policy = policy_for(environment)
    played = []
    for envs, actor in (
        (environment.make_envs(3), policy),
        (bare.make_envs(3), pickle.loads(pickle.dumps(environment.actor_on_observations(policy)))),
    ):
        episodes = play_episodes(envs, actor, specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
    for inside, outside in zip(*played, strict=True):
        assert [ACTION_NAMES[action] for action in outside.action[:4]] == list(opening)
        assert inside.length == environment.episode_steps == n_steps - 4
        assert (inside.obs[:, :52] == outside.obs[4:]).all()
        assert (inside.log_prob == outside.log_prob[4:]).all()
        assert inside.reward[0] == outside.reward[:5].sum() <= -1
        assert (inside.reward[1:] == outside.reward[5:]).all()
        late = {ACTION_NAMES[action] for action in outside.action[25:30]}
        assert not any(name.startswith("Restore User") for name in late)


def test_openings_that_cannot_be() -> None:
    for opening in (("Sleep", "Run"), ("Sleep",) * 20, "Sleep", 3, None):
        with pytest.raises(ConfigError) as error:
            make_environment(ENV_ID, {"max_steps": 20, "opening": opening})
        assert error.value.field_name == "opening"


def test_an_opening_is_kept_with_the_run(tmp_path: Path) -> None:
    env_args = {"simulator": "compiled", "max_steps": 10, "opening": ["Sleep", "Restore User1"]}
    config = TrainConfig(
        *("async", 4), env_args=env_args, n_workers=1, total_episodes=4, episodes_per_update=4
    )
    run = train(config, tmp_path / "run")
    again = TrainConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert again.env_args == config.env_args
    agent = load_agent(run)
    agent.reset()
    played = [agent.act(np.zeros(52, np.uint8)) for _ in range(2)]
    assert [ACTION_NAMES[action] for action in played] == ["Sleep", "Restore User1"]


@pytest.mark.parametrize("observation", ["belief", "evidence", "true-state"])
def test_what_an_env_played_before_is_not_seen(observation: str) -> None:
    environment = Cage2("mixed", 12, "compiled", observation, "by-host", ("Sleep",))
    specs = [episode_spec(8, number, environment.variants) for number in range(30)]
    played = []
    for n_envs in (30, 3):
        episodes = play_episodes(environment.make_envs(n_envs), policy_for(environment), specs)
        played.append(sorted((t for block in episodes for t in block), key=lambda t: t.episode))
    for fresh, used in zip(*played, strict=True):
        assert (fresh.obs == used.obs).all()
        assert (fresh.action == used.action).all()


def test_an_agent_that_was_not_reset_begins_an_episode() -> None:
    environment = Cage2("RedMeanderAgent", 20, "compiled", "belief", "by-host", ("Sleep",))
    actor = environment.actor_on_observations(policy_for(environment, greedy=True))
    obs = np.zeros((1, 52), np.uint8)
    unasked = [int(actor.act(obs)[0][0]) for _ in range(3)]
    actor.reset(0)
    assert [int(actor.act(obs)[0][0]) for _ in range(3)] == unasked


def test_an_agent_that_could_not_be_scored_is_not_trained_to_be(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = CliRunner().invoke(
        train_async,
        [
            *("--observation", "true-state", "--simulator", "compiled"),
            *("--final-evaluation", "2", "--run-dir", str(run)),
        ],
    )
    assert result.exit_code == 2
    assert "--observation" in result.output
    assert not run.exists()
