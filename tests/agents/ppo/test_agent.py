from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agents.policies.distributions import Categorical
from agents.policies.numpy_policy import NumpyPolicy
from agents.ppo import minibatches
from agents.ppo.agent import PPOAgent
from agents.ppo.batch import make_batch, stack_obs
from agents.ppo.config import PPOConfig
from agents.ppo.metrics import PPOMetrics
from agents.ppo.minibatches import Minibatch, RolloutObs
from agents.trajectory import Trajectory
from tests.agents.examples import example_trajectory
from tests.tiny_envs import N_ACTIONS, OBS_DIM, CountingEnv, MatchingEnv
from workflow_rl.collection.player import play_episode
from workflow_rl.environments.env_batch import SerialEnvs
from workflow_rl.environments.episode import episode_spec

# Every number that an expected value below follows from.
CONFIG = PPOConfig(
    hidden_sizes=(16,),
    learning_rate=1e-3,
    learning_rate_final=0.0,
    discount=0.99,
    gae_lambda=0.95,
    clip_range=0.2,
    epochs=2,
    minibatch_size=16,
    entropy_coef=0.01,
    value_coef=0.5,
    max_grad_norm=0.5,
    normalise_advantage=True,
    reward_scale=1.0,
)
ONE_STEP = CONFIG.changed(epochs=1, minibatch_size=1000)
NO_CLIPPING = 1e9

# 40 steps: in minibatches of 16, three an epoch.
TRAJECTORIES = [
    example_trajectory(np.random.default_rng(n).normal(size=10).tolist(), seed=n) for n in range(4)
]


def example_agent(config: PPOConfig = CONFIG, seed: int = 0, **changes: Any) -> PPOAgent:
    """An agent for the observations and actions of `example_trajectory`."""
    config = config.changed(**changes)
    return PPOAgent(config, obs_dim=6, distribution=Categorical(4), seed=seed)


def counting_agent(config: PPOConfig = CONFIG, **changes: Any) -> PPOAgent:
    return PPOAgent(config.changed(**changes), OBS_DIM, Categorical(N_ACTIONS), seed=0)


def collect(
    agent: PPOAgent, env: gymnasium.Env[Any, Any], numbers: Sequence[int]
) -> list[Trajectory]:
    """One episode for each number, played by the agent."""
    actor = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
    envs = SerialEnvs(lambda: env, 1)
    return [
        play_episode(envs, actor, episode_spec(0, number, ("SleepAgent",))) for number in numbers
    ]


def weights(agent: PPOAgent) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in agent.network.parameters()]


def optimizer_steps(agent: PPOAgent) -> int:
    return max((int(s["step"]) for s in agent.optimizer.state.values()), default=0)


def gradients_of(agent: PPOAgent) -> dict[str, Tensor]:
    """A copy of the gradients that the parameters hold, by name."""
    named = agent.network.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}


def gradients_of_steps(agent: PPOAgent, trajectories: list[Trajectory]) -> list[dict[str, Tensor]]:
    """The gradients that the optimizer is given, by parameter name, for each step of one update."""
    steps: list[dict[str, Tensor]] = []
    step = agent.optimizer.step

    def noting() -> None:
        steps.append(gradients_of(agent))
        step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent.optimizer, "step", noting)
        agent.update(trajectories, progress=0.0)
    return steps


def norm(gradients: dict[str, Tensor], part: str) -> float:
    """Euclidean norm over all parameters of one network, "actor" or "critic"."""
    chosen = [g.flatten() for name, g in gradients.items() if name.startswith(part)]
    return float(torch.cat(chosen).norm())


def silence_critic(agent: PPOAgent) -> None:
    """Let the critic answer 0 for every observation."""
    last = agent.network.critic[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)


def test_the_same_trajectories_and_seed_give_the_same_bits() -> None:
    first, second = example_agent(), example_agent()
    torch.manual_seed(99)
    for progress in (0.0, 0.5):
        assert first.update(TRAJECTORIES, progress) == second.update(TRAJECTORIES, progress)
        assert weights(first) == weights(second)
    assert first.policy_version == 2
    assert weights(first) != weights(example_agent())


def test_an_update_leaves_the_trajectories_as_they_were() -> None:
    before = pickle.dumps(TRAJECTORIES)
    example_agent().update(TRAJECTORIES, 0.0)
    assert pickle.dumps(TRAJECTORIES) == before


