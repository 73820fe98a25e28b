"""The agent, which takes ChallengeWrapper's observations. requirements.txt lists its packages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
# If this process has loaded another agent, that agent's modules have the same names. Forget them.
for name in [name for name in sys.modules if name.startswith("acting_")]:
    del sys.modules[name]

from acting_handed_in import read_handed_in, require_whole  # noqa: E402

require_whole()

from acting_actor import actor_of  # noqa: E402
from acting_network_facts import facts_for, untold_facts  # noqa: E402
from acting_policy_file import load_policy  # noqa: E402
from acting_scenario import Scenario  # noqa: E402
from acting_views import ViewingActor  # noqa: E402


class BlueAgent:
    """A blue agent that plays one episode after another. `end_episode` clears the agent's memory.

    order: only for an agent that takes an order: the groups of hosts, the most urgent first, such
    as "op_server,enterprise,users,op_hosts". None means the order of the agent's export, or a fixed
    order if the export had none.
    """

    def __init__(self, order: str | None = None) -> None:
        parameters, about = load_policy("policy.npz", read_handed_in("policy.npz"))
        sees = about["env_args"]
        policy = parameters.player()
        scenario = Scenario(**json.loads(read_handed_in("scenario.json")))
        is_told = about["knows_networks"]
        facts = facts_for(policy, [scenario]) if is_told else untold_facts(scenario)
        view = sees["observation"], sees["actions"], sees["opening"]
        self._actor = ViewingActor(actor_of(policy, sees), *view, facts)
        if order is not None:
            self._actor.ask(order=order)
        self._n_episodes = 0  # This number is the seed of an episode's sampled actions.
        self.end_episode()

    def get_action(
        self, observation: Any, action_space: Any = None, order: str | None = None
    ) -> int:
        """Return one of Blue's actions for an observation: one of 145 for 52 bits in Scenario 2.

        order: if given, a new order for this and all later actions.
        """
        if order is not None:
            self._actor.ask(order=order)
        action, _ = self._actor.act(np.asarray(observation, np.uint8)[None])
        return int(action[0])

    def end_episode(self) -> None:
        """Prepare for the first observation of another episode."""
        self._actor.reset(self._n_episodes)
        self._n_episodes += 1
