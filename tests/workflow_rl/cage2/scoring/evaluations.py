"""The command `evaluate`, agents for it, and scores that are given."""

from pathlib import Path

import numpy as np

from tests.cli import output_of
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.ppo.agent import PPOAgent, PPOConfig
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.cage2.scoring.scores import CellScore, ProtocolScores
from workflow_rl.runs.checkpoint import Checkpoint, save_checkpoint
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.training_state import TrainingState


def run(*arguments: object, code: int = 0) -> str:
    """Return what the command says."""
    return output_of("evaluate", *arguments, "--quiet", code=code)


def error_line(*arguments: object) -> str:
    """Return the one line of an error below the usage."""
    line = run(*arguments, code=2).strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def save_agent(path: Path, obs_dim: int = 52, n_actions: int = 145, seed: int = 1) -> PPOAgent:
    config = TrainConfig("async", n_envs=2, settings=PPOConfig(hidden_sizes=(8,)))
    agent = PPOAgent(config.settings, Spaces(obs_dim, Categorical(n_actions)), seed)
    agent.policy_version = 7
    save_checkpoint(path, Checkpoint(config.to_dict(), agent.state_dict(), TrainingState()))
    return agent


def returns(evaluation: ProtocolScores) -> dict[tuple[int, str], list[float]]:
    return {(cell.max_steps, cell.red_agent): cell.returns for cell in evaluation.cells}


def cell(*episode_returns: float, max_steps: int = 30, red_agent: str = "SleepAgent") -> CellScore:
    trajectories = [
        Trajectory(
            *(n, red_agent, 0, np.zeros(1), np.zeros(1), np.zeros(1)),
            reward=np.array([total]),
            last_obs=np.zeros(1),
            terminated=False,
            truncated=True,
        )
        for n, total in enumerate(episode_returns)
    ]
    return CellScore(max_steps, red_agent, trajectories)