def orders_of_update(
    monkeypatch: pytest.MonkeyPatch, seed: int = 0, policy_version: int = 0
) -> list[list[float]]:
    """The order of the steps in each epoch of one update: their advantages, which all differ."""
    agent = example_agent(seed=seed)
    agent.policy_version = policy_version
    orders: list[list[float]] = []

    def record(*arguments: Any) -> Iterator[Minibatch]:
        orders.append([])
        for minibatch in minibatches.minibatches(*arguments):
            orders[-1] += minibatch.steps.advantage.tolist()
            yield minibatch

    monkeypatch.setattr("agents.ppo.agent.minibatches", record)
    agent.update(TRAJECTORIES, 0.0)
    return orders


def test_every_epoch_takes_every_step_once_in_an_order_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = orders_of_update(monkeypatch)
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 40
    assert first != second


def test_the_order_follows_from_the_seed_and_the_number_of_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders = orders_of_update(monkeypatch, seed=1, policy_version=3)
    assert orders_of_update(monkeypatch, seed=1, policy_version=3) == orders
    assert orders_of_update(monkeypatch, seed=1, policy_version=4)[0] not in orders
    assert orders_of_update(monkeypatch, seed=2, policy_version=3)[0] not in orders


def test_the_number_of_the_update_changes_the_weights_by_the_order_alone() -> None:
    agents = [example_agent(), example_agent()]
    agents[1].policy_version = 5
    for agent in agents:
        agent.update(TRAJECTORIES, 0.0)
    assert weights(agents[0]) != weights(agents[1])


@pytest.mark.parametrize(
    ("minibatch_size", "steps"), [(16, 2 * 3), (40, 2 * 1), (1000, 2 * 1), (39, 2 * 2), (1, 2 * 40)]
)
def test_one_optimizer_step_for_each_minibatch_of_each_epoch(
    minibatch_size: int, steps: int
) -> None:
    agent = example_agent(minibatch_size=minibatch_size, normalise_advantage=minibatch_size > 1)
    agent.update(TRAJECTORIES, 0.0)
    assert optimizer_steps(agent) == steps


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 1e-3), (0.25, 7.75e-4), (1.0, 1e-4)])
def test_the_learning_rate_falls_linearly(progress: float, expected: float) -> None:
    # 1e-3 + progress * (1e-4 - 1e-3)
    agent = example_agent(learning_rate=1e-3, learning_rate_final=1e-4)
    assert agent.update(TRAJECTORIES, progress).learning_rate == pytest.approx(expected)
    assert agent.optimizer.learning_rate == pytest.approx(expected)


def test_a_learning_rate_of_0_changes_nothing() -> None:
    agent = example_agent(learning_rate_final=0.0)
    before = weights(agent)
    agent.update(TRAJECTORIES, progress=1.0)
    assert weights(agent) == before


def test_adams_first_step_is_the_learning_rate_against_the_gradients_sign() -> None:
    # m = (1 - beta1) g and v = (1 - beta2) g^2, bias-corrected: a step of lr * g / (|g| + 1e-5).
    agent = example_agent(ONE_STEP, learning_rate=0.01)
    before = {name: p.detach().clone() for name, p in agent.network.named_parameters()}
    (gradients,) = gradients_of_steps(agent, TRAJECTORIES)
    for name, parameter in agent.network.named_parameters():
        step = 0.01 * gradients[name] / (gradients[name].abs() + 1e-5)
        torch.testing.assert_close(parameter, before[name] - step, rtol=1e-4, atol=1e-6)


def test_target_kl_stops_an_update_early() -> None:
    def steps(target_kl: float | None) -> int:
        agent = counting_agent(ONE_STEP, learning_rate=0.1, epochs=5, target_kl=target_kl)
        agent.update(collect(agent, CountingEnv(), range(6)), 0.0)
        return optimizer_steps(agent)

    # In the first epoch the policy is still the one that acted; a step of 0.1 overshoots.
    assert steps(0.01) == 1
    assert steps(None) == steps(1e9) == 5


def test_target_kl_is_exceeded_by_half_before_it_stops() -> None:
    # Every ratio is e, so the estimated KL is e - 1 - 1 = 0.718.
    agent = example_agent(ONE_STEP)
    stale = [policy_trajectory(agent, t, log_ratio=1.0) for t in TRAJECTORIES]
    for target_kl, steps in ((0.47, 0), (0.49, 1)):
        agent = example_agent(ONE_STEP, target_kl=target_kl)
        metrics = agent.update(stale, 0.0)
        assert optimizer_steps(agent) == steps
        assert agent.policy_version == 1
        assert metrics.approx_kl == pytest.approx(math.e - 2, rel=1e-4)


