"""CAGE-4 as the Environment of a run. Workers receive a pickled copy."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workflow_rl.agents.policies.further_distributions import MultiCategorical
from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.agents.spaces import Spaces
from workflow_rl.cage.attackers import Roster, label_of
from workflow_rl.cage.environment import AgainstReds
from workflow_rl.cage4.agent.views import ACTION_SETS, SLEEP, ViewRows, views_layout
from workflow_rl.cage4.cyborg.checkout import VARIABLE, CheckoutError, cyborg_checkout
from workflow_rl.cage4.cyborg.simulators import make_simulator
from workflow_rl.cage4.env.team_envs import CompiledNetworks, Networks, SerialNetworks, TeamEnvs
from workflow_rl.cage4.red.roster import REDS, RedTeam, found_reds
from workflow_rl.cage4.scenario import scenario4
from workflow_rl.cage4.scenario.costs import COSTS
from workflow_rl.cage4.scenario.simulator_protocol import Simulator
from workflow_rl.environments.env_batch import EnvBatch
from workflow_rl.environments.episode import episode_spec
from workflow_rl.errors import ConfigError


@dataclass(frozen=True)
class Cage4(AgainstReds, scenario4.Scenario):
    """CAGE Challenge 4 for a team of five. `arguments.Cage4Arguments` describes the arguments."""

    red_agent: str = scenario4.RED_AGENTS[0]
    max_steps: int = scenario4.MAX_STEPS
    simulator: str = "compiled"
    observation: str = "flat"
    actions: str = "all"
    own_rewards: bool = False
    messages: str = "none"
    scenarios: tuple[str, ...] = ()
    measures: bool = False

    env_id: ClassVar[str] = scenario4.ENV_ID
    roster: ClassVar[Roster] = REDS
    settings: ClassVar[Mapping[str, Any]] = {
        "total_episodes": 2000,
        # Rewards of a step reach -100, and returns of a decision -1000.
        "reward_scale": 0.01,
    }

    def _found_opponents(self) -> Mapping[str, RedTeam | str]:
        """Return what plays each attacker that is not one of CybORG's classes, by name."""
        return {
            attacker.name: found_reds(attacker, self.simulator) for attacker in self.reds.foreign
        }

    @property
    def played(self) -> Mapping[str, tuple[str, scenario4.Scenario]]:
        """The red agent and the scenario of each variant, by the variant's name."""
        reds = dict.fromkeys(self.reds.variants)
        return {
            _variant(name, red_agent, len(reds) > 1): (red_agent, scenario)
            for name, scenario in scenario4.scenarios_of(vars(self)).items()
            for red_agent in reds
        }

    @property
    def label(self) -> str:
        return label_of(f"cage4-{self.red_agent}")

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the pairs of a scenario and a red agent. Each episode draws one pair."""
        reds = self.reds.variants
        several = len({*reds}) > 1
        names = [*scenario4.scenarios_of(vars(self))]
        return tuple(_variant(name, red, several) for name in names for red in reds)

    @property
    def episode_steps(self) -> int:
        """The length of every episode. Episodes are truncated, and never terminate."""
        return self.max_steps - 1

    @property
    def steps_together(self) -> bool:
        """Whether one call steps all envs, which the compiled simulator can do."""
        return self.simulator == "compiled"

    @property
    def plays_together(self) -> bool:
        """True: a worker plays several episodes at once, with one forward pass for all."""
        return True

    @property
    def preload(self) -> str:
        room = "compiled" if self.steps_together else "cyborg"
        return f"workflow_rl.cage4.{room}.preload"

    def spaces(self) -> Spaces:
        layout = views_layout(self.observation, self.own_rewards, self.messages)
        actions = MultiCategorical(layout.n_actions)
        costs = COSTS if self.measures else ()
        return Spaces(layout.obs_dim, actions, masked=True, team=layout, costs=costs)

    def check(self) -> str | None:
        """Raise ConfigError if the simulator is missing, or does not fit the arguments.

        The compiled simulator is compiled here, so that the workers find it on disk. The user's own
        red agents are tried in a worker. If the seed does not determine the episodes of these red
        agents, return a message about it, otherwise None.
        """
        super().check()
        if self.own_rewards and "BlockTrafficZone" in ACTION_SETS[self.actions]:
            raise ConfigError(
                "own_rewards",
                f"does not go with actions {self.actions}, which can block traffic: own rewards "
                "do not show what a block costs. Choose actions repair",
            )
        try:
            if not self.steps_together:
                cyborg_checkout()
            # The user's code is not called in this process. The attacker `impact` replaces it.
            played = self
            if self.reds.foreign:
                played = dataclasses.replace(self, red_agent="impact")
            envs = played.make_envs(1)
        except CheckoutError as error:
            raise ConfigError("simulator", str(error)) from None
        envs.reset([0], [episode_spec(0, 0, played.variants)])
        envs.step([0], SLEEP[None])
        if not self.foreign:
            return None
        from workflow_rl.cage.trial import found_by_trying

        return found_by_trying(dataclasses.replace(self, scenarios=()), SLEEP[None], most_steps=200)

    def actor_on_observations(self, actor: Actor) -> Actor:
        """Return the actor unchanged if it plays on the challenge's own observations and actions.
        Otherwise raise ConfigError: such a team needs `agent.policy_team`."""
        if (self.observation, self.actions, self.messages) == ("flat", "all", "none"):
            return actor
        raise ConfigError(
            "observation",
            f"the team learned with observation={self.observation}, actions={self.actions} and "
            f"messages={self.messages}: "
            "evaluate plays it, and export --format cage4 writes it for the challenge",
        )

    def _make_envs(self, n_envs: int) -> EnvBatch:
        rows = self.rows(n_envs)
        return TeamEnvs(self.networks(n_envs, rows.reads_raw), rows, self.episode_steps)

    def networks(self, n_envs: int, shows_raw: bool) -> Networks:
        """Return `n_envs` networks. A worker imports only the simulator that it needs."""
        if self.steps_together:
            return CompiledNetworks(
                n_envs, self.max_steps, self.played, shows_raw, self.opponents, self.measures
            )

        def make(variant: str) -> Simulator:
            red_agent, scenario = self.played[variant]
            reds = self.opponents.get(red_agent, red_agent)
            return make_simulator(self.simulator, reds, self.max_steps, scenario, self.measures)

        return SerialNetworks(n_envs, make, shows_raw, self.measures)

    def rows(self, n_envs: int) -> ViewRows:
        return ViewRows(n_envs, self.observation, self.actions, self.own_rewards, self.messages)

    def __getstate__(self) -> dict[str, Any]:
        # Workers are forked from a process that may have started before the variable was set.
        return {"args": super().__getstate__(), "checkout": os.environ.get(VARIABLE)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state["args"])
        if state["checkout"]:
            os.environ[VARIABLE] = state["checkout"]


def _variant(scenario: str, red_agent: str, several: bool) -> str:
    """Return the name of a variant. scenario: its name, or "". several: whether there are several
    red agents. The variant's name then contains the red agent's name."""
    if not scenario:
        return red_agent
    return f"{scenario}, {red_agent}" if several else scenario
