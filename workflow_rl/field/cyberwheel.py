"""Cyberwheel, with seeds.

Cyberwheel begins its episodes by seeds from a file of its own, or by new ones, which it adds to
that file.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("TQDM_DISABLE", "1")  # Cyberwheel draws bars while it is made.

from cyberwheel.cyberwheel_envs.cyberwheel_dynamic import DynamicCyberwheel
from cyberwheel.network.host import Host


class Seeded(DynamicCyberwheel):
    """A DynamicCyberwheel that draws from the random state of the process alone.

    arguments: those of DynamicCyberwheel, such as network_config="15-host-network.yaml" or
        num_steps, the steps of an episode. The last step is a truncation.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"deterministic": False, **arguments})

    def step(self, action: Any) -> Any:
        obs, reward, ended, _, info = super().step(action)
        return obs, float(reward), False, ended, info

    def _get_random_user_host(self) -> Host:
        return self.network.get_random_user_host()