def policy_trajectory(agent: PPOAgent, trajectory: Trajectory, log_ratio: float) -> Trajectory:
    """The trajectory as a policy recorded it that is `log_ratio` below the agent's."""
    obs = torch.from_numpy(trajectory.obs.astype(np.float32))
    with torch.no_grad():
        log_probs = torch.log_softmax(agent.network(obs)[0], dim=-1).numpy()
    log_prob = log_probs[np.arange(trajectory.length), trajectory.action]
    return trajectory._replace(log_prob=log_prob - np.float32(log_ratio))


def older_trajectory(agent: PPOAgent, trajectory: Trajectory, log_ratio: float) -> Trajectory:
    """The same, of a policy of one update ago."""
    version = agent.policy_version - 1
    return policy_trajectory(agent, trajectory, log_ratio)._replace(policy_version=version)


def test_metrics_of_off_policy_steps_by_hand() -> None:
    # Every ratio is 2, beyond the clip range 0.2. One step of reward 3 that terminates, a critic
    # that answers 0: the advantage and the return are 3.
    agent = example_agent(ONE_STEP, normalise_advantage=False)
    silence_critic(agent)
    trajectory = example_trajectory([3.0], terminated=True)
    metrics = agent.update([policy_trajectory(agent, trajectory, math.log(2))], 0.0)
    expected = PPOMetrics(
        policy_loss=-1.2 * 3,
        value_loss=0.5 * 3**2,
        entropy=math.log(4),
        approx_kl=1 - math.log(2),
        clip_fraction=1.0,
        explained_variance=math.nan,
        learning_rate=1e-3,
        policy_lag_min=0,
        policy_lag_mean=0.0,
        policy_lag_max=0,
        stale_fraction=0.0,
    )
    assert tuple(metrics) == pytest.approx(tuple(expected), rel=1e-3, nan_ok=True)


def test_the_gradient_at_ratio_1_is_the_policy_gradient() -> None:
    agent = counting_agent(
        ONE_STEP, entropy_coef=0.02, value_coef=0.7, max_grad_norm=NO_CLIPPING, reward_scale=0.5
    )
    trajectories = collect(agent, CountingEnv(), range(6))
    obs, last_obs = (torch.from_numpy(array).float() for array in stack_obs(trajectories))
    logits, value = agent.network(obs)
    with torch.no_grad():
        last_value = agent.network.critic(last_obs).squeeze(-1)
    batch = make_batch(
        trajectories,
        value.detach().double().numpy(),
        last_value.double().numpy(),
        agent.config.discount,
        agent.config.gae_lambda,
        lambda reward: 0.5 * reward,
    )
    advantage = torch.from_numpy((batch.advantage - batch.advantage.mean()) / batch.advantage.std())
    policy = torch.distributions.Categorical(logits=logits)
    log_prob = policy.log_prob(torch.from_numpy(batch.action))
    squared_error = (value - torch.from_numpy(batch.return_)) ** 2
    loss = (
        -(advantage * log_prob).mean()
        + 0.7 * squared_error.mean() / 2
        - 0.02 * policy.entropy().mean()
    )
    loss.backward()
    expected = gradients_of(agent)

    (gradients,) = gradients_of_steps(agent, trajectories)
    assert gradients.keys() == expected.keys() == dict(agent.network.named_parameters()).keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
        assert gradient.abs().max() > 1e-4


def test_normalised_advantages_make_the_policy_gradient_independent_of_the_rewards_scale() -> None:
    def actor_norm(normalise_advantage: bool, reward_scale: float) -> float:
        agent = example_agent(
            ONE_STEP,
            normalise_advantage=normalise_advantage,
            reward_scale=reward_scale,
            entropy_coef=0.0,
            max_grad_norm=NO_CLIPPING,
        )
        silence_critic(agent)
        (gradients,) = gradients_of_steps(agent, TRAJECTORIES)
        return norm(gradients, "actor")

    assert actor_norm(True, 8.0) == pytest.approx(actor_norm(True, 1.0), rel=1e-4)
    assert actor_norm(False, 8.0) == pytest.approx(8 * actor_norm(False, 1.0), rel=1e-4)


