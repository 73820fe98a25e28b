import copy
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.agents.examples import episode_of
from tests.tiny_runs import all_of, plain
from workflow_rl.agents.algorithm import DivergedError
from workflow_rl.agents.mbpo.agent import NO_FIT, MBPOAgent
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory

MBPO = MBPOConfig(
    hidden_sizes=(16,),
    learning_rate=1e-2,
    reward_scale=1.0,
    batch_size=32,
    gradient_steps=0.5,
    model_members=2,
    model_elites=1,
    model_hidden_sizes=(16,),
    model_epochs=2,
    model_batch_size=16,
    model_learning_rate=1e-2,
    warm_up_steps=20,
    imagined_rollouts=1,
)


def agent(seed: int = 0, bits: bool = True, **changes: Any) -> MBPOAgent:
    return MBPOAgent(MBPO.changed(**changes), 2, Categorical(2), bits, seed)


def corridor(policy: NumpyPolicy, number: int, length: int = 10) -> Trajectory:
    """Two places, as ones among zeros. Action 1 goes to the other one, which pays in the first."""
    policy.reset(number)
    obs, actions, rewards = [np.array([1, 0], np.uint8)], [], []
    for _ in range(length):
        action = int(policy.act(obs[-1])[0][0])
        rewards.append(float(action and obs[-1][0]))
        actions.append(action)
        obs.append(obs[-1][::-1].copy() if action else obs[-1])
    version = policy.policy_version
    return episode_of(np.stack(obs), actions, rewards, episode=number, policy_version=version)


def played(one: MBPOAgent, first: int, count: int = 4) -> list[Trajectory]:
    policy = NumpyPolicy(one.policy_parameters(), one.policy_version)
    return [corridor(policy, number) for number in range(first, first + count)]


def seeing(obs: NDArray[Any], rewards: Sequence[float] = ()) -> Trajectory:
    length = len(obs) - 1
    return episode_of(obs, np.arange(length) % 2, rewards or range(length))


def take_all(one: MBPOAgent, other: MBPOAgent, state: dict[str, Any] | None = None) -> None:
    """Have `one` go on from where the other is, or was when this was its state."""
    one.load_state_dict(copy.deepcopy(other.state_dict() if state is None else state))
    real = other.replay.numbered(other.replay.oldest, other.replay.n_added)
    memory = one.memory()
    memory["real"].load(other.replay.n_added, [real])
    memory["imagined"].load(one.imagined_steps, other.imagined)


def test_it_learns_from_real_and_imagined_steps() -> None:
    one = agent(gradient_steps=1.5, target_entropy=0.1, model_epochs=4)
    returns = []
    for update in range(8):
        rollout = played(one, 4 * update)
        returns.append(np.mean([trajectory.episode_return for trajectory in rollout]))
        metrics = one.update(rollout, update / 8)
    assert returns[0] < 3.5
    assert returns[-1] > 4.3  # Of 5, always going.
    assert metrics.real_steps == 320
    assert metrics.imagined_steps > 320
    assert metrics.model_reward_error < 0.2


def test_a_loaded_agent_goes_on_alike() -> None:
    """With the same fraction of a gradient step left: updates of 40 steps make 13.2."""
    one, other = agent(gradient_steps=0.33), agent(seed=5, gradient_steps=0.33)
    for update in range(2):
        one.update(played(one, 4 * update), 0.0)
    saved = one.state_dict()
    assert 0.1 < saved["gradient_steps_left"] < 0.9
    take_all(other, one)
    rollout = played(one, 8)

    assert one.update(rollout, 0.5) == other.update(rollout, 0.5)
    assert all_of(one) == all_of(other)
    assert plain(saved) != plain(one.state_dict())


def test_rollouts_are_as_long_as_asked_and_kept_so_long() -> None:
    one = agent(rollout_length=2, rollout_length_final=4, imagined_updates=2, imagined_rollouts=0.5)
    lengths = []
    for update, progress in enumerate((0.0, 0.5, 1.0)):
        metrics = one.update(played(one, 4 * update), progress)
        lengths.append((metrics.rollout_length, one.imagined[-1].n_steps))
    assert lengths == [(2, 40), (3, 60), (4, 80)]
    assert [steps.n_steps for steps in one.imagined] == [60, 80]
    assert metrics.imagined_steps == 180


