"""Small agents of PPO, what they learn from, and what an update does to them."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.agents.examples import example_trajectory
from tests.playing import episodes_of
from tests.tiny_envs import N_ACTIONS, OBS_DIM
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import TeamLayout
from workflow_rl.agents.trajectory import Trajectory
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


def team_spaces(state_size: int = 0) -> Spaces:
    """Spaces of a team of two, who see one number each and choose one of two actions."""
    layout = TeamLayout(("a", "b"), (1, 1), (2, 2), state_size=state_size)
    return Spaces(layout.obs_dim, Categorical(4), team=layout)


def example_agent(config: PPOConfig = CONFIG, seed: int = 0, **changes: Any) -> PPOAgent:
    config = config.changed(**changes)
    return PPOAgent(config, Spaces(6, Categorical(4)), seed)


def counting_agent(config: PPOConfig = CONFIG, **changes: Any) -> PPOAgent:
    return PPOAgent(config.changed(**changes), Spaces(OBS_DIM, Categorical(N_ACTIONS)), seed=0)


def collect(
    agent: PPOAgent, make_env: Callable[[], gymnasium.Env[Any, Any]], numbers: Sequence[int]
) -> list[Trajectory]:
    actor = NumpyPolicy(agent.policy_parameters(), agent.policy_version)
    envs = SerialEnvs(make_env, min(len(numbers), 32))
    specs = [episode_spec(0, number, ("SleepAgent",)) for number in numbers]
    return episodes_of(envs, actor, specs)


def weights(agent: PPOAgent) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in agent.network.parameters()]


def optimizer_steps(agent: PPOAgent) -> int:
    return max((int(s["step"]) for s in agent.optimizer.state.values()), default=0)


def gradients_of(agent: PPOAgent) -> dict[str, Tensor]:
    named = agent.network.named_parameters()
    return {name: p.grad.clone() for name, p in named if p.grad is not None}


def gradients_of_steps(agent: PPOAgent, trajectories: list[Trajectory]) -> list[dict[str, Tensor]]:
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
    chosen = [g.flatten() for name, g in gradients.items() if name.startswith(part)]
    return float(torch.cat(chosen).norm())


def silence_critic(agent: PPOAgent) -> None:
    last = agent.network.critic[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)


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