def test_gradients_are_clipped_for_actor_and_critic_apart() -> None:
    def gradients(max_grad_norm: float) -> list[dict[str, Tensor]]:
        agent = example_agent(
            reward_scale=50.0, normalise_advantage=False, max_grad_norm=max_grad_norm
        )
        return gradients_of_steps(agent, TRAJECTORIES)

    unclipped, clipped = gradients(NO_CLIPPING), gradients(0.3)
    assert len(clipped) == 6
    for part in ("actor", "critic"):
        assert all(norm(step, part) > 1.0 for step in unclipped)
        assert [norm(step, part) for step in clipped] == pytest.approx([0.3] * 6, rel=1e-4)
        # The direction stays: the first step starts from the same weights.
        scale = 0.3 / norm(unclipped[0], part)
        for name in (name for name in clipped[0] if name.startswith(part)):
            torch.testing.assert_close(
                clipped[0][name], scale * unclipped[0][name], rtol=1e-3, atol=1e-7
            )


def test_gradients_below_the_bound_are_left_alone() -> None:
    unclipped, clipped = (
        gradients_of_steps(example_agent(ONE_STEP, max_grad_norm=bound), TRAJECTORIES)[0]
        for bound in (NO_CLIPPING, 100.0)
    )
    for name, gradient in clipped.items():
        assert torch.equal(gradient, unclipped[name])


def test_terminated_and_truncated_episodes_teach_different_values() -> None:
    truncated = example_trajectory([1.0])
    terminated = example_trajectory([1.0], terminated=True)
    agents = [example_agent(ONE_STEP, discount=0.5) for _ in range(2)]
    with torch.no_grad():
        obs, last_obs = stack_obs([truncated])
        value = float(agents[0].network.critic(torch.from_numpy(obs).float()))
        last_value = float(agents[0].network.critic(torch.from_numpy(last_obs).float()))
    assert abs(last_value) > 0.1
    losses = [
        agent.update([trajectory], 0.0).value_loss
        for agent, trajectory in zip(agents, (truncated, terminated), strict=True)
    ]
    expected = [0.5 * (1 + 0.5 * last_value - value) ** 2, 0.5 * (1 - value) ** 2]
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[0] != pytest.approx(losses[1], rel=0.01)
    assert weights(agents[0]) != weights(agents[1])


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_policy_that_acted_has_ratio_1(activation: str) -> None:
    agent = counting_agent(
        ONE_STEP, activation=activation, learning_rate=0.02, decoupled_clip=False
    )
    env = CountingEnv()
    # Away from the nearly uniform policy of the start.
    for _ in range(20):
        agent.update(collect(agent, env, range(4)), 0.0)
    trajectories = collect(agent, env, range(10, 30))
    obs, _ = stack_obs(trajectories)
    with torch.no_grad():
        log_probs = torch.log_softmax(
            agent.network(torch.from_numpy(obs).float())[0], dim=-1
        ).numpy()
    assert log_probs.std() > 0.2
    action, log_prob = (
        np.concatenate([getattr(t, name) for t in trajectories]) for name in ("action", "log_prob")
    )
    ratio = np.exp(log_probs[np.arange(len(action)), action] - log_prob)
    np.testing.assert_allclose(ratio, 1, atol=1e-5)

    metrics = agent.update(trajectories, 0.0)
    assert metrics.approx_kl == pytest.approx(0, abs=1e-9)
    assert metrics.clip_fraction == 0
    # The second time the weights have moved on from the policy that acted.
    assert agent.update(trajectories, 0.0).approx_kl > 1e-5


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


@pytest.mark.parametrize("keep", [through_a_file, lambda state: state], ids=["file", "memory"])
def test_a_restored_agent_goes_on_to_the_same_bits(keep: Any) -> None:
    agent = example_agent()
    for _ in range(3):
        agent.update(TRAJECTORIES, 0.0)
    state = keep(agent.state_dict())
    restored = [example_agent(seed=7), example_agent(seed=8)]
    for other in restored:
        other.load_state_dict(state)
    # In turns: an agent must not share its optimizer's state with another, or with `state`.
    for _ in range(2):
        expected = agent.update(TRAJECTORIES, 0.5)
        for other in restored:
            assert other.update(TRAJECTORIES, 0.5) == expected
            assert weights(other) == weights(agent)
            assert other.policy_version == agent.policy_version
    late = example_agent(seed=9)
    late.load_state_dict(state)
    assert late.policy_version == 3
    for _ in range(2):
        late.update(TRAJECTORIES, 0.5)
    assert weights(late) == weights(agent)


