"""Agents that remember numbered steps, and runs that save them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.tiny_runs import config_of
from workflow_rl.agents.mbpo.agent import MBPOAgent
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.replay import Transitions
from workflow_rl.runs.checkpoint import Checkpoint
from workflow_rl.runs.learner import make_agent
from workflow_rl.runs.run_dir import RunDir
from workflow_rl.runs.training_state import TrainingState

CONFIG = config_of(
    algorithm="mbpo",
    settings={
        "model_members": 1,
        "model_elites": 1,
        "model_hidden_sizes": (2,),
        "warm_up_steps": 9,
    },
)


def an_agent(capacity: int = 100, obs_dim: int = 3) -> MBPOAgent:
    config = MBPOConfig(
        hidden_sizes=(2,), replay_capacity=capacity, warm_up_steps=0, imagined_share=0.0
    )
    return MBPOAgent(config, obs_dim, Categorical(9), bits=False, seed=0)


def numbered(first: int, count: int, obs_dim: int = 3) -> Transitions:
    """Steps whose every number is their own."""
    n = np.arange(first, first + count)
    obs = np.stack([n + k / 8 for k in range(obs_dim)], axis=1).astype(np.float32)
    return Transitions(obs, n % 9, n / 7, obs + 1, n % 2 == 0)


def experience(agent: MBPOAgent, n_real: int, n_imagined: int = 0) -> None:
    """So many steps more."""
    obs_dim = agent.obs_dim
    if n_real:
        agent.replay.add(numbered(agent.replay.n_added, n_real, obs_dim))
    if n_imagined:
        imagined = numbered(1000 + agent.imagined_steps, n_imagined, obs_dim)
        imagined = imagined._replace(terminated=imagined.terminated.astype(np.float32))
        agent.imagined = [*agent.imagined, imagined][-2:]
        agent.imagined_steps += n_imagined


def saved_run(path: Path) -> MBPOAgent:
    """A run that was saved once, and its agent."""
    agent = make_agent(CONFIG)
    assert isinstance(agent, MBPOAgent)
    with RunDir(path, CONFIG) as run:
        experience(agent, 70, 9)
        run.save("checkpoint.safetensors", checkpoint_of(agent, 1), agent.memory())
    return agent


def checkpoint_of(agent: MBPOAgent, updates: int) -> Checkpoint:
    agent.policy_version = updates
    return Checkpoint(CONFIG.to_dict(), agent.state_dict(), TrainingState(updates=updates))
