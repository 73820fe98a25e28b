"""The agent, which needs NumPy alone and acts on what ChallengeWrapper shows Blue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from acting.numpy_policy import NumpyPolicy
from acting.policy_file import load_policy
from acting.views import ViewingActor


class BlueAgent:
    """A blue agent that plays one episode after another. `end_episode` clears its memory."""

    def __init__(self) -> None:
        parameters, about = load_policy(Path(__file__).parent / "policy.npz")
        sees = about["env_args"]
        self._actor = ViewingActor(
            NumpyPolicy(parameters, greedy=True),
            sees["observation"],
            sees["actions"],
            sees["opening"],
        )
        self.end_episode()

    def get_action(self, observation: Any, action_space: Any = None) -> int:
        """Return one of the 145 actions for an observation of 52 bits."""
        action, _ = self._actor.act(np.asarray(observation, np.uint8)[None])
        return int(action[0])

    def end_episode(self) -> None:
        """Prepare for the first observation of another episode."""
        self._actor.reset(0)
