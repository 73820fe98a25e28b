"""Trained agents on the 52 bits, and blue agents that tell how they decide, for recordings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import Actor, NumpyPolicy
from workflow_rl.agents.policies.watched_policy import probabilities, watch_policy
from workflow_rl.cage.replay_frame import shown_name
from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, make_scripted_agent
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.scenario.family import ScenarioFamily
from workflow_rl.cage2.scenario.loading import played_of
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario2 import OBS_SIZE, SCENARIO2
from workflow_rl.cage2.scoring.decisions import Decision, likeliest
from workflow_rl.cage2.scoring.evaluation_env import PolicyBlue, ScriptedBlue
from workflow_rl.environments.agent_player import Critic
from workflow_rl.environments.environment import Environment, InvalidEnvironmentError


def load_actor(path: str | os.PathLike[str], greedy: bool | None = None) -> Actor:
    """Return the actor of a run folder, checkpoint or policy file, for the 52 bits.

    Raises CheckpointError, also if the agent is not for CAGE-2.
    """
    policy, environment = load_trained(path, greedy)
    require_challenge(environment, path)
    return actor_on_bits(policy, environment, path)


def load_on_records(agent: str, scenario: Scenario) -> Actor:
    """Return a greedy or a scripted agent, by its name or path, that acts on records: see
    `evaluation_env`. scenario: what it plays.

    Raises CheckpointError, and ValueError for an agent that cannot play there.
    """
    if agent in SCRIPTED_AGENTS:
        return ScriptedBlue(agent, scenario)
    policy, environment = load_trained(agent, greedy=True)
    network_for(scenario.text, environment, policy, shown_name(Path(agent)))
    return PolicyBlue(actor_on_bits_of(scenario, policy, environment, agent))


def load_trained(
    path: str | os.PathLike[str], greedy: bool | None = None, which: str | None = None
) -> tuple[NumpyPolicy, Environment]:
    """Return the policy of a run folder, checkpoint or policy file, and its training environment.

    Raises CheckpointError, also if the agent is not for CAGE-2.
    """
    from workflow_rl.runs.checkpoint import CheckpointError
    from workflow_rl.runs.saved_agent import load_saved

    policy, environment = load_saved(Path(path), which, greedy)
    if not isinstance(policy, NumpyPolicy):
        raise CheckpointError(f"{path} is a team, which does not play CAGE-2")
    require_fitting(policy, environment, path)
    return policy, environment


def require_challenge(environment: Environment, path: str | os.PathLike[str]) -> None:
    """Raise CheckpointError, naming `path`, for an agent that was trained in another scenario."""
    from workflow_rl.runs.checkpoint import CheckpointError

    if isinstance(environment, Cage2) and environment.scenario != SCENARIO2:
        trained_in = environment.family or environment.network
        raise CheckpointError(
            f"{path} was trained in {trained_in}, and only scenario2 is played here: the "
            "command evaluate plays other scenarios"
        )


def require_fitting(
    policy: NumpyPolicy, environment: Environment, path: str | os.PathLike[str]
) -> None:
    """Raise CheckpointError, naming `path`, unless the policy fits CAGE-2.

    environment: what the policy was trained on.
    """
    from workflow_rl.runs.checkpoint import CheckpointError

    if isinstance(environment, Cage2) and environment.plays_any_network(policy):
        return  # What it plays is compared with what it learned.
    spaces = (environment if isinstance(environment, Cage2) else Cage2()).spaces()
    fits = policy.network.n_inputs, policy.distribution, policy.masked
    if fits == (spaces.obs_dim, spaces.distribution, spaces.masked):
        return
    if not isinstance(environment, Cage2):
        raise CheckpointError(f"{path} was trained on {environment.env_id}, not on CAGE-2")
    raise CheckpointError(
        f"{path} has a network of another shape: from {policy.network.n_inputs} numbers to "
        f"{policy.network.n_outputs}, but {spaces.obs_dim} observed bits and "
        f"{spaces.distribution.n_outputs} actions are needed"
    )


def actor_on_bits(policy: Actor, environment: Environment, path: str | os.PathLike[str]) -> Actor:
    """Return an actor on the 52 bits that plays with a policy of `environment`.

    Raises CheckpointError, naming `path`, if the policy sees what an evaluation does not show.
    """
    from workflow_rl.runs.checkpoint import CheckpointError

    try:
        actor = environment.bare_actor(policy)
    except InvalidEnvironmentError as error:
        raise CheckpointError(f"{path}: {error}, which no evaluation shows") from None
    if isinstance(environment, Cage2) and environment.observation in ("belief", "evidence"):
        _compile_beliefs(actor)
    return actor


def actor_on_bits_of(
    network: Scenario, policy: NumpyPolicy, environment: Environment, path: str | os.PathLike[str]
) -> Actor:
    """Return an actor on the bits of a network that plays with a policy of `environment`.

    Raises CheckpointError, naming `path`, if the policy sees what an evaluation does not show, and
    ValueError if it does not fit the network.
    """
    if isinstance(environment, Cage2) and environment.knows_networks:
        return environment.actor_in(network, policy)
    return actor_on_bits(policy, environment, path)


def _compile_beliefs(actor: Actor) -> None:
    # Each worker would compile the functions otherwise, without a word about the wait.
    from workflow_rl.cage2.compiled.blue_belief import BELIEF, begin_beliefs
    from workflow_rl.cage2.compiled.jit import announce_compiling

    announce_compiling("what Blue concludes", "a minute", (begin_beliefs,), BELIEF)
    for _ in range(2):
        actor.act(np.zeros((1, OBS_SIZE), np.uint8))
    actor.reset(0)


def network_for(
    asked: str | None, environment: Environment | None, policy: NumpyPolicy | None, name: str
) -> Scenario | ScenarioFamily:
    """Return what an agent plays: what is asked for, or else what it was trained in.

    environment, policy: None for a scripted agent. name: what errors call the agent. Raises
    InvalidEnvironmentError if the agent does not fit.
    """
    trained_in: Scenario | ScenarioFamily = Scenario.scenario2()
    plays_any = False
    if isinstance(environment, Cage2):
        trained_in = environment.family or environment.network
        plays_any = policy is not None and environment.plays_any_network(policy)
    played = trained_in if asked is None else played_of(asked)
    if isinstance(played, ScenarioFamily) and not plays_any:
        raise InvalidEnvironmentError(
            "scenario", f"{name} plays one scenario, and {played} is a family of them"
        )
    if isinstance(played, Scenario) and not (
        environment is None
        or plays_any
        or (isinstance(trained_in, Scenario) and played.is_like(trained_in))
    ):
        raise InvalidEnvironmentError(
            "scenario",
            f"{played} has other hosts or actions than {trained_in}, where {name} was trained",
        )
    return played


class BluePlayer(Protocol):
    """An agent that tells how it decides. network: what it plays."""

    name: str
    choice: str
    network: Scenario

    def into(self, network: Scenario) -> BluePlayer:
        """Return the agent in another network. Raise InvalidEnvironmentError if it does not fit."""

    def reset(self, seed: int) -> None:
        """Begin an episode, whose random choices follow from `seed`."""

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, Any]:
        """Return an index of the network's actions, and a Decision unless the agent is scripted.

        obs: `[4 H]`. caught: mask of the hosts `[H]` on which a process was caught.
        """


class ScriptedPlayer:
    """One of SCRIPTED_AGENTS."""

    choice = "scripted"

    def __init__(self, name: str, network: Scenario | None = None) -> None:
        self.name, self.network = name, network or Scenario.scenario2()
        try:
            self._agent = make_scripted_agent(name, network)
        except ValueError as error:
            raise InvalidEnvironmentError("scenario", str(error)) from None

    def into(self, network: Scenario) -> BluePlayer:
        return ScriptedPlayer(self.name, network)

    def reset(self, seed: int) -> None:
        self._agent.reset(seed)

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, None]:
        return self._agent.act(obs, {"suspicious_hosts": caught}), None


class TrainedPlayer:
    """A policy that was trained on `environment`.

    actor: plays the network on its bits, any number of episodes at once. critic: None if there is
    none. path: what errors call the agent. network: what it plays; None: what it was trained in, or
    a network of its family that it has not seen. Making one raises
    CheckpointError if the policy sees what no evaluation shows, and InvalidEnvironmentError if it
    does not fit the network.
    """

    def __init__(
        self,
        name: str,
        policy: NumpyPolicy,
        environment: Environment,
        critic: Critic | None = None,
        path: Path | None = None,
        network: Scenario | None = None,
    ) -> None:
        self.name = name
        self.choice = "greedy" if policy.greedy else "sampled"
        self._made = name, policy, environment, critic, path
        self._critic = critic
        if network is not None:
            network_for(network.text, environment, policy, name)
        knows_networks = isinstance(environment, Cage2) and environment.knows_networks
        if not knows_networks:
            trained_on = environment if isinstance(environment, Cage2) else Cage2()
            self.network = network or trained_on.network
        else:
            assert isinstance(environment, Cage2)
            family = environment.family
            if network is None and family is not None:
                (network,) = family.drawn([family.networks])
            self.network = network or environment.network
        from workflow_rl.runs.checkpoint import CheckpointError

        try:
            actor = actor_on_bits_of(self.network, policy, environment, path or name)
        except CheckpointError:
            raise
        except ValueError as error:
            raise InvalidEnvironmentError("scenario", f"{name}: {error}") from None
        self.actor, self._policy = watch_policy(actor)
        if knows_networks and self._policy.policy is not policy:
            self._critic = None  # It was made for the hosts of the training.

    def into(self, network: Scenario) -> BluePlayer:
        return TrainedPlayer(*self._made, network=network)

    def reset(self, seed: int) -> None:
        self.actor.reset(seed)

    def decide(self, obs: NDArray[np.uint8], caught: NDArray[np.bool_]) -> tuple[int, Decision]:
        names = self.network.action_names
        # The action behind each choice depends on the steps before.
        meant = getattr(self.actor, "meant", None)
        choices = np.arange(len(names)) if meant is None else meant()
        self._policy.obs = self._policy.outputs = None
        (action,), _ = self.actor.act(obs[None])
        seen, outputs = self._policy.obs, self._policy.outputs
        if seen is None or outputs is None:  # The opening goes on, and the policy was not asked.
            return int(action), Decision(((names[action], 1.0),), is_opening=True)
        probability = np.zeros(len(names))
        np.add.at(probability, choices, probabilities(outputs))
        value = None if self._critic is None else float(self._critic(seen)[0])
        return int(action), Decision(likeliest(probability, int(action), names), value)


def load_blue(agent: Path, which: str | None = None, greedy: bool | None = None) -> BluePlayer:
    """Return the agent of a run folder, checkpoint or policy file, or one that a name stands for.

    Names are those of released and of scripted agents. Raises CheckpointError.
    """
    if not agent.exists() and str(agent) in SCRIPTED_AGENTS:
        return ScriptedPlayer(str(agent))
    from workflow_rl.runs.saved_agent import critic_at, saved_path

    policy, environment = load_trained(agent, greedy, which)
    path = saved_path(agent, which)
    return TrainedPlayer(shown_name(agent), policy, environment, critic_at(path, policy), path)
