"""CybORG and the compiled simulator of CAGE-2 in lock-step."""

from typing import Any

from workflow_rl.cage.comparison import ComparedEpisode, Difference, compare_episode
from workflow_rl.cage2.agent.scripted import MIXTURES, SCRIPTED_AGENTS, ScriptedAgent
from workflow_rl.cage2.parity import BlueAndRed, CompiledSide, CybORGSide
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario2 import SCENARIO2

BLUE_AGENTS = (*SCRIPTED_AGENTS, *MIXTURES)


class LockStep:
    """Both simulators, for one episode after another.

    networks: compare the networks at every step. May be set between episodes.
    """

    def __init__(
        self,
        simulator: str = "cyborg",
        max_steps: int = 100,
        networks: bool = False,
        scenario: Any = SCENARIO2,
    ) -> None:
        self._simulator, self._scenario = simulator, scenario_of(scenario)
        self.max_steps, self.networks = max_steps, networks
        self._sides: dict[bool, tuple[CybORGSide, CompiledSide]] = {}

    def sides(self, from_outside: bool = False) -> tuple[CybORGSide, CompiledSide]:
        """CybORG and the compiled simulator, for a Red of CybORG's or one from outside."""
        if from_outside not in self._sides:
            made = self.max_steps, self._scenario, from_outside
            self._sides[from_outside] = CybORGSide(self._simulator, *made), CompiledSide(*made)
        return self._sides[from_outside]

    def play(self, blue: ScriptedAgent, red: str | ScriptedAgent, seed: int) -> Difference | None:
        """Play an episode. Return the first difference, if any."""
        red_agent = None if isinstance(red, str) else red
        episode = ComparedEpisode("", str(red), seed, self.max_steps)
        sides = self.sides(red_agent is not None)
        players = BlueAndRed(blue, red_agent)
        return compare_episode(*sides, players, episode, int(self.networks))[1]
