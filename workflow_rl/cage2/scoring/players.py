"""Load the blue agents that are scored and shown, and check that an agent fits a network.

Workers import this module without torch."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.actors import WatchedPolicy, probabilities, watch_policy
from workflow_rl.agents.policies.distributions import Choice
from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.cage2.agent.blue import Blue, Decision, likeliest
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, scripted_blue
from workflow_rl.cage2.costs import evaluated_costs
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import OBS_SIZE
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.errors import ConfigError, UserError

if TYPE_CHECKING:
    from workflow_rl.cage2.agent.network_facts import NetworkFacts
    from workflow_rl.environments.agent_player import Critic
    from workflow_rl.environments.env_batch import EnvBatchFactory


UNSEEN = 100
"""The number of a family's networks on which an agent is scored."""


def load_blue(
    agent: str | os.PathLike[str],
    network: Scenario | None = None,
    which: str | None = None,
    greedy: bool | None = None,
) -> Blue:
    """Return the agent of a run folder, checkpoint or policy file, or a released or scripted agent.

    network: the network in which the agent plays. None: see `TrainedBlue`. which, greedy: see
    `load_saved`. Raises UserError, and ConfigError if the agent does not fit the network."""
    from workflow_rl.cage.replay_frame import shown_name
    from workflow_rl.runs.saved_agent import critic_at, saved_path

    path = Path(agent)
    if not path.exists() and str(agent) in SCRIPTED_AGENTS:
        return scripted_blue(str(agent), network)
    policy, environment = load_trained(path, which, greedy)
    critic = critic_at(saved_path(path, which), policy)
    return TrainedBlue(shown_name(path), policy, environment, network, critic)


def load_trained(
    path: str | os.PathLike[str], which: str | None = None, greedy: bool | None = None
) -> tuple[NumpyPolicy, Environment]:
    """Return the policy of a run folder, checkpoint or policy file, and its training environment.

    Raises UserError, also if the agent is not for CAGE-2."""
    from workflow_rl.runs.saved_agent import load_saved

    policy, environment = load_saved(Path(path), which, greedy)
    if not isinstance(policy, NumpyPolicy):
        raise UserError(f"{path} is a team, which does not play CAGE-2")
    require_cage2(policy, environment, path)
    return policy, environment


def require_cage2(
    policy: NumpyPolicy, environment: Environment, path: str | os.PathLike[str]
) -> None:
    """Raise UserError, which names `path`, if a policy of `environment` is not for CAGE-2."""
    if isinstance(environment, Cage2) and environment.plays_any_network(policy):
        return
    spaces = _trained_on(environment).spaces()
    fits = (policy.network.n_inputs, policy.distribution, policy.masked)
    if fits == (spaces.obs_dim, spaces.distribution, spaces.masked):
        return
    if not isinstance(environment, Cage2):
        raise UserError(f"{path} was trained on {environment.env_id}, not on CAGE-2")
    raise UserError(
        f"{path} has a network of another shape: from {policy.network.n_inputs} numbers to "
        f"{policy.network.n_outputs}, but {spaces.obs_dim} observed bits and "
        f"{spaces.distribution.n_outputs} actions are needed"
    )


def require_fit(
    played: Scenario | ScenarioFamily,
    name: str,
    policy: NumpyPolicy | None = None,
    environment: Environment | None = None,
) -> None:
    """Raise ConfigError, which names the agent, if the agent cannot play a network or a family.

    policy, environment: see `require_cage2`. Both are None for a scripted agent."""
    if (
        isinstance(environment, Cage2)
        and policy is not None
        and environment.plays_any_network(policy)
    ):
        return
    if isinstance(played, ScenarioFamily):
        raise ConfigError(
            "scenario", f"{name} plays one scenario, and {played} is a family of them"
        )
    if environment is None:
        return
    trained_in = _trained_on(environment).network
    if not played.is_like(trained_in):
        raise ConfigError(
            "scenario",
            f"{played} has other hosts or actions than {trained_in}, where {name} was trained",
        )


def _trained_on(environment: Environment) -> Cage2:
    """Return the environment. In place of a user's own environment, return CAGE-2."""
    return environment if isinstance(environment, Cage2) else Cage2()


