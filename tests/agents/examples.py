"""Inputs, agents and comparisons that several tests of this folder share."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from workflow_rl.agents.algorithm import find
from workflow_rl.agents.ppo.agent import PPOAgent
from workflow_rl.agents.ppo.config import PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.runs.checkpoint import read_values, write_values


def episode_of(
    obs: Any,
    action: Any,
    reward: Any,
    log_prob: Any = None,
    terminated: bool = False,
    **fields: Any,
) -> Trajectory:
    """A complete episode with these observations [T + 1, D], of which the last one follows the last
    step. fields: of the trajectory, besides."""
    action = np.asarray(action)
    return Trajectory(
        **{"episode": 0, "variant": "", "policy_version": 0, **fields},
        obs=obs[:-1],
        action=action,
        log_prob=np.zeros(action.shape, np.float32) if log_prob is None else log_prob,
        reward=np.array(reward, np.float64),
        last_obs=obs[-1],
        terminated=terminated,
        truncated=not terminated,
    )


def example_trajectory(
    reward: Sequence[float], *, terminated: bool = False, seed: int = 0
) -> Trajectory:
    """A trajectory with these rewards, random observations [6] and one of 4 actions each step, and
    uniform log-probs."""
    random = np.random.default_rng(seed)
    length = len(reward)
    obs = random.integers(0, 2, (length + 1, 6), np.uint8)
    log_prob = np.full(length, -np.log(4), np.float32)
    return episode_of(obs, random.integers(0, 4, length), reward, log_prob, terminated)


def ppo_agent(spaces: Spaces, seed: int = 0, threads: int = 1, **settings: Any) -> PPOAgent:
    """An agent of PPO for an environment of these spaces."""
    agent = find("ppo").make(PPOConfig(**settings), spaces, seed, "cpu", threads)
    assert isinstance(agent, PPOAgent)
    return agent


def acted_on(agent: PPOAgent, rows: Any) -> Trajectory:
    """An episode in which the agent saw these rows, the last one after its last step. The rewards
    count the steps."""
    actor = agent.policy_parameters().actor()
    actor.reset(1)
    taken = [actor.act(row[None]) for row in rows[:-1]]
    action, log_prob = (np.concatenate(column) for column in zip(*taken, strict=True))
    reward, version = np.arange(len(action)), agent.policy_version
    return episode_of(rows, action, reward, log_prob, terminated=True, policy_version=version)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """An agent's state, written to a file and read again."""
    with tempfile.TemporaryDirectory() as folder:
        write_values(Path(folder, "state"), state)
        return read_values(Path(folder, "state"))


def same_networks(one: Any, other: Any, atol: float = 0.0) -> bool:
    """Whether two agents have the same weights, bit for bit or so close to each other."""
    left, right = one.network.state_dict(), other.network.state_dict()
    return left.keys() == right.keys() and all(
        torch.allclose(left[name], right[name], rtol=0 if atol == 0 else 1e-5, atol=atol)
        for name in left
    )
