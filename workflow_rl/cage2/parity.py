"""CAGE-2's part of a comparison of CybORG with the compiled simulator: see `cage.comparison`.

Some red agents choose from outside: one program chooses Red's actions for both simulators."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.numpy_policy import Actor
from workflow_rl.cage.comparison import (
    ComparedEpisode,
    ComparedSimulator,
    Difference,
    WorkShare,
    are_same,
    paired,
)
from workflow_rl.cage2.agent.blue import Blue
from workflow_rl.cage2.agent.records import records
from workflow_rl.cage2.cyborg.cyborg_state import cyborg_network
from workflow_rl.cage2.cyborg.red_cyborg import ToldRed
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.scenario.scenario import Scenario
from workflow_rl.cage2.scenario.simulator_protocol import OWN_RED, Simulator

if TYPE_CHECKING:
    from workflow_rl.cage2.attackers import SeenBatch

EPISODES_OF_A_SHARE = 50
Chosen: TypeAlias = tuple[int, int | None]
"""Blue's action and Red's action in a step. Red's is None if Red does not choose from outside."""


class BlueAndRed:
    """The `comparison.Players`. red: an actor on the rows of `attackers.SeenBatch`. None means a
    red agent of CybORG, which both simulators have."""

    def __init__(self, blue: Blue, red: Actor | None = None) -> None:
        self._blue = blue
        self._red = red

    def reset(self, episode: ComparedEpisode, first: CybORGSide) -> None:
        self._blue.reset(episode.seed)
        if self._red is not None:
            self._red.reset(episode.seed)

    def choose(self, first: CybORGSide) -> Chosen:
        red_action = None
        if self._red is not None:
            red_actions, _ = self._red.act(first.red_row[None])
            red_action = int(red_actions[0])
        shown = records(self._blue.network, first.obs[None], first.info["suspicious_hosts"])
        actions, _ = self._blue.act(shown)
        return int(actions[0]), red_action


class CybORGSide:
    """CybORG, as a `comparison.ComparedSimulator`.

    Args:
        simulator: "cyborg" or PUBLISHED.
        from_outside: whether Red chooses from outside."""

    def __init__(
        self, simulator: str, max_steps: int, scenario: Scenario, from_outside: bool
    ) -> None:
        self.env = Cage2Env("SleepAgent", max_steps, simulator, "uint8", scenario=scenario)
        self._red = ToldRed(self.env) if from_outside else None

    def reset(self, episode: ComparedEpisode) -> None:
        options = None if self._red else {"red_agent": episode.red_agent}
        self.obs, self.info = self.env.reset(seed=episode.seed, options=options)
        self._results: dict[str, Any] = {}

    def step(self, chosen: Chosen) -> None:
        action, red_action = chosen
        if self._red is not None and red_action is not None:
            self._red.told = red_action
        try:
            self.obs, reward, *_, self.info = self.env.step(action)
        except (LookupError, ValueError) as error:
            # In some networks, CybORG's own red agents raise these errors.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        self._results = {"reward": reward, **_facts(self.env._simulator)}

    def shown(self) -> dict[str, Any]:
        of_red = {} if self._red is None else self._red.shown()
        self.red_row = np.array(of_red.get("red_row", ()), np.uint8)
        return {"observation": self.obs.tolist(), **self._results, **of_red}

    def network(self) -> dict[str, Any]:
        return cyborg_network(self.env)


class CompiledSide:
    """The compiled simulator, as a `comparison.ComparedSimulator`: see `CybORGSide`. If Red chooses
    from outside, this object is also the simulator's `AttackerBatch`."""

    def __init__(self, max_steps: int, scenario: Scenario, from_outside: bool) -> None:
        # Imported here, so that the command line does not wait for numba.
        from workflow_rl.cage2.compiled.description import tables_of
        from workflow_rl.cage2.compiled.red_simulator import RedSimulator
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self._tables = tables_of(scenario)
        attackers = {OWN_RED: self} if from_outside else {}
        self.simulator = CompiledSimulator(max_steps, attackers, self._tables)
        batch = self.simulator.batch
        self._batch = batch if isinstance(batch, RedSimulator) else None

    def begin(self, envs: Sequence[int], seeds: Sequence[int], generators: Sequence[Any]) -> None:
        """See `attackers.AttackerBatch`."""

    def act(self, envs: Sequence[int], seen: SeenBatch) -> NDArray[np.int64]:
        return np.array([self._red_action])

    def reset(self, episode: ComparedEpisode) -> None:
        red_agent = episode.red_agent if self._batch is None else OWN_RED
        self._obs = self.simulator.reset(episode.seed, red_agent)
        self._results: dict[str, Any] = {}

    def step(self, chosen: Chosen) -> None:
        action, self._red_action = chosen
        self._obs, reward = self.simulator.step(action)
        self._results = {"reward": reward, **_facts(self.simulator)}

    def shown(self) -> dict[str, Any]:
        of_red: dict[str, Any] = {}
        if self._batch is not None:
            of_red = {
                "red_observation": self._batch.observation(0),
                "red_row": self._batch.rows[0].tolist(),
            }
        return {"observation": self._obs.tolist(), **self._results, **of_red}

    def network(self) -> dict[str, Any]:
        from workflow_rl.cage2.compiled.cyborg_words import compiled_network

        return compiled_network(self.simulator.state, self._tables)


