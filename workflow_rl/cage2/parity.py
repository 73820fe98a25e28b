"""The compiled simulator and CybORG in lock-step: is every episode the same?"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from tqdm import tqdm

from workflow_rl.cage2.agent.scripted import SCRIPTED_AGENTS, ScriptedAgent, make_scripted_agent
from workflow_rl.cage2.cyborg.network import cyborg_network
from workflow_rl.cage2.cyborg.simulators import Simulator
from workflow_rl.cage2.env.cage2_env import Cage2Env
from workflow_rl.cage2.env.environment import Cage2
from workflow_rl.cage2.env.options import STEPS
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS
from workflow_rl.commands.options import EPISODES, PATH, PROCESSES, SEED
from workflow_rl.runs.config import usable_cores

if TYPE_CHECKING:
    from agents.policies.numpy_policy import Actor

# Blue agents that reach what the scripted ones seldom do: each draws a kind of action, then a host.
MIXTURES = {
    "decoys": {"Decoy": 0.8, "Monitor": 0.1, "Restore": 0.1},
    "all-kinds": {
        "Sleep": 0.2,
        "Monitor": 0.2,
        "Analyse": 0.2,
        "Remove": 0.15,
        "Decoy": 0.15,
        "Restore": 0.1,
    },
}
# They fill a network with what nothing ever takes away: for long episodes, and if asked for.
HOARDERS = {
    "decoys-only": {"Decoy": 1.0},
    # CybORG sets up any number of these on one host.
    "stacked-decoys": {"DecoyVsftpd": 1.0},
    "decoys-on-one-host": {"DecoyVsftpd Enterprise1": 1.0},
}
CHECKPOINT = "checkpoint"
BLUE_AGENTS = (*SCRIPTED_AGENTS, *MIXTURES)
EPISODES_OF_A_SHARE = 50


class Difference(NamedTuple):
    """Where an episode first differs. step: 0 is the reset. what: by name, CybORG's and ours."""

    red_agent: str
    blue: str
    seed: int
    step: int
    what: dict[str, tuple[Any, Any]]
    networks: tuple[dict[str, Any], dict[str, Any]]

    def __str__(self) -> str:
        lines = [
            f"{self.red_agent}, blue {self.blue}, seed {self.seed}: first difference in step "
            f"{self.step}",
            *_side_by_side(self.what),
            "the networks after that step (* differs)",
            *_side_by_side(_paired(*self.networks)),
        ]
        return "\n".join(lines)


