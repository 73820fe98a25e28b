import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import (
    DiagonalGaussian,
    MultiCategorical,
    SquashedGaussian,
)
from workflow_rl.agents.replay import Transitions
from workflow_rl.agents.sac.soft_actor_critic import (
    LearnedPolicy,
    OfChoices,
    SoftActorCritic,
    Steps,
    steps_of,
)
from workflow_rl.agents.sac.stacked_mlp import StackedMLP

CHOICES = Categorical(2)
NUMBERS = SquashedGaussian((-1.0, 0.0), (1.0, 4.0))


def learner(
    target_entropy: float = 0.3,
    seed: int = 0,
    distribution: Distribution = CHOICES,
    hidden_sizes: tuple[int, ...] = (16,),
) -> SoftActorCritic:
    network = ActorCritic(2, distribution, hidden_sizes, "relu", seed)
    return SoftActorCritic(network, 0.5, 3e-3, 0.05, target_entropy, seed)


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def bandit(n_steps: int = 64) -> Steps:
    """In either state, action 1 brings 1 and ends the episode; action 0 brings 0 and goes on."""
    random = np.random.default_rng(0)
    state = random.integers(0, 2, n_steps)
    obs = np.eye(2, dtype=np.uint8)[state]
    action = random.integers(0, 2, n_steps)
    reward = action.astype(float)
    return steps_of(Transitions(obs, action, reward, obs, action == 1), reward_scale=1.0)


def target_shooting(n_steps: int = 256) -> Steps:
    """The first number pays the more, the nearer it is to the state's; the second to 3."""
    random = np.random.default_rng(0)
    obs = random.integers(0, 2, (n_steps, 2)).astype(np.float32)
    action = random.uniform(NUMBERS.low, NUMBERS.high, (n_steps, 2)).astype(np.float32)
    goal = np.stack([obs[:, 0] - 0.5, np.full(n_steps, 3.0)], axis=1)
    reward = -np.square(action - goal).sum(axis=1)
    return steps_of(Transitions(obs, action, reward, obs, np.ones(n_steps, bool)), 1.0)


def torch_critics(one: SoftActorCritic) -> list[torch.nn.Sequential]:
    network = one.kind.critic(2, (16,))
    pair = [network.module(0.1, torch.Generator().manual_seed(0)) for _ in range(2)]
    for n, module in enumerate(pair):
        one.critics.write(module, n)
    return pair


def policy_loss_in_torch(
    one: SoftActorCritic,
    obs: np.ndarray,
    outputs: torch.Tensor,
    temperature: float,
    draws: np.random.Generator,
) -> torch.Tensor:
    """By the papers' equations."""
    pair, seen = [critic.double() for critic in torch_critics(one)], torch.from_numpy(obs).double()
    if isinstance(one.kind, OfChoices):
        log_prob = torch.log_softmax(outputs, dim=-1)
        q = torch.minimum(*(critic(seen) for critic in pair)).detach()
        return -(log_prob.exp() * (q - temperature * log_prob)).sum(dim=-1).mean()
    mean, log_std = outputs.chunk(2, dim=-1)
    noise = torch.from_numpy(draws.standard_normal(mean.shape, dtype=np.float32))
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    number = mean + normal.scale * noise
    action = torch.tanh(number)
    log_prob = (normal.log_prob(number) - torch.log(1 - action.square())).sum(dim=-1)
    q = torch.minimum(*(critic(torch.cat([seen, action], dim=-1))[:, 0] for critic in pair))
    return (temperature * log_prob - q).mean()


@pytest.mark.parametrize("distribution", [CHOICES, NUMBERS], ids=["choices", "numbers"])
def test_the_policys_gradient_is_autograds(distribution: Distribution) -> None:
    one = learner(distribution=distribution)
    obs = np.random.default_rng(1).standard_normal((9, 2), dtype=np.float32)
    outputs = np.random.default_rng(2).normal(0, 0.5, (9, distribution.n_outputs))
    outputs = outputs.astype(np.float32)
    outputs[0, -1] = -25  # As a log standard deviation, beyond its limits.

    judged, derivatives = one.kind.improve(one.critics, obs, outputs, 0.3, random())

    seen = torch.from_numpy(outputs).double().requires_grad_()
    loss = policy_loss_in_torch(one, obs, seen, 0.3, random())
    loss.backward()
    assert -(judged.q + 0.3 * judged.entropy).mean() == pytest.approx(loss.item(), abs=1e-5)
    np.testing.assert_allclose(derivatives, seen.grad, atol=1e-5)
    again = one.kind.judge(one.critics, obs, outputs, random())
    np.testing.assert_array_equal(again.q, judged.q)
    np.testing.assert_array_equal(again.entropy, judged.entropy)