@functools.cache
def both_sides(
    simulator: str, max_steps: int, scenario: Scenario, from_outside: bool
) -> tuple[CybORGSide, CompiledSide]:
    cyborg = CybORGSide(simulator, max_steps, scenario, from_outside)
    return cyborg, CompiledSide(max_steps, scenario, from_outside)


def _facts(simulator: Simulator) -> dict[str, Any]:
    blue, red = simulator.texts
    blue_success, red_kind, red_target, red_success, caught = simulator.facts
    return {
        "blue_action": blue,
        "blue_success": blue_success,
        "red_action": red,
        "red_kind": red_kind,
        "red_target": red_target,
        "red_success": red_success,
        "suspicious_hosts": np.flatnonzero(caught).tolist(),
    }


@dataclass(frozen=True)
class Cage2Comparison:
    """The comparison of CAGE-2's simulators: see `comparison.ComparedChallenge`.

    Args:
        simulator: "cyborg" or PUBLISHED.
        blues, reds: the agents, by name. None means a red agent of CybORG."""

    simulator: str
    max_steps: int
    scenario: Scenario
    # Agents cannot be hashed, and simulators do not depend on agents. So a comparison for equality
    # leaves them out.
    blues: Mapping[str, Blue] = field(compare=False)
    reds: Mapping[str, Actor | None] = field(compare=False)

    def simulators(self, red_agent: str) -> tuple[CybORGSide, CompiledSide]:
        from_outside = self.reds[red_agent] is not None
        return both_sides(self.simulator, self.max_steps, self.scenario, from_outside)

    def players(self, episode: ComparedEpisode) -> BlueAndRed:
        return BlueAndRed(self.blues[episode.blue], self.reds[episode.red_agent])

    def described(
        self, difference: Difference, first: ComparedSimulator, second: ComparedSimulator
    ) -> str:
        """Return the values that differ, and both networks, side by side."""
        episode, step, what = difference
        lines = [
            f"{episode.red_agent}, blue {episode.blue}, seed {episode.seed}: first difference in "
            f"step {step}",
            *_side_by_side(what),
            "the networks after that step (* differs)",
            *_side_by_side(paired(first.network(), second.network())),
        ]
        return "\n".join(lines)

    def shares(self, seeds: range, n_networks: int) -> Iterator[WorkShare]:
        """Yield the episodes of each pair of agents, in the order of the seeds.

        n_networks: in this number of first episodes of each pair, the networks are compared, too.
        """
        for red_agent, blue in itertools.product(self.reds, self.blues):
            for part, network_every in ((seeds[:n_networks], 1), (seeds[n_networks:], 0)):
                for start in range(0, len(part), EPISODES_OF_A_SHARE):
                    episodes = (
                        ComparedEpisode(blue, red_agent, seed, self.max_steps)
                        for seed in part[start : start + EPISODES_OF_A_SHARE]
                    )
                    yield WorkShare(tuple(episodes), network_every)


def _side_by_side(pairs: dict[str, tuple[Any, Any]], width: int = 60) -> list[str]:
    """Return the lines of a table of names and both values. width: a column's width."""
    name_width = max(map(len, pairs), default=0)
    lines = [f"  {'':{name_width}}  {'CybORG':{width}}  compiled"]
    for name, (cyborg, compiled) in pairs.items():
        mark = " " if are_same(cyborg, compiled) else "*"
        label = name
        chunks = (_chunks(str(cyborg), width), _chunks(str(compiled), width))
        for left, right in itertools.zip_longest(*chunks, fillvalue=""):
            lines.append(f"{mark} {label:{name_width}}  {left:{width}}  {right}".rstrip())
            label = ""
    return lines


def _chunks(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)] or [""]
