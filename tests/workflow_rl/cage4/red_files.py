"""Red teams that have learned nothing, in policy files."""

from pathlib import Path

from workflow_rl import TrainConfig
from workflow_rl.cage4.scenario.scenario4 import RED_ENV_ID
from workflow_rl.runs.export import write_policy
from workflow_rl.runs.learner import make_agent


def write_red_team(path: Path, seed: int = 0) -> str:
    config = TrainConfig("async", env=RED_ENV_ID, seed=seed, settings={"hidden_sizes": (8,)})
    write_policy(make_agent(config).policy_parameters(), config.environment, path)
    return str(path)