def test_an_agent_that_begins_with_anothers_weights_goes_on_with_none_of_its_episodes() -> None:
    other = example_agent(normalise_returns=True)
    going_on = TRAJECTORIES[0]._replace(truncated=False)
    other.update([going_on], 0.0)
    students = [example_agent(normalise_returns=True) for _ in range(2)]
    for number, student in enumerate(students):
        student.load_policy(other.state_dict())
        student.update([TRAJECTORIES[1]._replace(episode=number)], 0.0)
    numbers = [student.state_dict()["return_scale"] for student in students]
    assert numbers[0] == numbers[1]


def test_the_optimizers_state_matters() -> None:
    # Otherwise the test above could not tell whether it is restored.
    agent, other = example_agent(), example_agent(seed=7)
    agent.update(TRAJECTORIES, 0.0)
    other.load_state_dict(agent.state_dict() | {"optimizer": other.state_dict()["optimizer"]})
    agent.update(TRAJECTORIES, 0.0)
    other.update(TRAJECTORIES, 0.0)
    assert weights(other) != weights(agent)


def test_policy_parameters_follow_the_updates_and_copies_do_not() -> None:
    agent = example_agent()
    copy = agent.policy_parameters()
    before = [array.tobytes() for array in (*copy.weights, *copy.biases)]
    agent.update(TRAJECTORIES, 0.0)
    assert [array.tobytes() for array in (*copy.weights, *copy.biases)] == before
    after = agent.policy_parameters()
    assert [array.tobytes() for array in (*after.weights, *after.biases)] != before


@pytest.mark.parametrize(
    ("obs_dim", "n_actions", "hidden_sizes"),
    [(7, 4, (16,)), (6, 5, (16,)), (6, 4, (17,)), (6, 4, (16, 16))],
    ids=["obs_dim", "n_actions", "hidden size", "hidden layers"],
)
def test_a_state_of_another_shape_is_refused(
    obs_dim: int, n_actions: int, hidden_sizes: tuple[int, ...]
) -> None:
    config = CONFIG.changed(hidden_sizes=hidden_sizes)
    other = PPOAgent(config, obs_dim, Categorical(n_actions), seed=0)
    with pytest.raises(
        (RuntimeError, ValueError), match=r"size mismatch|Unexpected key|this run has"
    ):
        example_agent().load_state_dict(other.state_dict())


@pytest.mark.parametrize(("match_reward", "best"), [(1.0, 16.0), (-1.0, 0.0)])
def test_the_agent_learns_to_match_or_to_avoid_as_it_is_rewarded(
    match_reward: float, best: float
) -> None:
    env = MatchingEnv(n_choices=4, length=16, match_reward=match_reward)
    config = CONFIG.changed(learning_rate=0.01, minibatch_size=64, epochs=4)
    agent = PPOAgent(config, obs_dim=4, distribution=Categorical(4), seed=0)
    n_updates, episodes = 30, 16

    def mean_return(trajectories: list[Trajectory]) -> float:
        return float(np.mean([t.episode_return for t in trajectories]))

    # At random one choice in four matches.
    untrained = mean_return(collect(agent, env, range(10_000, 10_100)))
    assert untrained == pytest.approx(match_reward * 16 / 4, abs=0.8)
    for update in range(n_updates):
        numbers = range(update * episodes, (update + 1) * episodes)
        agent.update(collect(agent, env, numbers), update / n_updates)
    trained = mean_return(collect(agent, env, range(10_000, 10_100)))
    assert trained == pytest.approx(best, abs=0.5)


def repeating_trajectories() -> list[Trajectory]:
    """Of few observations, of a kind that repeats."""
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    bits = np.random.default_rng(0).integers(2, size=(5, 6)).astype(np.uint8)
    return [
        t._replace(obs=bits[(np.arange(t.length) + n) % 5], last_obs=bits[n])
        for n, t in enumerate(trajectories)
    ]


def test_actor_and_critic_learned_at_once_end_with_the_same_bits() -> None:
    one, two = example_agent(epochs=3), example_agent(epochs=3)
    two.two_threads = True
    assert one.update(TRAJECTORIES, 0.0) == two.update(TRAJECTORIES, 0.0)
    assert weights(one) == weights(two)


