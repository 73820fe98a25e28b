"""CAGE-2, from Blue's side, as the Environment of a run. Workers get a pickled copy."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from workflow_rl.cage.attackers import AttackerError, Attackers, Roster, label_of
from workflow_rl.cage.environment import AgainstReds
from workflow_rl.cage2.red.roster import REDS
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_in
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import ENV_ID, SCENARIO2
from workflow_rl.errors import ConfigError

if TYPE_CHECKING:
    from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
    from workflow_rl.agents.spaces import Spaces
    from workflow_rl.cage2.agent.network_facts import NetworkFacts
    from workflow_rl.cage2.attackers import AttackerBatch
    from workflow_rl.cage2.compiled.batched_simulator import CompiledEnvs
    from workflow_rl.environments.env_batch import EnvBatch, SerialEnvs

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cage2(AgainstReds):
    """CAGE Challenge 2 against red agents. `guest.Cage2Arguments` describes the arguments."""

    red_agent: str = "B_lineAgent"
    max_steps: int = 100
    simulator: str = "compiled"
    observation: str = "table"
    actions: str = "all"
    opening: tuple[str, ...] = ()
    scenario: str = SCENARIO2
    measures: bool = False

    env_id: ClassVar[str] = ENV_ID
    roster: ClassVar[Roster] = REDS

    @property
    def settings(self) -> Mapping[str, Any]:
        """The defaults of a run. In a family, hosts differ in number, so the policy's network has
        to read entities."""
        if self.family is None:
            return {"total_episodes": 3000}
        return {"total_episodes": 3000, "network": "entities"}

    @property
    def label(self) -> str:
        """The red agent's name, with the scenario's name before it except in Scenario 2."""
        if self.scenario == SCENARIO2:
            return label_of(self.red_agent)
        return label_of(f"{(self.family or self.network).name}-{self.red_agent}")

    @functools.cached_property
    def _played(self) -> Scenario | ScenarioFamily:
        # `Cage2Arguments` has checked the text.
        return played_in(self.scenario, is_checked=True)

    @property
    def network(self) -> Scenario:
        """The scenario. For a family, the scenario from which the family starts."""
        return self._played if isinstance(self._played, Scenario) else self._played.start

    @property
    def family(self) -> ScenarioFamily | None:
        """The family of scenarios, from which each episode draws one scenario, or None."""
        return self._played if isinstance(self._played, ScenarioFamily) else None

    @functools.cached_property
    def networks(self) -> tuple[Scenario, ...]:
        """The scenarios that a training plays."""
        if self.family is None:
            return (self.network,)
        return self.family.drawn(range(self.family.networks))

    @property
    def knows_networks(self) -> bool:
        """Whether the policy observes the facts of a network, and so plays any network."""
        if self.observation == "history" or self.family is not None:
            return True
        return not self.network.is_scenario2 and self.view != Cage2().view

    @functools.cached_property
    def facts(self) -> NetworkFacts:
        """What Blue knows of the networks. This takes a while for a family."""
        from workflow_rl.cage2.agent.network_facts import NetworkFacts

        return NetworkFacts(self.networks, are_told=self.knows_networks)

    def batches(self, why: str = "") -> dict[str, AttackerBatch]:
        """Return the `AttackerBatch` of each red agent of the user's own, by name.

        Raises ConfigError for a red agent that compiled code cannot play. why: the reason why
        compiled code has to play all red agents, for the message."""
        if not self.reds.foreign:
            return {}
        from workflow_rl.cage2.red.user_reds import batches_of

        try:
            return batches_of(self.opponents.foreign, self.network, why)
        except AttackerError as error:
            raise ConfigError("red_agent", str(error)) from error

    def _found_opponents(self) -> Attackers:
        """Return the red agents, and load the policies of trained red agents."""
        if not self.reds.foreign:
            return self.reds
        from workflow_rl.cage2.red.user_reds import with_policies

        return with_policies(self.reds, self.network)

    @property
    def variants(self) -> tuple[str, ...]:
        return self.reds.variants

    @property
    def episode_steps(self) -> int:
        """The number of steps in which the policy acts. Then the episode is truncated."""
        return self.max_steps - len(self.opening)

    @functools.cached_property
    def _only_in_cyborg(self) -> list[str]:
        """The names of the red agents that only CybORG can play, because they derive from its
        classes. Empty if a red agent cannot play anywhere, which `check` reports."""
        from workflow_rl.cage2.red.user_reds import in_cyborg

        try:
            return in_cyborg(self.opponents, self.network)
        except (AttackerError, ConfigError):
            return []

    @property
    def all_compiled(self) -> bool:
        """Whether compiled code can play all red agents. False if a red agent does not exist, or if
        the user did not name a red agent that a file names."""
        from workflow_rl.cage2.red.user_reds import in_cyborg

        try:
            return not in_cyborg(self.opponents, self.network)
        except (AttackerError, ConfigError):
            return False

    @property
    def steps_together(self) -> bool:
        """Whether one call steps all envs. Only compiled code does this, and it plays only if no
        red agent needs CybORG."""
        return self.simulator == "compiled" and not (self.reds.foreign and self._only_in_cyborg)

    @property
    def plays_together(self) -> bool:
        """Whether a worker plays several episodes at once. With CybORG, a worker plays one at a
        time: an env takes much memory, and a step takes much longer than the choice of an action.
        """
        return self.steps_together

    @property
    def preload(self) -> str:
        """The module that loads the costly parts of the simulator once for all workers.

        `check` has already compiled all functions that this module needs. A fork server that had to
        compile functions on a slow machine would seem to hang."""
        if not self.steps_together:
            return "workflow_rl.cage2.cyborg.preload"
        if self.observation in ("belief", "evidence") and self.network.is_scenario2:
            return "workflow_rl.cage2.compiled.preload"
        if self.family is None and self.network.is_scenario2:
            return "workflow_rl.cage2.compiled.preload_simulator"
        return "workflow_rl.cage2.compiled.batched_simulator"

    def spaces(self) -> Spaces:
        """Return the spaces: by default 52 bits and 145 actions."""
        from workflow_rl.agents.policies.distributions import Categorical
        from workflow_rl.agents.spaces import Spaces
        from workflow_rl.cage2.agent.views import ActionSet, View

        choices = ActionSet(self.actions, self.facts)
        if self.observation == "true-state":
            from workflow_rl.cage2.compiled.true_state import N_SHOWN

            n_shown = N_SHOWN
            entities = None
        else:
            view = View(self.observation, self.facts)
            n_shown = view.n_shown
            entities = view.entities(choices.names)
        actions = Categorical(choices.n)
        return Spaces(
            n_shown,
            actions,
            bits=True,
            masked=choices.has_masks,
            entities=entities,
            costs=self.costs,
        )

    @property
    def costs(self) -> tuple[str, ...]:
        """The names of a step's costs in a training. Without measures, there are none."""
        from workflow_rl.cage2.costs import COSTS

        return COSTS if self.measures else ()

    def check(self) -> str | None:
        """Raise ConfigError if the simulator is not installed, or has the wrong version.

        Compile the simulator, so that workers load the compiled code from disk. A worker tries the
        user's own red agents. Return a warning if a red agent plays two episodes with one seed
        differently."""
        super().check()
        if self.observation == "true-state":
            self.batches(why="only compiled code shows true-state")
        if self.network.is_cage1:
            self.play_a_step(self.simulator)
        elif self.simulator == "compiled" or self.observation != Cage2.observation:
            self.play_a_step()
        if not self.foreign:
            return None
        if self.simulator == "compiled" and self._only_in_cyborg:
            _log.warning(
                "%s acts as CybORG's own classes do, so cyborg plays the episodes, 10 to 30 times "
                "as slowly as compiled code",
                " and ".join(self._only_in_cyborg),
            )
        if len(self._only_in_cyborg) < len(self.foreign):
            from workflow_rl.cage2.red.user_reds import compile_for_users

            # The trial's time limit is too short for a compilation, so this compiles before it.
            compile_for_users(self.network, self.max_steps)
        import numpy as np

        from workflow_rl.cage.trial import found_by_trying

        return found_by_trying(self, np.zeros(1, np.int64), most_steps=30)

    def play_a_step(self, simulator: str = "compiled") -> None:
        """Play a step against a red agent that sleeps, so that all functions get compiled.

        Raises ConfigError if the simulator cannot play."""
        import numpy as np

        from workflow_rl.environments.episode import EpisodeSpec

        asleep = "SleepAgent"
        played = self
        if self.reds.foreign or simulator != self.simulator:
            played = dataclasses.replace(self, red_agent=asleep, simulator=simulator)
        try:
            envs = played.make_envs(1)
            envs.reset([0], [EpisodeSpec(0, asleep, 0, 0)])
            envs.step([0], np.zeros(1, np.int64))
        except (AttributeError, ImportError, RuntimeError, ValueError) as error:
            argument = "simulator" if self.family is None else "scenario"
            raise ConfigError(argument, str(error)) from None

    def actor_on_observations(self, actor: Actor, network: Scenario | None = None) -> Actor:
        """Wrap an actor of these envs: the wrapped actor observes a network's bits, and returns any
        of Blue's actions. network: by default the network of the training.

        Raises ConfigError for an actor that sees the true state, and ValueError for an actor that
        cannot play the network."""
        if self.observation == "true-state":
            raise ConfigError("observation", "only the simulator compiled shows true-state")
        if not self.knows_networks and self.view == Cage2().view:
            return actor
        from workflow_rl.cage2.agent.views import ViewingActor

        if not self.knows_networks:
            return ViewingActor(actor, *self.view, self.facts)
        from workflow_rl.cage2.agent.network_facts import facts_for

        network = network or self.network
        policy = cast("NumpyPolicy", actor)
        facts = facts_for(policy, [network])
        return ViewingActor(self.policy_for(network, policy), *self.view, facts)

    def plays_any_network(self, policy: NumpyPolicy) -> bool:
        """Return whether a policy of these envs can play other networks, of any size."""
        has_entities = "layout" in policy.parameters.network_args
        return self.family is not None or (self.knows_networks and has_entities)

    def policy_for(self, network: Scenario, policy: NumpyPolicy) -> NumpyPolicy:
        """Return a policy of these envs, adapted to another network's hosts if this is necessary.

        Raises ValueError if the policy cannot play there."""
        from workflow_rl.cage2.agent.network_facts import facts_for
        from workflow_rl.cage2.agent.views import on_networks

        has_layout = "layout" in policy.parameters.network_args
        fits = network == self.network or (network.is_like(self.network) and not has_layout)
        if self.family is None and fits:
            return policy
        return on_networks(policy, facts_for(policy, [network]), self.observation, self.actions)

    @property
    def view(self) -> tuple[str, str, tuple[str, ...]]:
        """The names of the observation and the action set, and the opening."""
        return self.observation, self.actions, self.opening

    def scored(self) -> Self:
        """Return the environment in which agents are scored: this one, with simulator compiled."""
        return dataclasses.replace(self, simulator="compiled")

    def _make_envs(self, n_envs: int) -> EnvBatch:
        """Return `n_envs` envs with the policy's observations and actions."""
        from workflow_rl.cage2.env.viewed_envs import family_envs, viewed_envs

        if self.family is not None:
            return family_envs(self.facts, self.view, self.max_steps, self.costs, n_envs)
        envs = self.envs_on_bits(n_envs, self.costs)
        if self.view == Cage2().view:
            return envs
        return viewed_envs(envs, *self.view, self.facts)

    def envs_on_bits(self, n_envs: int, costs: tuple[str, ...] = ()) -> CompiledEnvs | SerialEnvs:
        """Return `n_envs` envs of one network, which show its bits and take all its actions.

        costs: the names of a step's costs: none, COSTS or `evaluated_costs` of `cage2.costs`.
        Raises ConfigError if a file names red agents that the user did not name."""
        # Each branch imports its own simulator, so that a worker imports only one.
        if self.steps_together:
            from workflow_rl.cage2.compiled.batched_simulator import BatchedSimulator, CompiledEnvs
            from workflow_rl.cage2.compiled.description import tables_of

            steps = self.max_steps
            tables = tables_of(self.network)
            attackers = self.batches()
            if not attackers:
                batch = BatchedSimulator(n_envs, steps, tables=tables)
                return CompiledEnvs(batch, steps, len(costs))
            from workflow_rl.cage2.compiled.red_simulator import RedSimulator

            batch = RedSimulator(n_envs, steps, attackers, tables=tables)
            return CompiledEnvs(batch, steps, len(costs))
        from workflow_rl.cage2.env.cage2_env import Cage2Env, CostsInOrder
        from workflow_rl.environments.env_batch import SerialEnvs

        args = self.opponents, self.max_steps, self.simulator
        options: dict[str, Any] = {"scenario": self.network, "measures": bool(costs)}
        make_env = functools.partial(Cage2Env, *args, obs_dtype="uint8", **options)
        if not costs:
            return SerialEnvs(make_env, n_envs, variant_option="red_agent")
        return SerialEnvs(lambda: CostsInOrder(make_env(), costs), n_envs, "red_agent", True)