class TrainedBlue(Blue):
    """A policy that was trained on `environment`.

    network: the network in which the policy plays. None means the training's network. After a
    training in a family, None means a network of the family that the training did not play. The
    constructor raises UserError if the policy observes the true state, and ConfigError if the
    policy does not fit the network."""

    def __init__(
        self,
        name: str,
        policy: NumpyPolicy,
        environment: Environment,
        network: Scenario | None = None,
        critic: Critic | None = None,
    ) -> None:
        trained_on = _trained_on(environment)
        if network is not None:
            require_fit(network, name, policy, environment)
        elif trained_on.family is not None:
            (network,) = trained_on.family.drawn([trained_on.family.networks])
        super().__init__(name, "greedy" if policy.greedy else "sampled")
        self.network = network or trained_on.network
        self.policy_version = policy.policy_version
        self._trained = policy, environment, critic
        self._critic = critic
        self._actor = actor_on_bits(policy, environment, self.network, name)
        self._watched: WatchedPolicy | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A worker plays only this network, and needs no decisions.
        return {**vars(self), "_trained": None, "_critic": None}

    def into(self, network: Scenario) -> Blue:
        policy, environment, critic = self._trained
        return TrainedBlue(self.name, policy, environment, network, critic)

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self._actor.reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        if self._watched is not None:
            self._watched.obs = self._watched.outputs = None
            # The action for which a choice of the policy stands depends on the steps before.
            meant = getattr(self._actor, "meant", None)
            self._meant = np.arange(len(self.network.action_names)) if meant is None else meant()
        choice = self._actor.act(obs["obs"], envs)
        self._action = int(choice[0][0])
        return choice

    def watch(self) -> None:
        if self._watched is None:
            self._actor, self._watched = watch_policy(self._actor)
            if self._watched.policy is not self._trained[0]:
                self._critic = None  # The critic fits only the hosts of the training.

    @property
    def decision(self) -> Decision:
        assert self._watched is not None
        names = self.network.action_names
        seen, outputs = self._watched.obs, self._watched.outputs
        if seen is None or outputs is None:  # The policy does not choose the opening's actions.
            return Decision(((names[self._action], 1.0),), is_opening=True)
        probability = np.zeros(len(names))
        np.add.at(probability, self._meant, probabilities(outputs))
        value = None if self._critic is None else float(self._critic(seen)[0])
        return Decision(likeliest(probability, self._action, names), value)


class FamilyBlue(Blue):
    """A policy that plays UNSEEN networks of a family that its training did not play.

    Each episode's seed chooses one of these networks. The policy observes rows and not records, so
    `make_envs` makes other envs. The constructor raises ConfigError if Blue has other kinds of
    actions in the family."""

    def __init__(
        self, name: str, policy: NumpyPolicy, environment: Cage2, family: ScenarioFamily
    ) -> None:
        from workflow_rl.cage2.agent.network_facts import facts_for
        from workflow_rl.cage2.agent.views import on_networks

        super().__init__(name, "greedy" if policy.greedy else "sampled")
        unseen = family.drawn(range(family.networks, family.networks + UNSEEN))
        self._family = family
        self._view = environment.view
        observation, actions, _ = self._view
        try:
            self._known: NetworkFacts | None = facts_for(policy, unseen)
            self._policy = on_networks(policy, self._known, observation, actions)
        except ValueError as error:
            raise ConfigError("scenario", f"{name}: {error}") from None
        self.policy_version = policy.policy_version

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": None}  # A worker gets the facts with its envs.

    def reset(self, seed: int, env: int = 0, n_acted: int = 0) -> None:
        self._policy.reset(seed, env, n_acted)

    def act(self, obs: NDArray[Any], envs: Sequence[int] = (0,)) -> Choice:
        return self._policy.act(obs, envs)

    @property
    def played(self) -> ScenarioFamily:
        return self._family

    def make_envs(self, environment: Cage2) -> EnvBatchFactory:
        from workflow_rl.cage2.env.viewed_envs import family_envs

        assert self._known is not None
        costs = evaluated_costs(self._known.scenarios) if environment.measures else ()
        make = functools.partial(family_envs, self._known, self._view, environment.max_steps, costs)
        # A step compiles the functions, so that workers load them from disk.
        envs = make(1)
        envs.reset([0], [EpisodeSpec(0, "SleepAgent", 0, 0)])
        envs.step([0], np.zeros(1, np.int64))
        return make


def actor_on_bits(
    policy: NumpyPolicy, environment: Environment, network: Scenario, name: str
) -> Actor:
    """Return an actor that observes a network's bits. Raises UserError if the policy observes the
    true state, and ConfigError if the policy does not fit the network."""
    if not isinstance(environment, Cage2):
        return environment.actor_on_observations(policy)
    try:
        actor = environment.actor_on_observations(policy, network)
    except ConfigError as error:
        raise UserError(f"{name}: {error.message}, which no evaluation shows") from None
    except ValueError as error:
        raise ConfigError("scenario", f"{name}: {error}") from None
    if environment.observation in ("belief", "evidence") and network.is_scenario2:
        _compile_beliefs(actor)
    return actor


def _compile_beliefs(actor: Actor) -> None:
    # Without this call, each worker would compile the functions, without telling the user.
    from workflow_rl.cage2.compiled.blue_belief import BELIEF, begin_beliefs
    from workflow_rl.cage2.compiled.jit import announce_compiling

    announce_compiling("what Blue concludes", "a minute", (begin_beliefs,), BELIEF)
    for _ in range(2):
        actor.act(np.zeros((1, OBS_SIZE), np.uint8))
    actor.reset(0)