def test_the_second_thread_sums_as_the_first_does() -> None:
    """Matrix products large enough for their library to split among cores, if it may."""
    random = np.random.default_rng(0)
    trajectory = example_trajectory(random.normal(size=200).tolist())
    wide = trajectory._replace(
        obs=random.normal(size=(200, 3000)).astype(np.float32),
        last_obs=random.normal(size=3000).astype(np.float32),
    )
    config = CONFIG.changed(activation="relu", hidden_sizes=(64, 64))
    one, two = (PPOAgent(config, 3000, Categorical(4), seed=0) for _ in range(2))
    two.two_threads = True
    assert one.update([wide], 0.0) == two.update([wide], 0.0)
    assert weights(one) == weights(two)


def test_a_minibatch_of_whole_observations_has_the_gradient_of_its_steps() -> None:
    steps, observations = (
        gradients_of_steps(
            example_agent(ONE_STEP, minibatches_of=kind, max_grad_norm=NO_CLIPPING),
            repeating_trajectories(),
        )[0]
        for kind in ("steps", "observations")
    )
    for name, gradient in observations.items():
        assert torch.allclose(gradient, steps[name], rtol=1e-4, atol=1e-6)


def test_minibatches_of_whole_observations_share_none(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = example_agent(epochs=2, minibatch_size=20, minibatches_of="observations")
    seen = []
    learn = agent._learn_values

    def watched(minibatch: Minibatch) -> torch.Tensor:
        seen.append({row.tobytes() for row in minibatch.obs.numpy()})
        return learn(minibatch)

    monkeypatch.setattr(agent, "_learn_values", watched)
    agent.update(repeating_trajectories(), 0.0)
    assert len(seen) == 6
    for epoch in (seen[:3], seen[3:]):
        assert sum(map(len, epoch)) == len(set.union(*epoch)) == 5
    assert seen[:3] != seen[3:]


def test_repeated_observations_learn_as_if_each_were_computed_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the networks run over every step's row: equal to rounding."""
    trajectories = [example_trajectory(np.sin(np.arange(20.0) + n), seed=n) for n in range(3)]
    repeated = [t._replace(obs=t.obs[np.arange(t.length) % 4]) for t in trajectories]
    agent, plain = example_agent(), example_agent()
    metrics = agent.update(repeated, 0.0)

    def every_row(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows, np.arange(len(rows))

    monkeypatch.setattr("agents.ppo.agent.distinct_rows", every_row)
    assert plain.update(repeated, 0.0) == pytest.approx(metrics, rel=1e-4, abs=1e-5)
    for ours, theirs in zip(agent.network.parameters(), plain.network.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_networks_see_what_repeats_once() -> None:
    rows, index = torch.eye(3), torch.tensor([2, 0, 2])
    seen, row = RolloutObs(rows, repeat=True).of(index)
    assert torch.equal(seen, rows[[0, 2]])
    assert row is not None
    assert row.tolist() == [1, 0, 1]
    seen, row = RolloutObs(rows, repeat=False).of(index)
    assert torch.equal(seen, rows[index])
    assert row is None


@pytest.mark.parametrize("moment", ["exp_avg", "exp_avg_sq"])
@pytest.mark.parametrize("shape", [(1,), (999, 999)])
def test_an_optimizer_of_another_network_is_refused(moment: str, shape: tuple[int, ...]) -> None:
    agent = example_agent()
    agent.update(TRAJECTORIES, 0.0)
    state = agent.state_dict()
    state["optimizer"]["state"][0][moment] = torch.zeros(shape)
    with pytest.raises(ValueError, match="another network"):
        example_agent().load_state_dict(state)


def test_losses_of_ones_own_are_learned_from() -> None:
    agent = example_agent()
    agent.policy_loss = lambda ratio, advantage, clip_range: 0 * ratio.sum() + clip_range
    agent.value_loss = lambda value, return_: 0 * value.sum() + len(return_)
    metrics = agent.update(TRAJECTORIES, 0.0)
    assert metrics.policy_loss == pytest.approx(CONFIG.clip_range)
    assert metrics.value_loss == pytest.approx((16 + 16 + 8) / 3)
    before = example_agent().network.critic.state_dict()
    after = agent.network.critic.state_dict()
    assert all(torch.equal(after[name], one) for name, one in before.items())
