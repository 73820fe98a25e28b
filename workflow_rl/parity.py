"""The compiled simulator and CybORG in lock-step: is every episode the same?"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from tqdm import tqdm

from agents.scripted import SCRIPTED_AGENTS, ScriptedAgent, make_scripted_agent
from workflow_rl.cyborg_env import CyborgEnv
from workflow_rl.scenario2 import ACTION_NAMES, HOSTS, RED_AGENTS

if TYPE_CHECKING:
    from agents.numpy_policy import Actor

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
CHECKPOINT = "checkpoint"
BLUE_AGENTS = (*SCRIPTED_AGENTS, *MIXTURES)


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
        return self._policy.act(obs)[0]


def make_blue_agent(name: str) -> ScriptedAgent:
    """One of `BLUE_AGENTS`."""
    return MixedAgent(MIXTURES[name]) if name in MIXTURES else make_scripted_agent(name)


class LockStep:
    """Plays episodes in CybORG and in the compiled simulator at once.

    Args:
        simulator: which CybORG, one of `cyborg_env.SIMULATORS`.
        max_steps: length of an episode.
        networks: also compare the two networks, and how many random words were drawn, at every
            step. Differences that do not show yet are found too, at a tenth of the speed.
    """

    def __init__(
        self, simulator: str = "cyborg", max_steps: int = 100, networks: bool = False
    ) -> None:
        # Here and not above: the command line should not wait for numba.
        from workflow_rl.compiled.network import compiled_network
        from workflow_rl.compiled.simulator import CompiledSimulator

        self._env = CyborgEnv(simulator=simulator, max_steps=max_steps)
        self._compiled = CompiledSimulator()
        self._compiled_network = compiled_network
        self._networks = networks

    def play(
        self, blue_agent: ScriptedAgent, red_agent: str, seed: int, blue: str = ""
    ) -> Difference | None:
        """The first difference in one episode, if any. The blue agent acts on CybORG's side."""
        env, compiled = self._env, self._compiled
        obs, info = env.reset(seed=seed, options={"red_agent": red_agent})
        shown = {"observation": obs.tolist(), "suspicious_hosts": info["suspicious_hosts"]}
        same = compiled.reset(seed, red_agent)
        same_shown = {"observation": same.tolist(), "suspicious_hosts": compiled.suspicious_hosts}
        blue_agent.reset(seed)
        for step in itertools.count():
            if self._networks:
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
            same, same_reward = compiled.step(action)
            shown = {
                "observation": obs.tolist(),
                "reward": reward,
                "blue_action": info["blue_action"],
                "blue_success": info["blue_success"],
                "red_action": info["red_action"],
                "red_success": info["red_success"],
                "suspicious_hosts": info["suspicious_hosts"],
            }
            same_shown = {
                "observation": same.tolist(),
                "reward": same_reward,
                **{name: getattr(compiled, name) for name in list(shown)[2:]},
            }
        raise AssertionError("an episode ends")


# --- CybORG's network ----------------------------------------------------------------------------


def cyborg_network(env: CyborgEnv) -> dict[str, Any]:
    """What `compiled_network` describes, read from the objects of CybORG."""
    from workflow_rl.compiled.tables import DECOYS, N_EXPLOITS, OT_HOST, PORTS, PRIVILEGED_USERS

    state, known, n_drawn = _parts(env)
    subnets = {state.subnets[cidr].name: str(cidr) for cidr in state.subnets}
    reds = state.sessions["Red"]
    network: dict[str, Any] = {
        "random words drawn, modulo 624": n_drawn,
        "subnets": subnets,
        "subnets Red knows": [
            name for name, cidr in subnets.items() if _is_known(known["subnet"], cidr)
        ],
        "addresses Red knows": [
            name for name in HOSTS if _is_known(known["ip_address"], _address(state, name))
        ],
        "hosts Red knows": [name for name in HOSTS if _is_known(known["hostname"], name)],
        "Red knows the OT service": reds[0].ot_service is not None,
    }
    services_of_decoys = dict(
        zip(
            ("apache2", "femitter", "haraka", "smss", "sshd", "svchost", "tomcat", "vsftpd"),
            DECOYS,
            strict=True,
        )
    )
    for name in HOSTS:
        host, address = state.hosts[name], _address(state, name)
        scanned = {str(ip): ports for ip, ports in reds[0].ports.items()}
        services: dict[str, Any] = {}
        if name == HOSTS[OT_HOST]:
            listed = host.services["OTService"]
            services["OTService"] = bool(listed["active"]), listed["process"]
        for service, decoy in services_of_decoys.items():
            if service in host.services:
                services[decoy] = host.services[service]["process"]
        network |= {
            f"{name}: address": address,
            f"{name}: processes": [
                (
                    process.pid,
                    process.user in PRIVILEGED_USERS,
                    [c["local_port"] for c in process.connections if "remote_port" not in c],
                )
                for process in host.processes
            ],
            f"{name}: red sessions": [
                (session.pid, session.username in PRIVILEGED_USERS)
                for session in reds.values()
                if session.host == name
            ],
            f"{name}: services": services,
            f"{name}: ephemeral ports": sorted(set(host.ephemeral_ports)),
            f"{name}: red files": bool(host.files),
            f"{name}: ports Red knows": sorted(set(scanned[address]) & set(PORTS[:N_EXPLOITS]))
            if address in scanned
            else None,
            f"{name}: PIDs caught": list(state.sessions["Blue"][0].sus_pids.get(name, ())),
        }
    return network


