"""What candidates for the best team are compared on, and which is chosen."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.workflow_rl.cage4.env.test_team_envs import random_team
from workflow_rl import TrainConfig, train
from workflow_rl.cage.selection import FRESH_SEED, eligible_agents
from workflow_rl.cage4.agent.blue_team import SingleTeam
from workflow_rl.cage4.agent.trained_teams import trained_team
from workflow_rl.cage4.compiled.simulator import CompiledSimulator
from workflow_rl.cage4.env.environment import Cage4
from workflow_rl.cage4.scenario.scenario4 import COUNTED_STEPS, RED_AGENTS
from workflow_rl.cage4.scoring import selection
from workflow_rl.cage4.scoring.selection import choose_best_candidate, totals_of
from workflow_rl.environments.episode import SeedStream, episode_spec
from workflow_rl.runs.read_checkpoint import load_checkpoint

SETTINGS = {"hidden_sizes": (8,), "minibatch_size": 1000, "epochs": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three updates. Nobody has chosen its best agent."""
    folder = tmp_path_factory.mktemp("run")
    given: dict[str, Any] = {"n_envs": 2, "n_workers": 1, "total_episodes": 6, "keep_every": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "choose_best_candidate", lambda path, quiet: None)
        config = TrainConfig(
            "async", env="workflow_rl/CAGE4-v0", episodes_per_update=2, settings=SETTINGS, **given
        )
        train(config, folder)
    return folder


def test_498_rewards_of_the_greedy_team_count():
    environment = Cage4(observation="belief", actions="suspects", own_rewards=True)
    team = random_team(environment)
    totals = totals_of(team, environment, 3)
    spec = episode_spec(0, 2, environment.variants, SeedStream.SELECTION)
    simulator = CompiledSimulator(RED_AGENTS[0], 500)
    player = SingleTeam(trained_team(team.parameters.actor(greedy=True), environment)(1))
    observations = simulator.reset(spec.env_seed)
    player.reset(simulator.masks, 0)
    total = 0
    for _ in range(COUNTED_STEPS):
        result = simulator.step(*player.act_in(simulator, observations))
        observations = result.observations
        total += result.reward
    assert totals[2] == total
    assert not np.array_equal(totals, totals_of(team, environment, 3, FRESH_SEED))


def test_the_best_candidate_is_chosen_on_some_episodes_and_scored_on_others(
    run, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    played, worth = [], itertools.count()

    def counted(team: Any, environment: Any, episodes: int, seed: int = 0) -> Any:
        played.append((episodes, seed))
        # The second candidate is the best.
        return np.full(episodes, -10.0 - (next(worth) != 1)) + np.arange(episodes) % 2

    candidates = eligible_agents(folder)
    expected = load_checkpoint(candidates[1]).training.updates
    monkeypatch.setattr(selection, "totals_of", counted)
    told = choose_best_candidate(folder)
    n = selection.LEAST_TO_CHOOSE
    assert len(candidates) in (2, 3)
    assert played == [(n, 0)] * len(candidates) + [(n, FRESH_SEED)]
    updates = load_checkpoint(folder / "best.safetensors").training.updates
    assert updates == expected
    assert told.startswith(f"from update {updates}. Mean total reward: -10.5 ")


def test_a_single_agent_is_not_compared(run, monkeypatch):
    only = "workflow_rl.cage.selection.eligible_agents"
    monkeypatch.setattr(only, lambda path: [path / "checkpoint.safetensors"])
    assert choose_best_candidate(run) is None