class MixedAgent:
    """Draws the kind of action first, by weight, then its host.

    Args:
        weights: probability by the first letters of the actions' names.
    """

    def __init__(self, weights: dict[str, float]) -> None:
        self._groups = [
            [i for i, name in enumerate(ACTION_NAMES) if name.startswith(kind)] for kind in weights
        ]
        self._weights = list(weights.values())

    def reset(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def act(self, obs: Any, info: Any = None) -> int:
        group = self._generator.choice(len(self._groups), p=self._weights)
        return int(self._generator.choice(self._groups[group]))


class PolicyAgent:
    """A trained policy as a blue agent."""

    def __init__(self, policy: Actor) -> None:
        self._policy = policy

    def reset(self, seed: int) -> None:
        self._policy.reset(seed)

    def act(self, obs: Any, info: Any = None) -> int:
        actions, _ = self._policy.act(obs[None])
        return int(actions[0])


def make_blue_agent(name: str) -> ScriptedAgent:
    """One of `BLUE_AGENTS` or `HOARDERS`."""
    mixture = {**MIXTURES, **HOARDERS}.get(name)
    return make_scripted_agent(name) if mixture is None else MixedAgent(mixture)


class LockStep:
    """Plays episodes in CybORG and in the compiled simulator at once.

    Args:
        simulator: which CybORG, one of `simulators.SIMULATORS`.
        max_steps: length of an episode.
        networks: also compare the two networks, and how many random words were drawn, at every
            step. Differences that do not show yet are found too, at a tenth of the speed. May be
            set between episodes.
    """

    def __init__(
        self, simulator: str = "cyborg", max_steps: int = 100, networks: bool = False
    ) -> None:
        # Here and not above: the command line should not wait for numba.
        from workflow_rl.cage2.compiled.network import compiled_network
        from workflow_rl.cage2.compiled.simulator import CompiledSimulator

        self._env = Cage2Env(simulator=simulator, max_steps=max_steps, obs_dtype="uint8")
        self._compiled = CompiledSimulator(max_steps)
        self._compiled_network = compiled_network
        self.networks = networks

    def play(
        self, blue_agent: ScriptedAgent, red_agent: str, seed: int, blue: str = ""
    ) -> Difference | None:
        """The first difference in one episode, if any. The blue agent acts on CybORG's side."""
        env, compiled = self._env, self._compiled
        obs, info = env.reset(seed=seed, options={"red_agent": red_agent})
        shown = {"observation": obs.tolist()}
        same = compiled.reset(seed, red_agent)
        same_shown = {"observation": same.tolist()}
        blue_agent.reset(seed)
        for step in itertools.count():
            if self.networks:
                shown |= cyborg_network(env)
                same_shown |= self._compiled_network(compiled.state)
            if repr(shown) != repr(same_shown):
                what = {
                    name: pair
                    for name, pair in _paired(shown, same_shown).items()
                    if repr(pair[0]) != repr(pair[1])
                }
                networks = cyborg_network(env), self._compiled_network(compiled.state)
                return Difference(red_agent, blue, seed, step, what, networks)
            if step == env.max_steps:
                return None
            action = blue_agent.act(obs, info)
            obs, reward, *_, info = env.step(action)
            try:
                same, same_reward = compiled.step(action)
            except RuntimeError as error:
                same_shown = {"error": str(error)}
                continue
            shown = {
                "observation": obs.tolist(),
                "reward": reward,
                **_facts(env._simulator),
            }
            same_shown = {
                "observation": same.tolist(),
                "reward": same_reward,
                **_facts(compiled),
            }
        raise AssertionError("an episode ends")


def _facts(simulator: Simulator) -> dict[str, Any]:
    return {
        "blue_action": simulator.blue_text,
        "blue_success": simulator.blue_success,
        "red_action": simulator.red_text,
        "red_kind": simulator.red_action,
        "red_target": simulator.red_target,
        "red_success": simulator.red_success,
        "suspicious_hosts": np.flatnonzero(simulator.suspicious_hosts).tolist(),
    }


# --- The report ----------------------------------------------------------------------------------


def _paired(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = list(dict.fromkeys((*ours, *theirs)))
    return {name: (ours.get(name), theirs.get(name)) for name in names}


def _side_by_side(pairs: dict[str, tuple[Any, Any]], width: int = 60) -> list[str]:
    names = max(map(len, pairs), default=0)
    lines = [f"  {'':{names}}  {'CybORG':{width}}  compiled"]
    for name, (reference, compiled) in pairs.items():
        mark = " " if repr(reference) == repr(compiled) else "*"
        left, right = _chunks(str(reference), width), _chunks(str(compiled), width)
        for i, (a, b) in enumerate(itertools.zip_longest(left, right, fillvalue="")):
            label = name if i == 0 else ""
            lines.append(f"{mark} {label:{names}}  {a:{width}}  {b}".rstrip())
    return lines


def _chunks(text: str, width: int) -> list[str]:
    return [text[i : i + width] for i in range(0, len(text), width)] or [""]


# --- The command ---------------------------------------------------------------------------------


class Share(NamedTuple):
    """Episodes of a pair of agents that one process plays one after another."""

    red_agent: str
    blue: str
    agent: ScriptedAgent
    seeds: range
    networks: bool


def _shares(
    red_agents: Sequence[str], agents: dict[str, ScriptedAgent], seeds: range, n_networks: int
) -> Iterator[Share]:
    """Pair by pair, in the order of the seeds; networks are compared in the first `n_networks`."""
    for red_agent, (blue, agent) in itertools.product(red_agents, agents.items()):
        for part, networks in ((seeds[:n_networks], True), (seeds[n_networks:], False)):
            for i in range(0, len(part), EPISODES_OF_A_SHARE):
                yield Share(red_agent, blue, agent, part[i : i + EPISODES_OF_A_SHARE], networks)


@functools.cache
def _lock_step(simulator: str, max_steps: int) -> LockStep:
    return LockStep(simulator, max_steps)


def _first_difference(share: Share, simulator: str, max_steps: int) -> Difference | None:
    lock_step = _lock_step(simulator, max_steps)
    lock_step.networks = share.networks
    for seed in share.seeds:
        difference = lock_step.play(share.agent, share.red_agent, seed, share.blue)
        if difference is not None:
            return difference
    return None


def _first_differences(
    shares: Sequence[Share], simulator: str, max_steps: int, n_workers: int
) -> Iterator[Difference | None]:
    """Of each share, in their order."""
    play = functools.partial(_first_difference, simulator=simulator, max_steps=max_steps)
    if n_workers == 1:
        yield from map(play, shares)
        return
    with ProcessPoolExecutor(n_workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(play, shares)


_OPTIONS: list[click.Parameter] = [
    click.Option(["--episodes"], type=EPISODES, default=100, show_default=True,
                 metavar="N", help="Episodes of each red agent against each blue one."),
    click.Option(["--seed"], type=SEED, default=0, show_default=True, metavar="N",
                 help="Seed of the first episode; each next has the next."),
    click.Option(["--red-agent", "red_agents"], type=click.Choice(RED_AGENTS), multiple=True,
                 default=RED_AGENTS, help="Only this one; may be given again.  "
                                          "[default: all three]"),
    click.Option(["--blue", "blues"], multiple=True,
                 type=click.Choice((*BLUE_AGENTS, *HOARDERS, CHECKPOINT)),
                 help="Only this one; may be given again.  [default: all but "
                      f"{', '.join(HOARDERS)}; checkpoint only if there is one]"),
    click.Option(["--checkpoint"], type=PATH,
                 help="Run folder or checkpoint file of --blue checkpoint; its policy samples."),
    click.Option(["--max-steps"], type=STEPS, default=100, show_default=True,
                 metavar="N", help="Length of an episode in steps."),
    click.Option(["--network-episodes"], type=click.IntRange(0, 1_000_000), default=0,
                 show_default=True, metavar="N",
                 help="In the first N episodes of each pair, also compare the simulated networks "
                      "at every step: sessions by host and privilege, processes, ports, what Red "
                      "knows, random numbers drawn. A tenth of the speed."),
    click.Option(["--stock-simulator"], is_flag=True,
                 help="Against csle-cyborg without the speed-ups; slower."),
    click.Option(["--n-workers"], type=PROCESSES, metavar="N",
                 help="Processes.  [default: one a core]"),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
]  # fmt: skip


@click.command(params=_OPTIONS)
def parity(**options: Any) -> None:
    """Play the same episodes in CybORG and in the compiled simulator, and compare every step.

    Observation, reward, Blue's and Red's action and success have to be the same. Prints the first
    difference of each pair of agents, with both networks, and exits with 1 if there is any.

    Example: parity --episodes 2000 --red-agent B_lineAgent --blue random
    """
    checkpoint: Path | None = options["checkpoint"]
    blues = options["blues"] or BLUE_AGENTS + (CHECKPOINT,) * (checkpoint is not None)
    if checkpoint is not None and CHECKPOINT not in blues:
        raise click.UsageError("--checkpoint goes with --blue checkpoint")
    agents = {blue: _chosen_agent(blue, checkpoint) for blue in blues}
    max_steps, n_episodes = options["max_steps"], options["episodes"]
    n_networks = min(options["network_episodes"], n_episodes)
    seeds = range(options["seed"], options["seed"] + n_episodes)
    red_agents = tuple(dict.fromkeys(options["red_agents"]))
    shares = list(_shares(red_agents, agents, seeds, n_networks))
    simulator = "cyborg-stock" if options["stock_simulator"] else "cyborg"
    n_workers = min(options["n_workers"] or usable_cores(), len(shares))
    # Compiled here, once, the simulator is there for all processes.
    Cage2(simulator="compiled", max_steps=max_steps).check()
    start = time.perf_counter()
    first: dict[tuple[str, str], Difference | None] = {}
    n_played = n_networks_played = 0
    results = _first_differences(shares, simulator, max_steps, n_workers)
    n_asked = sum(len(share.seeds) for share in shares)
    with tqdm(total=n_asked, unit="ep", disable=options["quiet"] or None) as progress_bar:
        for share, difference in zip(shares, results, strict=True):
            pair = share.red_agent, share.blue
            first[pair] = first.get(pair) or difference
            played = (
                share.seeds if difference is None else range(share.seeds[0], difference.seed + 1)
            )
            n_played += len(played)
            n_networks_played += len(played) * share.networks
            progress_bar.update(len(share.seeds))
            if share.seeds[-1] == seeds[-1]:
                result = first[pair] or (
                    f"{share.red_agent}, blue {share.blue}: {n_episodes} episodes, networks "
                    f"compared in {n_networks}: no difference"
                )
                progress_bar.write(str(result))
    n_different = sum(difference is not None for difference in first.values())
    click.echo(
        f"{n_played} episodes of {max_steps} steps from seed {seeds[0]}, networks compared in "
        f"{n_networks_played}: {n_different} of {len(first)} pairs of agents differ "
        f"({time.perf_counter() - start:.1f} s)"
    )
    if n_different:
        raise SystemExit(1)


def _chosen_agent(blue: str, checkpoint: Path | None) -> ScriptedAgent:
    if blue != CHECKPOINT:
        return make_blue_agent(blue)
    if checkpoint is None:
        raise click.UsageError("--blue checkpoint: give a run folder or file by --checkpoint")
    from workflow_rl.cage2.scoring.evaluation import load_policy
    from workflow_rl.runs.checkpoint import CheckpointError, checkpoint_path

    try:
        return PolicyAgent(load_policy(checkpoint_path(checkpoint), greedy=False))
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    parity()