def _parts(env: CyborgEnv) -> tuple[Any, dict[str, Any], int]:
    """CybORG's state, what Red knows, and the position of the generator."""
    from workflow_rl.cyborg_speedups import CYBORG, SpedUpSimulator

    simulator: Any = env._simulator
    if isinstance(simulator, SpedUpSimulator):
        CYBORG.let_play(simulator)
        return simulator._state, simulator._red_knows, _position(CYBORG.random.getstate())
    controller = simulator._controller
    known = controller.agent_interfaces["Red"].action_space.get_action_space()
    return controller.state, known, _position(simulator._random_state._state)


def _position(state: tuple[Any, ...]) -> int:
    assert state[0] == random.Random.VERSION
    return int(state[1][-1] % 624)


def _is_known(known: dict[Any, bool], what: str) -> bool:
    return any(is_known for key, is_known in known.items() if str(key) == what)


def _address(state: Any, hostname: str) -> str:
    return str(state.hosts[hostname].interfaces[1].ip_address)


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

_OPTIONS: list[click.Parameter] = [
    click.Option(["--episodes"], type=click.IntRange(min=1), default=100, show_default=True,
                 metavar="N", help="Episodes of each red agent against each blue one."),
    click.Option(["--seed"], type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
                 help="Seed of the first episode; each next has the next."),
    click.Option(["--red-agent", "red_agents"], type=click.Choice(RED_AGENTS), multiple=True,
                 default=RED_AGENTS, help="Only this one; may be given again.  "
                                          "[default: all three]"),
    click.Option(["--blue", "blues"], type=click.Choice((*BLUE_AGENTS, CHECKPOINT)), multiple=True,
                 default=BLUE_AGENTS, help="Only this one; may be given again.  "
                                           "[default: all but checkpoint]"),
    click.Option(["--checkpoint"], type=click.Path(path_type=Path),
                 help="Run folder or checkpoint file of --blue checkpoint; its policy samples."),
    click.Option(["--max-steps"], type=click.IntRange(min=1), default=100, show_default=True,
                 metavar="N", help="Length of an episode in steps."),
    click.Option(["--networks"], is_flag=True,
                 help="Also compare the simulated networks at every step; slower."),
    click.Option(["--stock-simulator"], is_flag=True,
                 help="Against csle-cyborg without the speed-ups; slower."),
    click.Option(["--quiet"], is_flag=True, help="No progress bar."),
]  # fmt: skip


@click.command(params=_OPTIONS)
def parity(**options: Any) -> None:
    """Play the same episodes in CybORG and in the compiled simulator, and compare every step.

    Observation, reward, Blue's and Red's action and success have to be the same. Prints the first
    difference of each pair of agents, with both networks, and exits with 1 if there is any.

    Example: parity --episodes 2000 --red-agent B_lineAgent --blue random
    """
    agents = {blue: _chosen_agent(blue, options["checkpoint"]) for blue in options["blues"]}
    if options["checkpoint"] is not None and CHECKPOINT not in agents:
        raise click.UsageError("--checkpoint goes with --blue checkpoint")
    start = time.perf_counter()
    simulator = "cyborg-stock" if options["stock_simulator"] else "cyborg"
    lock_step = LockStep(simulator, options["max_steps"], options["networks"])
    seeds = range(options["seed"], options["seed"] + options["episodes"])
    n_different = 0
    for red_agent, (blue, agent) in itertools.product(options["red_agents"], agents.items()):
        difference = _first_difference(lock_step, agent, red_agent, seeds, blue, options["quiet"])
        if difference is None:
            click.echo(f"{red_agent}, blue {blue}: {len(seeds)} episodes, no difference")
        else:
            n_different += 1
            click.echo(str(difference))
    click.echo(f"{n_different} pairs of agents differ ({time.perf_counter() - start:.1f} s)")
    if n_different:
        raise SystemExit(1)


def _first_difference(
    lock_step: LockStep,
    agent: ScriptedAgent,
    red_agent: str,
    seeds: Sequence[int],
    blue: str,
    quiet: bool,
) -> Difference | None:
    label = f"{red_agent}, blue {blue}"
    for seed in tqdm(seeds, label, unit="ep", disable=quiet, leave=False):
        difference = lock_step.play(agent, red_agent, seed, blue)
        if difference is not None:
            return difference
    return None


def _chosen_agent(blue: str, checkpoint: Path | None) -> ScriptedAgent:
    if blue != CHECKPOINT:
        return make_blue_agent(blue)
    if checkpoint is None:
        raise click.UsageError("--blue checkpoint: give a run folder or file by --checkpoint")
    from workflow_rl.checkpoint import CheckpointError
    from workflow_rl.evaluation import checkpoint_path, load_policy

    try:
        return PolicyAgent(load_policy(checkpoint_path(checkpoint), greedy=False))
    except CheckpointError as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    parity()
