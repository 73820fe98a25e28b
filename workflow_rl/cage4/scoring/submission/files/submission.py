"""The submission to CAGE Challenge 4. The team needs NumPy alone, beside CybORG.

Set NAME, TEAM and TECHNIQUE. CybORG's own evaluation plays this folder. In a checkout of CybORG 4:
PYTHONPATH=. python CybORG/Evaluation/evaluation.py SUBMISSION_FOLDER OUTPUT_FOLDER --seed 0
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from acting.champion import AGENT_FILE, ChampionTeam, load_weights  # noqa: E402
from acting.interface import AGENTS  # noqa: E402
from acting.policy_team import PolicyTeam  # noqa: E402
from acting.rules import RuleTeam  # noqa: E402
from acting.team_file import load_policy_or_team  # noqa: E402
from CybORG.Agents import BaseAgent  # noqa: E402
from CybORG.Agents.Wrappers import BlueEnterpriseWrapper  # noqa: E402


def make_team() -> Any:
    """Return the team of this folder: a champion, a trained team, or else the rules."""
    if (HERE / AGENT_FILE).exists():
        return ChampionTeam(load_weights(HERE / AGENT_FILE))
    if not (HERE / "team.npz").exists():
        return RuleTeam()
    team, about = load_policy_or_team(HERE / "team.npz")
    args = about["env_args"]
    made_with = (args[name] for name in ("observation", "actions", "max_steps", "messages"))
    return PolicyTeam(team.actor(), *made_with)


class Wrapper(BlueEnterpriseWrapper):  # type: ignore[misc]
    """CybORG's own wrapper of blue agents. It shows the team each step, and sends its messages."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._team = make_team()
        self._episode = 0

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observations, infos = super().reset(*args, **kwargs)
        self._team.reset(
            [np.asarray(infos[name]["action_mask"], np.bool_) for name in AGENTS], self._episode
        )
        self._episode += 1
        self._decide(observations)
        return observations, infos

    def step(self, actions: Any, messages: Any = None) -> Any:
        answer = super().step(actions, messages=messages or self._messages)
        if self.agents:
            self._decide(answer[0])
        return answer

    def _decide(self, observations: Any) -> None:
        chosen, messages = self._team.act([observations[name] for name in AGENTS])
        DECIDED.update(zip(AGENTS, chosen, strict=True))
        self._messages = {} if messages is None else dict(zip(AGENTS, messages, strict=True))


DECIDED: dict[str, int] = {}
"""What each agent does in the coming step."""


class Agent(BaseAgent):  # type: ignore[misc]
    """One of the five agents. The wrapper has decided for all of them."""

    def get_action(self, observation: Any, action_space: Any) -> int:
        return DECIDED[self.name]


class Submission:
    """What CybORG's evaluation reads."""

    NAME: str = "anonymous"
    TEAM: str = "none"
    TECHNIQUE: str = "workflow_rl"
    AGENTS: dict[str, Any] = {name: Agent(name) for name in AGENTS}  # noqa: RUF012

    @staticmethod
    def wrap(env: Any) -> Any:
        """Return the environment that the agents play in."""
        return Wrapper(env)
