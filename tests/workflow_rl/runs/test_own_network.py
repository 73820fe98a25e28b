"""A torch module of the user's own: the same promises as for the networks of the package."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.any_envs import PictureEnv
from tests.own_networks import (
    Asked,
    Centring,
    Counting,
    Dropping,
    Following,
    Hiding,
    InTraining,
    Misled,
    OneTensor,
    Picture,
    Propertied,
    Raising,
    Reading,
    Remembering,
    Stateless,
    Waiting,
    WrongOutputs,
)
from tests.workflow_rl.runs import small_runs
from workflow_rl import api
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policies.own_network import load_network
from workflow_rl.agents.policies.team_policy import TeamPolicy
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.export import export_policy
from workflow_rl.runs.folder import weights_digest
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.read_checkpoint import load_checkpoint
from workflow_rl.runs.saved_agent import load_saved
from workflow_rl.runs.trust import sign as sign_files

NAME = "tests.own_networks:Remembering"


def config_of(network: Any, kind: str = "episodes", **changes: Any) -> TrainConfig:
    settings = {"minibatch_size": 50, "epochs": 1}
    return small_runs.config_of("own", kind, network=network, settings=settings, **changes)


def test_agents_that_are_made_at_the_same_time_have_the_weights_of_their_seeds():
    configs = [config_of(Waiting, seed=seed) for seed in range(2)]

    def weights(config: TrainConfig) -> str:
        return weights_digest(make_agent(config).state_dict()["network"])

    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(weights, configs))
    assert together == [weights(config) for config in configs]


def test_a_run_computes_with_its_threads_whatever_other_threads_set(tmp_path):
    Counting.threads.clear()
    config = config_of(Counting, learner_threads=8)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(api.train, config, tmp_path / "run").result()
    assert Counting.threads == {4}


@pytest.mark.parametrize("what", ["own", "own of a team"])
def test_only_who_names_the_module_or_trusts_the_file_has_it_imported(
    what, undisturbed, tmp_path, monkeypatch
):
    path = tmp_path / "run"
    shutil.copytree(undisturbed(what), path)
    expected = load_saved(path).policy
    monkeypatch.delitem(NETWORKS, NAME)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # Somebody else's.
    for refused in (lambda: load_saved(path), lambda: api.evaluate(path, 1)):
        with pytest.raises(UserError, match=f"only the file mentions the network {NAME}"):
            refused()
    config = TrainConfig.from_dict(load_checkpoint(path / "checkpoint.safetensors").config)
    with pytest.raises(ConfigError, match=f"only the file mentions the network {NAME}"):
        api.train(config, path, resume=True)
    assert NAME not in NETWORKS
    sign_files(path)
    signed = load_saved(path).policy
    for own, other in zip(members_of(expected), members_of(signed), strict=True):
        obs = np.ones((2, own.obs_dim), np.float32)
        np.testing.assert_array_equal(other.outputs(obs), own.outputs(obs))


def members_of(policy: Any) -> list[NumpyPolicy]:
    """Return the policies of a team, or the policy itself."""
    if not isinstance(policy, TeamPolicy):
        return [policy]
    return [NumpyPolicy(one, 0, greedy=True) for one in policy.parameters.parameters.values()]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (WrongOutputs, r"gives outputs of shape \(3, 6\) for 3 observations, not \(3, 5\)"),
        (Dropping, "a row must not depend on the other rows, nor on chance"),
        (Centring, "a row must not depend on the other rows, nor on chance"),
        (Stateless, "cannot be called: TypeError"),
        (InTraining, r"gives other outputs in training than in acting \(`eval\(\)`\)"),
        (Hiding, "gives other outputs when it is made again with the same weights: keep all"),
        (Misled, "cannot be called with a mask: RuntimeError: The size of tensor"),
        (OneTensor, "With a state, forward must return outputs and next_states"),
        (Raising, r"cannot be made: RuntimeError: no such weights \(.*own_networks.py, line \d+"),
        (Propertied, "Propertied.state_size is no whole number"),
        (object, "network: builtins:object cannot be made: .* It must take n_inputs and n_outputs"),
    ],
)
def test_a_module_that_breaks_the_contract_is_refused(kind, problem):
    with pytest.raises(ConfigError, match=problem):
        make_agent(config_of(kind))


def test_a_module_that_reads_numbers_while_it_is_made(tmp_path):
    config = config_of(Reading, total_steps=60)
    path = api.train(config, tmp_path / "run")
    assert load_saved(path).policy.policy_version > 0


@pytest.mark.parametrize(("kind", "seen_again"), [(Following, 64), (Asked, None)])
def test_the_state_may_follow_from_the_inputs(kind, seen_again, tmp_path):
    config = config_of(kind, "lagged unrolls", total_steps=120)
    path = api.train(config, tmp_path / "run")
    network = load_saved(path).policy.parameters.described()
    n_inputs = network.n_inputs
    seen_again = seen_again or n_inputs
    assert (network.memory_size, network.burn_in) == (2 * n_inputs, seen_again)
    # Reading the size draws nothing: the weights are those of a class with a number.
    fixed = type("Fixed", (kind,), {"state_size": 2 * n_inputs, "seen_again": seen_again})
    fixed.__module__ = kind.__module__
    drawn = [make_agent(config_of(one)) for one in (kind, fixed)]
    assert len({weights_digest(agent.state_dict()["network"]) for agent in drawn}) == 1


@pytest.mark.parametrize("what", ["own", "own of a team"])
def test_formats_that_numpy_plays_refuse_it(what, undisturbed, tmp_path):
    policy, environment = load_saved(undisturbed(what))
    with pytest.raises(ConfigError, match=f"{NAME} needs torch: give onnx"):
        export_policy(policy.parameters, environment, "npz", tmp_path / "policy.npz")


def test_a_convolutional_network_learns_from_pictures(tmp_path):
    settings = {"minibatch_size": 100, "epochs": 6, "learning_rate": 5e-3}
    counts = {"n_envs": 4, "n_workers": 1, "total_steps": 3000, "steps_per_update": 400}
    config = TrainConfig("async", network=Picture, settings=settings, **counts)
    path = api.train(config, tmp_path / "run", env=PictureEnv)
    assert api.evaluate(path, 40, env=PictureEnv, n_workers=1).mean > 3  # Of 4; by chance 1.


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tests.own_networks:Pictur", "defines no Pictur. Did you mean tests.own_networks:Picture"),
        ("no_such_module_here:Net", "cannot be imported: .*Call the command in the folder of"),
        ("./my_net.py:Net", "names a file: give my_net:Net, in the folder of my_net.py"),
        ("./my_net:Net", "names a file: give my_net:Net"),
        ("tests.own_networks:torch", "is no class"),
        ("transformer", "is not one of mlp, gru, lstm, frame-stack"),
    ],
)
def test_a_name_that_leads_nowhere(name, words):
    with pytest.raises(ValueError, match=words):
        load_network(name)


def test_arguments_that_the_class_does_not_take():
    with pytest.raises(ConfigError, match=r"Remembering cannot be made: .*'width'"):
        PPOConfig(network=Remembering, network_args={"width": 3})
    with pytest.raises(ConfigError, match="is not one of"):
        PPOConfig(network="some_module:Net")
