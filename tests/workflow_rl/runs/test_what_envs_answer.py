"""What runs make of an environment's answers: ends of episodes, numbers that are none, entries that
are left out, and masks of actions."""

import functools

import numpy as np
import pytest
import torch

from tests.any_envs import MaskedPuzzleEnv, TalkingPuzzleEnv
from tests.tiny_runs import run, same_weights
from tests.workflow_rl.runs.small_runs import config_of
from workflow_rl import api
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.collection.messages import TooManyFailuresError
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.errors import ConfigError, ObservationError, UserError
from workflow_rl.runs.export import export_policy
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import load_checkpoint, restored_agent
from workflow_rl.runs.saved_agent import load_saved


@pytest.mark.parametrize(
    ("terminates", "value"),
    # One reward of 1, and nothing after; or 1 + 1/2 + 1/4 + ... as far as the critic knows.
    [(True, 1.0), (False, 2.0)],
)
@pytest.mark.parametrize("kind", ["episodes", "unrolls"])
def test_only_a_truncated_episode_has_rewards_to_come(terminates, value, kind, tmp_path):
    ppo = PPOConfig(
        **{"hidden_sizes": (8,), "learning_rate": 4e-2, "discount": 0.5, "epochs": 10},
        **{"minibatch_size": 80, "reward_scale": 1.0},
    )
    fields = {"env_args": {"terminates": terminates}, "settings": ppo, "total_steps": 720}
    config = config_of("tests.any_envs:EndingEnv", kind, n_workers=1, **fields)
    run(tmp_path / "run", config)
    agent = make_agent(read_config(tmp_path / "run"))
    agent.load_state_dict(load_checkpoint(tmp_path / "run" / "checkpoint.safetensors").agent)
    with torch.no_grad():
        assert float(agent.network.critic(torch.ones(1, 1))) == pytest.approx(value, abs=0.1)


@pytest.mark.parametrize(
    ("what", "step", "kind", "mode"),
    [
        ("observation", 3, "episodes", "sync"),
        ("reward", 2, "lagged", "async"),
        ("reward", 2, "lagged unrolls", "async"),
        ("observation", 5, "episodes", "async"),  # The last one: no action follows.
        ("observation", 5, "lagged unrolls", "async"),
    ],
)
def test_a_number_that_is_none_ends_the_run_and_spoils_nothing(what, step, kind, mode, tmp_path):
    switch = tmp_path / "switch"
    at = step if what == "observation" else step + 1
    seed = episode_spec(3, 37).env_seed
    args = {"what": what, "bad_seed": seed, "switch": str(switch), "at": at}
    config = config_of("tests.lying_envs:SpoiltEnv", kind, mode, env_args=args)
    run(tmp_path / "good", config)
    switch.touch()
    with pytest.raises(ObservationError) as error:
        run(tmp_path / "bad", config)
    assert f"{what} is not finite at step {step} of episode 37:" in str(error.value)
    with np.load(tmp_path / "bad" / "diverged.npz") as batch:
        names = ("obs", "last_obs") if what == "observation" else ("reward",)
        assert not all(np.isfinite(batch[name]).all() for name in names)
    saved = load_checkpoint(tmp_path / "bad" / "checkpoint.safetensors")
    assert 1 <= saved.training.updates < 5
    assert all(torch.isfinite(tensor).all() for tensor in saved.agent["network"].values())
    switch.unlink()
    run(tmp_path / "bad", config)
    assert same_weights(tmp_path / "bad", tmp_path / "good")


@pytest.mark.parametrize(
    ("shown", "how", "kind", "mode"),
    [
        ([0.0] * 3, "has shape (3,), not (2,)", "episodes", "async"),
        ([0.0], "has shape (1,), not (2,)", "episodes", "sync"),
        ([0.0] * 3, "has shape (3,), not (2,)", "lagged unrolls", "async"),
        ([[0.0], [0.0, 1.0]], "cannot be used: ValueError: ", "lagged", "async"),
    ],
)
def test_an_observation_that_its_space_does_not_hold_ends_the_run_at_once(
    shown, how, kind, mode, tmp_path, caplog
):
    args = {"bad_seed": episode_spec(3, 37).env_seed, "part": 0, "value": shown}
    config = config_of("tests.lying_envs:OddStepEnv", kind, mode, env_args=args)
    with pytest.raises(TooManyFailuresError) as error:
        run(tmp_path / "run", config)
    where = "in episode 37 the environment's observation of step 3"
    assert str(error.value).startswith(f"{where} {how}")
    assert str(error.value).endswith("; its space is Box(-inf, inf, (2,), float32)")
    assert "\n" not in str(error.value)
    assert not [one for one in caplog.records if "replaced" in one.getMessage()]
    saved = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert 1 <= saved.training.updates < 5


def huge_rewards(path, size, seed, kind="episodes", mode="async"):
    """A run with a reward of this size in the third step of the episode of this seed."""
    args = {"bad_seed": seed, "part": 1, "value": size}
    run(path, config_of("tests.lying_envs:OddStepEnv", kind, mode, env_args=args))
    return path


