"""All that the digests of the CAGE guests know of the package.

Where a move renames something, this file changes, and no stored digest does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.workflow_rl.cage2.random_networks import random_scenario
from workflow_rl.cage2.agent.red_scripted import DRAWS, DrawnRed
from workflow_rl.cage2.agent.scripted import (
    HOARDERS,
    MIXTURES,
    SCRIPTED_AGENTS,
    MixedAgent,
    ScriptedAgent,
    make_scripted_agent,
)
from workflow_rl.cage2.compiled.cyborg_words import compiled_network
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.simulator import CompiledSimulator
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.cyborg.red_cyborg import ToldRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.presets import ANY_NETWORK
from workflow_rl.cage2.red.roster import REDS, refusals
from workflow_rl.cage2.scenario import simulator_protocol
from workflow_rl.cage2.scenario.loading import played_of, scenario_text
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import OWN_RED
from workflow_rl.cage2.scenario2 import RED_AGENTS
from workflow_rl.cage2.scoring.players import actor_on_bits
from workflow_rl.cage4.agent.blue_team import BlueSees
from workflow_rl.cage4.agent.scripted import TEAMS
from workflow_rl.cage4.agent.trained_teams import RELEASED as RELEASED_TEAMS
from workflow_rl.cage4.scenario.scenario4 import RED_AGENTS as REDS_OF_CAGE4
from workflow_rl.cage4.scenario.scenario4 import SCENARIOS
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.source import guests, make_environment
from workflow_rl.errors import ConfigError
from workflow_rl.runs.saved_agent import load_saved

PUBLISHED, SPED_UP, COMPILED = "published", "sped up", "compiled"
"""What plays CAGE-1 or CAGE-2: CybORG as published, the same sped up, or compiled code."""
CYBORG_REDS = RED_AGENTS
"""CybORG's red agents of CAGE-1 and CAGE-2."""
DRAWN_REDS = tuple(DRAWS)
"""Red agents of CAGE-2 that draw Red's actions outside of the simulator."""
SCRIPTED = SCRIPTED_AGENTS
TEAMS_OF_CAGE4 = tuple(name for name in TEAMS if name not in RELEASED_TEAMS)
RELEASED = {
    "CAGE-1": ("champion1b",),
    "CAGE-2": tuple(n for n in guests["workflow_rl/CAGE2-v0"].released if n != "champion1b"),
    "CAGE-4": tuple(RELEASED_TEAMS),
}
SCENARIO_OF = {"CAGE-1": "scenario1b", "CAGE-2": "scenario2"}
DRAWN_BLUES = {
    "mixed-decoys": MIXTURES["mixed-decoys"],
    "all-kinds": MIXTURES["all-kinds"],
    "every-kind": {"Analyse": 0.2, "Remove": 0.2, "D": 0.2, "Misinform": 0.25, "Restore": 0.15},
    "busy-host": {"DecoyVsftpd Enterprise0": 1.0},
    **HOARDERS,
}
"""Blue agents that draw the kind of an action by its weight, then the action."""
FAMILY = ANY_NETWORK["env_args"]["scenario"]
"""The file of the networks that the released agent any-network learned in."""
VALUES: dict[str, Any] = {"family": FAMILY, "every": tuple(SCENARIOS), "true": True, "1.0": 1.0}
"""Arguments of environments that are not the words that stand for them."""


def payoffs_of_duel(folder: Path) -> list[list[float]]:
    """Return the mean returns of the first side, by pair of agents."""
    return list(json.loads((folder / "duel.json").read_text())["payoffs"])


# --- Networks of CAGE-1 and CAGE-2, one episode at a time ----------------------------------------


def scenario_named(name: str) -> Scenario:
    """Return scenario1b, scenario2, "random SEED HOSTS", or "family NUMBER": see FAMILY."""
    kind, *numbers = name.split()
    if kind == "random":
        return random_scenario(*map(int, numbers))
    if kind == "family":
        return played_of(scenario_text(FAMILY)).draw(*map(int, numbers))
    return Scenario.scenario1b() if kind == "scenario1b" else Scenario.scenario2()


def reds_in(scenario: Scenario) -> tuple[str, ...]:
    """Return all red agents that can play."""
    return *(red for red in RED_AGENTS if refusals(scenario)[red] is None), *DRAWN_REDS


