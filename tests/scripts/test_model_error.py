from __future__ import annotations

import numpy as np
import pytest

from scripts.benchmark_model import errors_ahead
from workflow_rl.agents.mbpo.config import MBPOConfig
from workflow_rl.agents.mbpo.dynamics import Dynamics
from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.replay import Transitions
from workflow_rl.agents.trajectory import Trajectory


class Shifting(Dynamics):
    """A model that adds the action to the first number, and says that the reward is 1."""

    def imagine(self, obs, action, random):  # type: ignore[no-untyped-def]
        next_obs = obs.copy()
        next_obs[:, 0] += action
        ended = np.zeros(len(obs), bool)
        return Transitions(obs, action, np.ones(len(obs)), next_obs, ended), ended


def walk(n_steps: int) -> Trajectory:
    """The first number goes up by 2 each step, the second stays; rewards are 0, 1, 2, ..."""
    obs = np.array([[2 * t, 7] for t in range(n_steps + 1)], np.float32)
    action = np.ones(n_steps, np.int64)
    rewards = np.arange(n_steps, dtype=np.float64)
    log_prob = np.zeros(n_steps, np.float32)
    return Trajectory(0, "", 0, obs[:-1], action, log_prob, rewards, obs[-1], False, True)


@pytest.mark.parametrize("bits", [True, False])
def test_errors_by_hand(bits: bool) -> None:
    dynamics = Shifting(MBPOConfig(), 2, Categorical(2), bits, seed=0)
    model, nothing = errors_ahead(dynamics, [walk(4), walk(2)], 2, np.random.default_rng(0))
    # From steps 1 and 2 of the longer one, whose first numbers are 2 and 4, a deviation of 1 and
    # twice 1. Expected is 2 and 4 more; the model says 1 and 2 more.
    assert model.obs.tolist() == [1, 2]
    assert nothing.obs.tolist() == [2, 4]
    # Rewards of the steps are 1, 2 and then 2, 3; those before are 0 and 1.
    assert model.reward.tolist() == pytest.approx([np.sqrt(1 / 2), np.sqrt(5 / 2)])
    assert nothing.reward.tolist() == pytest.approx([1, 2])


def test_episodes_that_are_too_short() -> None:
    dynamics = Shifting(MBPOConfig(), 2, Categorical(2), False, seed=0)
    with pytest.raises(ValueError, match="no episode has more than 4 steps"):
        errors_ahead(dynamics, [walk(4)], 4, np.random.default_rng(0))