@pytest.mark.parametrize(
    ("size", "kind", "mode"),
    [
        (1e300, "episodes", "async"),
        (-1e13, "lagged unrolls", "async"),
        (1e20, "episodes", "sync"),
        (1e11, "episodes", "async"),  # It is usual.
    ],
)
def test_a_reward_that_outweighs_all_others_is_told_once(size, kind, mode, tmp_path, caplog):
    huge_rewards(tmp_path / "run", size, episode_spec(3, 37).env_seed, kind, mode)
    said = f"the reward of {size:g} at step 2 of episode 37 outweighs all others"
    assert caplog.text.count("outweighs") == caplog.text.count(said) == (size != 1e11)


def test_an_evaluation_tells_of_it_too(tmp_path, caplog):
    bad_seed = episode_spec(0, 1, (), SeedStream.EVALUATION).env_seed
    path = huge_rewards(tmp_path / "run", -1e300, bad_seed)
    assert "outweighs" not in caplog.text
    scores = api.evaluate(path, 3, n_workers=1)
    assert "the reward of -1e+300 at step 2 of episode 1 outweighs" in caplog.text
    lines = str(scores.lines("it")).splitlines()
    assert max(map(len, lines)) < 1000, "numbers of 300 digits are no table"


def test_entries_that_are_left_out_change_no_weights(tmp_path):
    env, loud, talking = "tests.any_envs:TalkingPuzzleEnv", tmp_path / "loud", tmp_path / "talking"
    with pytest.raises(ConfigError, match="--ignore-unknown leaves such entries of a"):
        run(tmp_path / "refused", config_of(env))
    run(loud, config_of("tests.any_envs:LoudPuzzleEnv"))
    run(talking, config_of(env, ignore_unknown=True))
    assert same_weights(talking, loud)
    exported, agent = tmp_path / "talking.npz", load_saved(talking)
    export_policy(agent.policy.parameters, agent.environment, "npz", exported)
    obs, _ = TalkingPuzzleEnv().reset(seed=1)
    actions = [api.load_agent(path).act(obs).tolist() for path in (talking, exported)]
    assert actions[0] == actions[1]
    assert api.evaluate(exported, 2).returns == api.evaluate(loud, 2).returns


@pytest.mark.system
@pytest.mark.parametrize("network", ["gru", "entities"])
def test_a_critic_that_sees_more_learns_the_same_everywhere(network, tmp_path):
    args = {"privileged": True}
    for mode, n_workers in (("async", 1), ("sync", 5)):
        config = config_of(network, "lagged unrolls", mode, n_workers=n_workers, env_args=args)
        run(tmp_path / mode, config)
    path = tmp_path / "async"
    assert same_weights(path, tmp_path / "sync")
    assert len(api.evaluate(path, 5, env=functools.partial(MaskedPuzzleEnv)).returns) == 5
    agent, env = api.load_agent(path, env=MaskedPuzzleEnv), MaskedPuzzleEnv()
    agent.reset()
    obs, info = env.reset(seed=5)  # Without what the critic saw.
    assert env.action_space.contains(agent.act(obs, action_mask=info["action_mask"]))


@pytest.mark.system
def test_an_agent_with_memory_and_masks_is_used(undisturbed):
    path = undisturbed("gru")
    scores = [api.evaluate(path, 20, n_workers=n, env=MaskedPuzzleEnv).returns for n in (1, 2)]
    assert list(scores[0]) == list(scores[1])
    agent, env = api.load_agent(path, env=MaskedPuzzleEnv), MaskedPuzzleEnv()
    total, ended = 0.0, False
    agent.reset()
    obs, info = env.reset(seed=5)
    while not ended:  # The environment raises for an impossible action.
        action = agent.act(obs, action_mask=info["action_mask"])
        obs, reward, terminated, truncated, info = env.step(action)
        total, ended = total + reward, terminated or truncated
    assert np.isfinite(total)


@pytest.mark.system
@pytest.mark.parametrize(
    ("env_args", "words"),
    [
        ({"forbids_all_at": 3}, r"in episode \d+ the action mask of step 3 forbids every action"),
        ({"missing_at": 2}, r"in episode \d+ the action mask of step 2 is missing"),
    ],
)
def test_a_mask_that_cannot_be_used_ends_the_run_in_one_line(env_args, words, tmp_path):
    with pytest.raises(Exception, match=words) as caught:
        run(tmp_path / "run", config_of("mlp", env_args=env_args))
    assert "\n" not in str(caught.value).strip()
    assert not isinstance(caught.value, ObservationError)


@pytest.mark.system
def test_without_masks_the_policy_sees_none(tmp_path):
    config = config_of("mlp", action_mask=False, env="tests.any_envs:PuzzleEnv")
    masked = config_of("mlp")
    assert not config.environment.spaces().masked
    assert masked.environment.spaces().masked
    run(tmp_path / "run", config)
    checkpoint = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    with pytest.raises(UserError, match="masks of actions"):
        restored_agent(make_agent(masked), checkpoint, tmp_path / "run")
