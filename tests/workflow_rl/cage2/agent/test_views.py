"""What Blue's policy sees and chooses from: the same around envs and around an actor."""

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli import output_of
from tests.playing import episodes_of, untrained
from tests.workflow_rl.conftest import assert_same_trajectories
from workflow_rl import TrainConfig, load_agent, train
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.cage2.agent.views import ActionSet
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario2 import ACTION_NAMES, ENV_ID, HOSTS
from workflow_rl.environments.episode import EpisodeSpec, episode_spec
from workflow_rl.environments.source import make_environment
from workflow_rl.errors import ConfigError

BELIEF = Cage2("attackers", 20, "compiled", "belief", "by-host")


def policy_for(environment: Cage2, greedy: bool = False) -> NumpyPolicy:
    return NumpyPolicy(untrained(environment, (16,), masked=False), greedy=greedy)


def specs_of(count: int) -> list[EpisodeSpec]:
    return [episode_spec(3, number, BELIEF.variants) for number in range(count)]


def small(**env_args: Any) -> TrainConfig:
    return TrainConfig(
        *("async", 4),
        env_args={"simulator": "compiled", "max_steps": 10, **env_args},
        n_workers=1,
        total_episodes=4,
        episodes_per_update=4,
        settings={"hidden_sizes": (16,)},
    )


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


@pytest.mark.parametrize("observation", ["belief", "evidence"])
def test_an_actor_plays_outside_as_it_does_inside(observation: str) -> None:
    """On bare envs, some of which begin while others are in the middle of an episode."""
    seeing = dataclasses.replace(BELIEF, observation=observation)
    bare = Cage2("attackers", 20, "compiled")
    actor = pickle.loads(pickle.dumps(seeing.actor_on_observations(policy_for(seeing))))
    # More episodes than envs: each begins where another ends.
    all_inside = episodes_of(seeing.make_envs(3), policy_for(seeing), specs_of(7))
    all_outside = episodes_of(bare.make_envs(3), actor, specs_of(7))
    for inside, outside in zip(all_inside, all_outside, strict=True):
        # The environment's actions for the policy's choices, one after another.
        actions, taken = ActionSet("by-host", BELIEF.facts), []
        actions.begin([0])
        for choice in inside.action:
            action = actions.chosen([0], np.array([choice]))
            actions.after([0], action)
            taken.append(int(action[0]))
        assert taken == outside.action.tolist()
        assert (inside.obs[:, :52] == outside.obs).all()
        assert inside.episode_return == outside.episode_return


def test_the_table_alone_needs_no_wrapping() -> None:
    policy = policy_for(Cage2())
    assert Cage2().actor_on_observations(policy) is policy


def test_the_true_state_is_for_the_compiled_simulator_alone() -> None:
    with pytest.raises(ConfigError, match="compiled"):
        make_environment(ENV_ID, {"observation": "true-state", "simulator": "cyborg"})
    environment = Cage2("attackers", 20, "compiled", "true-state", "by-host")
    for trajectory in episodes_of(environment.make_envs(6), policy_for(environment), specs_of(6)):
        assert trajectory.obs.shape == (20, environment.spaces().obs_dim)
        assert trajectory.obs.max() == 1
        # Who attacks is among what it shows, and the same in every step.
        assert (trajectory.obs.min(axis=0) == 1).any()
    with pytest.raises(ConfigError, match="only the simulator compiled"):
        environment.actor_on_observations(policy_for(environment))


@pytest.mark.parametrize(("actions", "n_steps"), [("by-host", 20), ("by-host-timed", 40)])
def test_an_opening_begins_every_episode(actions: str, n_steps: int) -> None:
    """The policy chooses after it, and its rewards come with the first of the policy's. The clock
    counts it."""
    opening = ("DecoyFemitter User2", "Sleep", "Restore User1", "DecoyTomcat User2")
    environment = Cage2("RedMeanderAgent", n_steps, "compiled", "belief", actions, opening)
    bare = Cage2("RedMeanderAgent", n_steps, "compiled")
    specs = [episode_spec(3, number, bare.variants) for number in range(7)]
    policy = policy_for(environment)
    actor = pickle.loads(pickle.dumps(environment.actor_on_observations(policy)))
    all_inside = episodes_of(environment.make_envs(3), policy, specs)
    all_outside = episodes_of(bare.make_envs(3), actor, specs)
    for inside, outside in zip(all_inside, all_outside, strict=True):
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
    opening = ["Sleep", "Restore User1"]
    run = train(small(opening=opening), tmp_path / "run")
    again = TrainConfig.from_dict(json.loads((run / "config.json").read_text()))
    assert again.env_args == small(opening=opening).env_args
    agent = load_agent(run)
    agent.reset()
    played = [agent.act(np.zeros(52, np.uint8)) for _ in range(2)]
    assert [ACTION_NAMES[action] for action in played] == opening


@pytest.mark.parametrize("observation", ["belief", "evidence", "true-state"])
def test_what_an_env_played_before_is_not_seen(observation: str) -> None:
    environment = Cage2("mixed", 12, "compiled", observation, "by-host", ("Sleep",))
    specs = [episode_spec(8, number, environment.variants) for number in range(30)]
    fresh, used = (
        episodes_of(environment.make_envs(n_envs), policy_for(environment), specs)
        for n_envs in (30, 3)
    )
    assert_same_trajectories(fresh, used)


def test_an_agent_that_was_not_reset_begins_an_episode() -> None:
    environment = Cage2("RedMeanderAgent", 20, "compiled", "belief", "by-host", ("Sleep",))
    actor = environment.actor_on_observations(policy_for(environment, greedy=True))
    obs = np.zeros((1, 52), np.uint8)
    unasked = [int(actor.act(obs)[0][0]) for _ in range(3)]
    actor.reset(0)
    assert [int(actor.act(obs)[0][0]) for _ in range(3)] == unasked


def test_an_agent_that_could_not_be_scored_is_not_trained_to_be(tmp_path: Path) -> None:
    asked = ["--observation", "true-state", "--simulator", "compiled", "--final-evaluation", "2"]
    said = output_of("train-async", *asked, "--run-dir", tmp_path / "run", code=2)
    assert "--observation" in said
    assert not (tmp_path / "run").exists()