def is_here(simulator: str, scenario: Scenario) -> bool:
    """Return whether what plays the scenario is installed. CAGE-1's CybORG may be missing."""
    try:
        Cage2(simulator=_name_of(simulator, scenario), scenario=scenario.text).check()
    except ConfigError:
        return False
    return True


def _name_of(simulator: str, scenario: Scenario) -> str:
    # CAGE-1's own package plays as it was published.
    published = "cyborg" if scenario.is_cage1 else simulator_protocol.PUBLISHED
    return {PUBLISHED: published, SPED_UP: "cyborg", COMPILED: "compiled"}[simulator]


class Network:
    """A network with a blue agent of SCRIPTED or DRAWN_BLUES, and a red one of CYBORG_REDS or
    DRAWN_REDS.

    It is an `AttackerBatch` of the compiled simulator, which asks it for the action of a drawn Red.
    """

    def __init__(self, simulator: str, scenario: Scenario, blue: str, red: str, steps: int) -> None:
        self.description = scenario.description()
        """What CybORG is given."""
        self._scenario, self._steps, self._red = scenario, steps, red
        self._env: Cage2Env | None = None
        self._blue: Any = (
            ScriptedAgent(MixedAgent(DRAWN_BLUES[blue], scenario))
            if blue in DRAWN_BLUES
            else make_scripted_agent(blue, scenario)
        )
        self._drawn = DrawnRed(DRAWS[red], len(scenario.red_action_names)) if red in DRAWS else None
        self._simulator: Any
        if simulator == COMPILED:
            attackers: Any = {OWN_RED: self} if self._drawn else {}
            self._simulator = CompiledSimulator(steps, attackers, tables_of(scenario))
            self._red = OWN_RED if self._drawn else red
            return
        name = _name_of(simulator, scenario)
        self._env = Cage2Env("SleepAgent", steps, name, "uint8", scenario=scenario)
        self._simulator = self._env._simulator
        if self._drawn:
            self._told = ToldRed(self._env)
            self._red = REDS.member(ToldRed).name

    def episode(self, seed: int) -> Iterator[tuple[Any, float, Any, list[Any]]]:
        """Yield what the reset and each step show: bits [4 H], the reward, the hosts [H] on which a
        process was caught, and plain values: what both sides did, and what a drawn Red sees."""
        for agent in filter(None, (self._blue, self._drawn)):
            agent.reset(seed)
        bits = self._simulator.reset(seed, self._red)
        reward = 0.0
        told: list[Any] = []
        caught = np.zeros(len(bits) // 4, np.bool_)
        for step in range(self._steps + 1):
            bits = bits.astype(np.uint8)
            yield bits, reward, caught, [*told, *self._shown_to_red()]
            if step < self._steps:
                action = self._blue.act(bits, {"suspicious_hosts": caught})
                bits, reward = self._simulator.step(int(action))
                *happened, caught = self._simulator.facts
                told = [*self._simulator.texts, *happened]

    def _shown_to_red(self) -> list[Any]:
        """Return what a drawn Red sees, which then chooses."""
        if not self._drawn:
            return []
        if self._env is None:
            batch = self._simulator.batch
            observation, row = batch.observation(0), batch.rows[0].tolist()
        else:
            observation, row = self._told.shown().values()
        self._choice = int(self._drawn.act(np.array([row], np.uint8))[0][0])
        if self._env is not None:
            self._told.told = self._choice
        return [observation, row]

    def begin(self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[Any]) -> None:
        """See `attackers.AttackerBatch`."""

    def act(self, envs: Sequence[int], seen: Any) -> NDArray[np.int64]:
        return np.array([self._choice])

    def hidden(self) -> Mapping[str, Any]:
        """Return all that later steps follow from, in plain values."""
        if self._env is None:
            return compiled_network(self._simulator.state, tables_of(self._scenario))
        return cyborg_network(self._env)


# --- Many episodes at once -----------------------------------------------------------------------


class Game:
    """N episodes of one length, and an actor on rows. None draws possible actions."""

    def __init__(self, n: int, environment: Any, actor: Any = None) -> None:
        spaces = environment.spaces()
        variants = environment.variants or ("",)
        self.steps = environment.episode_steps
        self._n, self._obs_dim = n, spaces.obs_dim
        self._n_actions = spaces.team.n_actions if spaces.team else [spaces.distribution.n_outputs]
        self._actor = actor
        self._random = np.random.default_rng(0)
        self._envs = environment.make_envs(n)
        self._specs = [EpisodeSpec(i, variants[i % len(variants)], 1000 + i, i) for i in range(n)]

    def begin(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Begin the episodes. Return observations [N, D] and masks [N, A]."""
        for i in range(self._n if self._actor else 0):
            self._actor.reset(i, i)
        return self._split(self._envs.reset(range(self._n), self._specs))

    def act(self) -> NDArray[Any]:
        """Return actions, [N], or [N, K] of a team."""
        if self._actor:
            return np.array(self._actor.act(self._rows, range(self._n))[0])
        draws = self._random.random((self._n, sum(self._n_actions)))
        masks = self._rows[:, self._obs_dim :]
        if masks.shape[1]:
            draws = np.where(masks > 0, draws, 0.0)
        parts = np.split(draws, np.cumsum(self._n_actions)[:-1], axis=1)
        actions = [part.argmax(axis=1) for part in parts]
        return np.stack(actions, axis=1) if len(actions) > 1 else actions[0]

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Play one step. Return observations, masks, and rewards [N]."""
        answers = self._envs.step(range(self._n), actions)
        return *self._split(answers.obs), answers.reward

    def _split(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        self._rows = rows.copy()
        return self._rows[:, : self._obs_dim], self._rows[:, self._obs_dim :]


class TeamGame:
    """As Game, of a scripted team of CAGE-4. Actions end with its messages, if it sends any."""

    def __init__(self, n: int, agent: str) -> None:
        reds = ",".join(f"{red}=1" for red in REDS_OF_CAGE4)
        environment: Any = make_environment("workflow_rl/CAGE4-v0", {"red_agent": reds})
        self._team = TEAMS[agent](n)
        self.steps = environment.episode_steps
        self._networks = environment.networks(n, self._team.reads_raw)
        self._reds = [REDS_OF_CAGE4[i % len(REDS_OF_CAGE4)] for i in range(n)]
        self._all = np.ones(n, np.bool_)

    def begin(self) -> tuple[NDArray[Any], NDArray[Any]]:
        networks = self._networks
        envs = list(range(len(self._all)))
        networks.reset([1000 + i for i in envs], self._reds, self._all)
        self._team.begin(envs, envs, networks.masks, self._seen())
        return networks.obs, networks.masks

    def act(self) -> NDArray[Any]:
        actions, sent = self._team.act(range(len(self._all)))
        self._sent = sent
        return actions if sent is None else np.hstack([actions, sent.reshape(len(sent), -1)])

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        networks = self._networks
        networks.step(actions[:, :5], self._sent, self._all)
        self._team.see(range(len(self._all)), actions[:, :5], self._seen())
        return networks.obs, networks.masks, networks.rewards.sum(axis=1)

    def _seen(self) -> BlueSees:
        return BlueSees(self._networks.obs, self._networks.raw, self._networks.busy_steps)


def game_named(name: str, n: int) -> Game | TeamGame:
    """Return N episodes of what a name says.

    "CAGE-2 champion": a released agent as it was trained. "CAGE-2 champion on the bits": the agent
    sees only what the challenge shows, and chooses from all actions. "CAGE-4 rules": a scripted
    team. "chance in CAGE2-v0, actions=all": possible actions are drawn in an environment with these
    arguments.
    """
    if name.startswith("chance in "):
        return Game(n, _environment(name.removeprefix("chance in ")))
    challenge, agent, *view = name.split(maxsplit=2)
    if challenge == "CAGE-4" and agent in TEAMS_OF_CAGE4:
        return TeamGame(n, agent)
    env_id = "workflow_rl/CAGE4-v0" if challenge == "CAGE-4" else "workflow_rl/CAGE2-v0"
    policy, environment = load_saved(Path(guests[env_id].released[agent]))
    if not view:
        return Game(n, environment, policy)
    played = _environment(f"CAGE2-v0, scenario={SCENARIO_OF[challenge]}")
    return Game(n, played, actor_on_bits(policy, environment, played.network, agent))


def _environment(words: str) -> Any:
    name, *given = words.split(", ")
    args: dict[str, Any] = dict(word.split("=", 1) for word in given)
    for key, value in args.items():
        args[key] = VALUES.get(value, value)
    if name in ("CAGE2-v0", "OrderedCAGE2-v0"):
        args |= {"simulator": "compiled", "red_agent": "mixed"}
    return make_environment(f"workflow_rl/{name}", args)