@pytest.mark.parametrize(
    ("distribution", "steps"), [(CHOICES, bandit(8)), (NUMBERS, target_shooting(8))]
)
def test_the_critics_gradient_is_autograds(distribution: Distribution, steps: Steps) -> None:
    one = learner(distribution=distribution)
    target = np.linspace(-1, 1, 8, dtype=np.float32)

    value_loss, gradient = one.kind.of_taken(one.critics, steps, target)

    pair, obs = torch_critics(one), torch.from_numpy(steps.obs)
    if isinstance(one.kind, OfChoices):
        action = torch.from_numpy(steps.action)[:, None]
        taken = [critic(obs).gather(1, action)[:, 0] for critic in pair]
    else:
        number = (torch.from_numpy(steps.action) - torch.tensor([0.0, 2.0])) / torch.tensor([1, 2])
        taken = [critic(torch.cat([obs, number], dim=-1))[:, 0] for critic in pair]
    loss = torch.stack([(q - torch.from_numpy(target)).square().mean() for q in taken]).sum()
    loss.backward()
    assert value_loss == pytest.approx(loss.item(), rel=1e-5)
    for critic in pair:
        for parameter in critic.parameters():
            parameter.data = parameter.grad
    np.testing.assert_allclose(gradient, StackedMLP(one.critics.network, pair).flat, atol=1e-6)


def learn(one: SoftActorCritic, steps: Steps, numbers: np.random.Generator) -> LearnedPolicy:
    one.learn_critics(steps, numbers)
    return one.learn_policy(steps, numbers)


@pytest.mark.parametrize(
    ("distribution", "steps"), [(CHOICES, bandit(8)), (NUMBERS, target_shooting(8))]
)
def test_the_norms_and_the_standard_deviation_told_are_of_the_step(
    distribution: Distribution, steps: Steps
) -> None:
    one, twin = learner(distribution=distribution), learner(distribution=distribution)
    gradients: dict[str, np.ndarray] = {}
    for name, optimizer in twin.optimizers.items():
        step = optimizer.step

        def noted(gradient: np.ndarray, name: str = name, step: Any = step) -> None:
            gradients[name] = gradient.copy()
            step(gradient)

        optimizer.step = noted  # type: ignore[method-assign]
    numbers = random()
    _, critics = one.learn_critics(steps, numbers)
    outputs, temperature = one.actor(steps.obs)[0], one.temperature
    noise = copy.deepcopy(numbers)
    loss = policy_loss_in_torch(
        one, steps.obs, torch.from_numpy(outputs).double(), temperature, noise
    )
    told = one.learn_policy(steps, numbers)
    # Of the policy before the step.
    assert (told.loss, told.temperature) == (pytest.approx(loss.item(), abs=1e-5), temperature)
    learn(twin, steps, random())
    assert critics == pytest.approx(np.sqrt(np.square(gradients["critics"]).sum()), rel=1e-5)
    actors = np.sqrt(np.square(gradients["actor"]).sum())
    assert told.gradient_norm == pytest.approx(actors, rel=1e-5)
    if distribution == CHOICES:
        assert math.isnan(told.std)
    else:
        std = np.exp(np.clip(outputs[:, 2:], -20, 2)).mean()
        assert told.std == pytest.approx(std, rel=1e-5)


def test_target_by_hand() -> None:
    one = learner()
    for networks, biases in ((one.targets, [[1.0, 2.0], [3.0, 0.0]]), (one.actor, [[0.0, 0.0]])):
        networks.flat[...] = 0
        networks.biases[-1][:, 0] = biases
    obs = np.eye(2, dtype=np.uint8)
    ends = np.array([0.25, 1.0], np.float32)  # The first may end, the second does.
    steps = steps_of(Transitions(obs, np.array([0, 1]), np.array([2.0, 3.0]), obs, ends), 1.0)
    # The lesser of both, for a policy that chooses either with 1/2: (1 + 0) / 2.
    ahead = 0.5 * (0.5 + 0.2 * math.log(2))
    expected = [2 + 0.75 * ahead, 3]
    assert one.target_of(steps, 0.2, random()).tolist() == pytest.approx(expected)


def test_it_learns_what_pays() -> None:
    one = learner(target_entropy=0.05)
    steps, numbers = bandit(), random()
    for _ in range(600):
        metrics = learn(one, steps, numbers)
        one.learn_value(steps, numbers)
    one.write()
    obs = torch.from_numpy(steps.obs)
    probability = torch.softmax(one.network.actor(obs), dim=-1)[:, 1]
    assert probability.min() > 0.9
    assert metrics.entropy < 0.3
    # Action 1 brings 1; the state's value is about that.
    assert one.network.critic(obs).detach().numpy() == pytest.approx(1.0, abs=0.15)


def test_the_temperature_holds_the_entropy() -> None:
    high, low = learner(target_entropy=0.65), learner(target_entropy=0.1)
    numbers = random()
    for _ in range(800):
        metrics = [learn(one, bandit(), numbers) for one in (high, low)]
    assert metrics[0].entropy > 0.55
    assert metrics[1].entropy < 0.25
    assert metrics[0].temperature > metrics[1].temperature


def test_targets_follow_slowly() -> None:
    one = learner()
    before = one.targets.flat.copy()
    learn(one, bandit(), random())
    np.testing.assert_allclose(
        one.targets.flat, before + 0.05 * (one.critics.flat - before), atol=1e-6
    )


@pytest.mark.parametrize("distribution", [MultiCategorical([2, 2]), DiagonalGaussian(2)])
def test_other_actions_are_refused(distribution: Distribution) -> None:
    with pytest.raises(ValueError, match="cannot learn"):
        learner(distribution=distribution)