@pytest.mark.parametrize("imagined_share", [0.0, 0.5])
def test_it_learns_of_scaled_rewards(imagined_share: float) -> None:
    learned = []
    for reward_scale in (1.0, 0.25):
        one = agent(reward_scale=reward_scale, imagined_share=imagined_share)
        random = np.random.default_rng(0)
        for _ in range(2):
            obs = random.integers(0, 2, (41, 2)).astype(np.uint8)
            one.update([seeing(obs, [reward / reward_scale for reward in range(40)])], 0.0)
        learned.append(plain([one.state_dict()["network"], one.learner.state_dict()]))
    assert learned[0] == learned[1]


def test_imagined_rollouts_begin_at_the_newest_steps() -> None:
    one = agent(bits=False, start_steps=15, imagined_rollouts=5, rollout_length_final=1)
    begun: set[float] = set()
    for update in range(3):
        obs = np.arange(82 * update, 82 * update + 82, dtype=np.float32).reshape(41, 2)
        one.update([seeing(obs)], 0.0)
        begun = set(one.imagined[-1].obs[:, 0].tolist())
    assert begun == set(obs[25:40, 0].tolist())


def test_imagined_rollouts_end_where_the_model_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = agent(rollout_length=5, rollout_length_final=5)
    one.update(played(one, 0), 0.0)
    assert one.dynamics is not None
    monkeypatch.setattr(one.dynamics, "fit", lambda *given: NO_FIT)
    one.dynamics.ends_seen = True
    one.dynamics.outcome.weights[-1][...] = 0
    one.dynamics.outcome.biases[-1][...] = [0.0, 50.0]
    one.update(played(one, 4), 0.0)
    assert one.imagined[-1].n_steps == 40
    assert one.imagined[-1].terminated == pytest.approx(1)


def test_models_are_fitted_once_in_so_many_real_steps() -> None:
    one = agent(model_every=80)  # An update brings 40.
    epochs = [one.update(played(one, 4 * update), 0.0).model_epochs for update in range(5)]
    assert [not math.isnan(one) for one in epochs] == [True, False, True, False, True]
    assert len(one.imagined) == 5


def test_numbers_are_no_bits_because_the_first_ones_are_0_and_1() -> None:
    one = agent(bits=False)
    for highest in (1, 200):
        obs = np.random.default_rng(0).integers(0, highest + 1, (41, 2)).astype(np.uint8)
        one.update([seeing(obs)], 0.0)
    assert one.imagined[-1].next_obs.max() > 100


def test_without_imagined_steps_there_is_no_model() -> None:
    one = agent(imagined_share=0.0)
    metrics = one.update(played(one, 0), 0.0)
    assert one.dynamics is None
    assert metrics.imagined_steps == 0
    assert metrics.gradient_steps == 20
    assert math.isnan(metrics.model_obs_loss)


