"""Thousands of compiled environments in one process, as a Gymnasium vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from workflow_rl.cage2.compiled.simulator import Simulator, red_actions_of
from workflow_rl.cage2.compiled.state import NONE
from workflow_rl.cage2.compiled.tables import N_HOSTS, SUCCESSES
from workflow_rl.cage2.cyborg_env import OBS_SIZE
from workflow_rl.cage2.scenario2 import ACTION_NAMES, RED_AGENTS


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    """An array of the values themselves, be they tuples or arrays."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


RED_AGENT_NAMES = _objects(RED_AGENTS)
BLUE_ACTIONS = _objects(ACTION_NAMES)
SUCCESS_NAMES = _objects(SUCCESSES)
# By index of the host in which a process was caught, or NONE.
SUSPICIOUS_HOSTS = _objects([(host,) if host < N_HOSTS else () for host in range(NONE + 1)])
NOBODY_SUSPICIOUS = SUSPICIOUS_HOSTS[[NONE]]


class CompiledVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """N envs that play in step, each the episodes that `CyborgEnv` plays with the same seeds.

    Observations are uint8 `[N, 52]`, actions int64 `[N]`, rewards float64 `[N]`. Episodes never
    terminate: they are truncated after `max_steps` steps.

    Autoreset: with `NEXT_STEP` (Gymnasium's default) the step after a truncation ignores the
    action, resets the env and returns reward 0; with `SAME_STEP` the step that truncates returns
    the first observation of the next episode, and `infos["final_obs"]` the last of this one, of
    which to bootstrap; with `DISABLED` truncated envs have to be reset, all or by
    `reset(options={"reset_mask": booleans [N]})`. Seeds of further episodes are drawn from each
    env's own generator, as `CyborgEnv` does.

    Args:
        num_envs: N.
        red_agent: one of `RED_AGENTS` for all envs, or one for each.
        max_steps: length of an episode in steps.
        autoreset_mode: see above.
        describe_steps: give in `infos` what `CyborgEnv` gives, arranged as Gymnasium's vector envs
            do: a dict of arrays `[N]`. It takes twice as long as the steps themselves; without,
            `infos` holds at most `final_obs` and an empty `final_info`.
        simulator: "compiled". The same arguments as `CyborgEnv` takes will do, but another
            simulator has to be asked of `gymnasium.make_vec` with `vectorization_mode="sync"`.

    Raises:
        ValueError: an argument is out of range.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        num_envs: int = 1,
        red_agent: str | Sequence[str] = "B_lineAgent",
        max_steps: int = 100,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        describe_steps: bool = True,
        simulator: str = "compiled",
    ) -> None:
        if simulator != "compiled":
            raise ValueError(
                f"simulator={simulator!r}: this vector environment plays 'compiled' only; for "
                'another use gymnasium.make_vec(..., vectorization_mode="sync") or "async"'
            )
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs}: at least 1 is needed")
        if max_steps < 1:
            raise ValueError(f"max_steps={max_steps}: an episode has at least 1 step")
        self.num_envs = num_envs
        self.max_steps = max_steps
        self.describe_steps = describe_steps
        self.metadata = {**self.metadata, "autoreset_mode": AutoresetMode(autoreset_mode)}
        self.single_observation_space = gymnasium.spaces.Box(0, 1, (OBS_SIZE,), np.uint8)
        self.single_action_space = gymnasium.spaces.Discrete(len(ACTION_NAMES))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._simulator = Simulator(num_envs, max_steps)
        self._red_agents = _red_agent_indices(red_agent, num_envs)
        self._episode_red_agents = self._red_agents.copy()
        self._steps_left = np.zeros(num_envs, np.int64)
        self._started = np.zeros(num_envs, np.bool_)
        # What further seeds of each env are drawn from, and the seed it was or will be made with.
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._generator_seeds: list[int | None] = [None] * num_envs

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start episodes: with a number as seed, env i's is seed + i.

        `options={"reset_mask": booleans [N]}` resets only these; `options={"red_agent": name or N
        names}` chooses other red agents for these episodes.
        """
        options = options or {}
        mask = options.get("reset_mask")
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_ or not chosen.any():
            raise ValueError(f"reset_mask: {self.num_envs} booleans are needed, one of them True")
        red_agents = self._red_agents
        if "red_agent" in options:
            red_agents = _red_agent_indices(options["red_agent"], self.num_envs)
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"{len(seeds)} seeds for {self.num_envs} envs")
        self._start_episodes(chosen, seeds, red_agents)
        infos = self._describe_start(chosen) if self.describe_steps else {}
        return self._simulator.obs.copy(), infos

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[
        NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]:
        """Play one step; see the class for what happens at the end of an episode.

        Raises:
            ValueError: an action is out of range.
            RuntimeError: see `Simulator.step`.
            gymnasium.error.ResetNeeded: an env was never reset, or is truncated and not reset by
                itself.
        """
        mode = self.metadata["autoreset_mode"]
        playing = self._steps_left > 0
        waiting = ~playing
        if (~self._started).any() or (waiting.any() and mode != AutoresetMode.NEXT_STEP):
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        simulator = self._simulator
        simulator.step(actions, playing)
        rewards = np.where(playing, simulator.rewards, 0.0)
        self._steps_left -= playing
        truncated = playing & (self._steps_left == 0)
        infos: dict[str, Any] = {}
        ending = truncated if mode == AutoresetMode.SAME_STEP else np.zeros_like(truncated)
        if self.describe_steps:
            infos = self._describe_step(np.asarray(actions), playing & ~ending)
        if ending.any():
            infos |= _named("final_obs", _objects(list(simulator.obs.copy())), ending)
            final_info = (
                self._describe_step(np.asarray(actions), ending) if self.describe_steps else {}
            )
            infos |= {"final_info": final_info, "_final_info": ending.copy()}
        beginning = waiting | ending
        if beginning.any():
            self._start_episodes(beginning, [None] * self.num_envs, self._red_agents)
            if self.describe_steps:
                _merge(infos, self._describe_start(beginning))
        return simulator.obs.copy(), rewards, np.zeros_like(truncated), truncated, infos

    def _start_episodes(
        self,
        chosen: NDArray[np.bool_],
        seeds: Sequence[int | None],
        red_agents: NDArray[np.int64],
    ) -> None:
        """With a seed an env also gets a new generator, and without, a seed from its generator."""
        episode_seeds = np.zeros(self.num_envs, np.int64)
        for i in np.flatnonzero(chosen).tolist():
            seed = seeds[i]
            if seed is not None:
                self._generators[i], self._generator_seeds[i] = None, seed
            else:
                generator = self._generators[i]
                if generator is None:
                    generator = seeding.np_random(self._generator_seeds[i])[0]
                    self._generators[i] = generator
                seed = int(generator.integers(2**31))
            episode_seeds[i] = seed
        self._simulator.reset(episode_seeds, red_agents, chosen)
        self._episode_red_agents[chosen] = red_agents[chosen]
        self._steps_left[chosen] = self.max_steps
        self._started |= chosen

    def _describe_start(self, chosen: NDArray[np.bool_]) -> dict[str, Any]:
        return _named("red_agent", RED_AGENT_NAMES[self._episode_red_agents], chosen) | _named(
            "suspicious_hosts", NOBODY_SUSPICIOUS.repeat(self.num_envs), chosen
        )

    def _describe_step(
        self, actions: NDArray[np.int64], chosen: NDArray[np.bool_]
    ) -> dict[str, Any]:
        """What `CyborgEnv` says of the last step, as Gymnasium's vector envs arrange it."""
        states = self._simulator.states
        return {
            **_named("red_agent", RED_AGENT_NAMES[self._episode_red_agents], chosen),
            **_named("blue_action", BLUE_ACTIONS[actions], chosen),
            **_named("blue_success", SUCCESS_NAMES[states["blue_success"]], chosen),
            **_named("red_action", np.array(red_actions_of(states), object), chosen),
            **_named("red_success", SUCCESS_NAMES[states["red_success"]], chosen),
            **_named("suspicious_hosts", SUSPICIOUS_HOSTS[states["caught_host"]], chosen),
        }


def _red_agent_indices(red_agent: str | Sequence[str], num_envs: int) -> NDArray[np.int64]:
    names = [red_agent] * num_envs if isinstance(red_agent, str) else list(red_agent)
    if len(names) != num_envs:
        raise ValueError(f"red_agent names {len(names)} agents, but num_envs={num_envs}")
    for name in names:
        if name not in RED_AGENTS:
            raise ValueError(f"red_agent={name!r}: choose one of {', '.join(RED_AGENTS)}")
    return np.array([RED_AGENTS.index(name) for name in names])


def _named(name: str, values: NDArray[Any], chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """One entry of `infos` and its mask, if it is about any env; None for those not chosen."""
    if not chosen.any():
        return {}
    entries = np.full(len(chosen), None, object)
    entries[chosen] = values[chosen]
    return {name: entries, f"_{name}": chosen.copy()}


def _merge(infos: dict[str, Any], more: dict[str, Any]) -> None:
    """Add entries about other envs."""
    for name, values in more.items():
        if name.startswith("_"):
            infos[name] = infos.get(name, False) | values
        else:
            mask = more[f"_{name}"]
            infos[name] = np.where(mask, values, infos[name]) if name in infos else values
