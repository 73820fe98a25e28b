"""The submission to CAGE Challenge 4. requirements.txt lists what the team needs beside CybORG.

Set NAME, TEAM and TECHNIQUE. CybORG's own evaluation plays this folder, or a zip of this folder, in
a checkout of CybORG 4:
PYTHONPATH=. python CybORG/Evaluation/evaluation.py SUBMISSION OUTPUT_FOLDER --seed 0
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
# Another submission in this process may have left modules with these names.
for name in [name for name in sys.modules if name.startswith("acting_")]:
    del sys.modules[name]
if __name__ == "submission":  # CybORG's evaluation imports this name for a folder, not for a zip.
    sys.modules["submission.submission"] = sys.modules[__name__]

from acting_handed_in import require_whole  # noqa: E402

require_whole()

from acting_blue_team import SingleTeam  # noqa: E402
from acting_make_team import make_team  # noqa: E402
from acting_raw_record import RawReader, plain_observation  # noqa: E402
from acting_scenario4 import AGENTS, IN_PROGRESS  # noqa: E402
from CybORG.Agents import BaseAgent  # noqa: E402
from CybORG.Agents.Wrappers import BlueEnterpriseWrapper  # noqa: E402


class Wrapper(BlueEnterpriseWrapper):  # type: ignore[misc]
    """CybORG's wrapper of blue agents, which also shows the team each step, and sends messages."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._reader = RawReader()
        self._raw: dict[str, Any] = {}
        self._team = SingleTeam(make_team())
        self._episode = 0
        self._decided: dict[str, int] = {}

    def action_space(self, agent: str) -> Any:
        """Return CybORG's own space with the team's decisions. An agent learns only from the space
        which environment's team decides for the agent."""
        space = super().action_space(agent)
        space.decided = self._decided
        return space

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observations, infos = super().reset(*args, **kwargs)
        self._team.reset(
            [np.asarray(infos[name]["action_mask"], np.bool_) for name in AGENTS], self._episode
        )
        self._episode += 1
        shown = self._reader.begin([self._raw[name] for name in AGENTS])
        self._decide(observations, shown)
        return observations, infos

    def observation_change(self, agent: str, observation: Any) -> Any:
        """Note the raw observation, which CybORG's wrapper turns into a vector."""
        self._raw[agent] = plain_observation(observation)
        return super().observation_change(agent, observation)

    def step(self, actions: Any, messages: Any = None) -> Any:
        answer = super().step(actions, messages=messages or self._messages)
        if self.agents:
            shown = self._reader.read([self._raw[name] for name in AGENTS])
            self._decide(answer[0], shown)
        return answer

    def _decide(self, observations: Any, shown: Any) -> None:
        vectors = [observations[name] for name in AGENTS]
        busy = shown["success"][0] == IN_PROGRESS
        chosen, messages = self._team.act(vectors, lambda: shown, busy)
        self._decided.update(zip(AGENTS, chosen, strict=True))
        self._messages = {} if messages is None else dict(zip(AGENTS, messages, strict=True))


class Agent(BaseAgent):  # type: ignore[misc]
    """One of the five agents. The wrapper has decided for all five agents."""

    def get_action(self, observation: Any, action_space: Any) -> int:
        return action_space.decided[self.name]


class Submission:
    """What CybORG's evaluation reads."""

    NAME: str = "anonymous"
    TEAM: str = "none"
    TECHNIQUE: str = "workflow_rl"
    AGENTS: dict[str, Any] = {name: Agent(name) for name in AGENTS}  # noqa: RUF012

    @staticmethod
    def wrap(env: Any) -> Any:
        return Wrapper(env)