def gradient_steps_of(one: MBPOAgent, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    order: list[str] = []
    for name in ("critics", "policy", "value"):
        method = getattr(one.learner, f"learn_{name}")
        monkeypatch.setattr(
            one.learner,
            f"learn_{name}",
            lambda *given, f=method, n=name: order.append(n) or f(*given),
        )
    return order


@pytest.mark.parametrize("policy_every", [1, 3])
def test_which_gradient_steps_are_of_the_policy_and_of_the_networks_critic(
    policy_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = agent(imagined_share=0.0, policy_every=policy_every)
    order = gradient_steps_of(one, monkeypatch)
    one.update(played(one, 0), 0.0)
    expected = []
    for n in range(20):
        expected += ["critics"]
        expected += ["policy"] * (n % policy_every == 0)
        expected += ["value"] * (n % 4 == 0)
    assert order == expected


def test_policy_every_counts_over_short_updates_and_a_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"imagined_share": 0.0, "policy_every": 3, "gradient_steps": 0.05}  # 2 an update.
    one, other = agent(**settings), agent(**settings)
    order = gradient_steps_of(one, monkeypatch)
    for n in range(2):
        assert math.isfinite(one.update(played(one, n), 0.0).policy_loss)
    assert [name for name in order if name != "value"] == [
        *("critics", "policy", "critics", "critics", "critics", "policy")
    ]
    other.load_state_dict(one.state_dict())
    other.replay.add(one.replay.steps)
    order = gradient_steps_of(other, monkeypatch)
    losses = [other.update(played(other, n), 0.0).policy_loss for n in (2, 3)]
    assert [name for name in order if name != "value"] == [
        *("critics", "critics", "critics", "policy", "critics")
    ]
    assert [math.isnan(loss) for loss in losses] == [True, False]


@pytest.mark.parametrize("imagined_share", [0.0, 0.5])
def test_nothing_is_learned_before_the_last_step_of_the_warm_up(imagined_share: float) -> None:
    one = agent(warm_up_steps=41, imagined_share=imagined_share)
    before = plain(one.state_dict()["network"])
    metrics = one.update(played(one, 0), 0.0)
    assert (metrics.gradient_steps, metrics.imagined_steps) == (0, 0)
    assert plain(one.state_dict()["network"]) == before
    for warm in (one, agent(warm_up_steps=40, imagined_share=imagined_share)):
        assert warm.update(played(warm, 4), 0.0).gradient_steps == 20


@pytest.mark.parametrize(("gradient_steps", "expected"), [(0.33, 33), (0.25, 25), (1.01, 101)])
def test_updates_of_one_step_learn_as_often_as_one_long_update(
    gradient_steps: float, expected: int
) -> None:
    short, long = (
        agent(gradient_steps=gradient_steps, warm_up_steps=0, imagined_share=0.0) for _ in range(2)
    )
    obs = np.zeros((101, 2), np.uint8)
    steps = [short.update([seeing(obs[:2])], 0.0).gradient_steps for _ in range(100)]
    assert sum(steps) == expected == long.update([seeing(obs)], 0.0).gradient_steps
    assert max(steps) - min(steps) == 1


def test_losses_that_are_no_numbers_end_it() -> None:
    one, modelling = agent(imagined_share=0.0), agent()
    rollout = played(one, 0)
    rollout[0].reward[0] = np.inf
    with pytest.raises(DivergedError, match="losses"):
        one.update(rollout, 0.0)
    modelling.update(played(modelling, 0), 0.0)
    assert modelling.dynamics is not None
    modelling.dynamics.optimizers[0].mean[...] = np.nan
    with pytest.raises(DivergedError, match="model"):
        modelling.update(played(modelling, 4), 0.0)


COUNTS = ("policy_version", "seed", "imagined_steps", "modelled_steps")
N_STEPS = "learner/optimizers/actor/n_steps"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("learner/critics", {"0.weight": torch.zeros(2)}, None),
        ("learner/critics", torch.full((418,), math.nan), None),
        ("learner/log_temperature", torch.full((1,), 1000.0), None),
        ("dynamics/elites", [math.inf], None),
        ("dynamics/next_obs", torch.zeros(3), None),
        *((name, odd, f"its {name} is") for name in COUNTS for odd in (-1, 2.0, None, "3", 2**63)),
        *((N_STEPS, odd, "number of gradient steps") for odd in (-1, 10**400, 2.0, math.inf)),
        *(("gradient_steps_left", odd, "fraction") for odd in (0.6, math.nan, 1e300)),
    ],
)
def test_a_state_that_does_not_fit_is_refused(path: str, value: Any, words: str | None) -> None:
    one = agent()
    one.update(played(one, 0), 0.0)
    state = one.state_dict()
    *folders, name = path.split("/")
    functools.reduce(operator.getitem, folders, state)[name] = value
    with pytest.raises((ValueError, OverflowError), match=words):
        agent().load_state_dict(state)


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        ("real", "obs", np.zeros((40, 3), np.float32)),
        ("real", "action", np.zeros((40, 1), np.int64)),
        ("real", "reward", np.zeros(39, np.float32)),
        ("real", "action", np.full(40, 2)),
        ("real", "action", np.full(40, -1)),
        ("real", "terminated", np.zeros(40, np.float32)),
        ("real", "obs", np.zeros((40, 2), np.complex64)),
        # Ends of imagined steps are probabilities.
        ("imagined", "terminated", np.full(40, 1.5, np.float32)),
        ("imagined", "terminated", np.ones(40, bool)),
    ],
)
def test_steps_that_do_not_fit_are_refused(kind: str, name: str, values: Any) -> None:
    one, other = agent(), agent()
    one.update(played(one, 0), 0.0)
    other.load_state_dict(one.state_dict())
    other.memory()["imagined"].load(40, one.imagined)
    steps = {"real": one.replay.steps, "imagined": one.imagined[0]}[kind]
    with pytest.raises(ValueError, match="another environment"):
        other.memory()[kind].load(40, [steps._replace(**{name: values})])


def test_it_takes_the_weights_of_an_agent_that_learned_by_ppo() -> None:
    ppo_config = PPOConfig(hidden_sizes=(16,), activation="relu")
    ppo = PPOAgent(ppo_config, Spaces(2, Categorical(2)), seed=3)
    one = agent()
    one.load_policy(ppo.state_dict())
    assert plain(one.state_dict()["network"]) == plain(ppo.state_dict()["network"])
    with pytest.raises(ValueError, match="actions"):
        one.load_policy(PPOAgent(ppo_config, Spaces(2, Categorical(3)), seed=3).state_dict())
