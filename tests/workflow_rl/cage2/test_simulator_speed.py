import itertools
import time

import numpy as np
import pytest

from workflow_rl.cage2.simulator_speed import (
    MAX_STEPS,
    StaggeredEnvs,
    play_compiled,
    random_actions,
)

AGENT = "B_lineAgent"


@pytest.mark.parametrize("n_envs", [1, 7, 30])
def test_every_env_begins_one_episode_in_a_hundred_steps_a_tenth_at_a_time(n_envs, monkeypatch):
    envs = StaggeredEnvs(AGENT, n_envs, seed=0)
    begun, reset = [], envs.simulator.reset

    def recorded(seeds, red_agent, chosen):
        begun.append((envs._n_steps, chosen.copy()))
        return reset(seeds, red_agent, chosen)

    monkeypatch.setattr(envs.simulator, "reset", recorded)
    actions = random_actions(n_envs, 0)
    for _ in range(MAX_STEPS):
        envs.step(next(actions))
    assert (np.sum([chosen for _, chosen in begun], axis=0) == 1).all()
    assert all(step % 10 == 0 and chosen.sum() <= -(-n_envs // 10) for step, chosen in begun)
    assert len(begun) == min(n_envs, 10)


def test_the_rate_counts_steps_of_all_envs_until_time_is_up(monkeypatch):
    envs = StaggeredEnvs(AGENT, 50, seed=0)
    # The clock is read at the start and before every step: two steps, and time is up.
    monkeypatch.setattr(time, "perf_counter", iter(range(10)).__next__)
    assert play_compiled(envs, random_actions(50, 0), 3.0) == 2 * 50 / 3


def test_a_turn_has_one_step_at_least():
    assert play_compiled(StaggeredEnvs(AGENT, 2, seed=0), random_actions(2, 0), 0.0) > 0


@pytest.mark.parametrize("n_envs", [1, 20_000])
def test_random_actions_are_all_equally_likely(n_envs):
    drawn = np.concatenate(list(itertools.islice(random_actions(n_envs, 3), 290_000 // n_envs + 1)))
    counts = np.bincount(drawn, minlength=145)
    assert counts.shape == (145,)
    assert abs(counts / len(drawn) - 1 / 145).max() < 5 * (len(drawn) * 145) ** -0.5
