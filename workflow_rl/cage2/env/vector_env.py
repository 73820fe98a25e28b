"""The Gymnasium vector environment of thousands of compiled networks in one process."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from workflow_rl.cage.attackers import AttackerError
from workflow_rl.cage2.agent.network_facts import BlueDecoys, untold_facts
from workflow_rl.cage2.compiled.batched_simulator import FACTS
from workflow_rl.cage2.compiled.cyborg_words import red_action_of
from workflow_rl.cage2.compiled.description import tables_of
from workflow_rl.cage2.compiled.red_simulator import batch_with
from workflow_rl.cage2.costs import evaluated_costs
from workflow_rl.cage2.env import checks
from workflow_rl.cage2.red.roster import REDS, checked_reds
from workflow_rl.cage2.red.user_reds import batches_of
from workflow_rl.cage2.scenario.loading import scenario_of
from workflow_rl.cage2.scenario2 import RED_AGENTS, SCENARIO2, SUCCESSES
from workflow_rl.environments.gymnasium_versions import AutoresetMode

if TYPE_CHECKING:
    from workflow_rl.cage2.env.cage2_env import Snapshot


class CompiledVectorEnv(checks.TellsItsLength, gymnasium.vector.VectorEnv):
    """N envs that step together. Each env plays the same episodes as `Cage2Env` with equal seeds.

    Observations are float32 `[N, 52]`, actions int64 `[N]`, rewards float64 `[N]`. Episodes never
    terminate. They are truncated after `max_steps` steps. A copy or a pickle goes on exactly as the
    original would.

    Autoreset says what happens after a truncation. `NEXT_STEP` (Gymnasium's default): the next step
    ignores the env's action, resets the env and returns reward 0. `SAME_STEP`: the step that
    truncates returns the first observation of the next episode. Then `infos["final_obs"]` is the
    last observation of the truncated episode, for bootstrapping. `DISABLED`: the caller resets all
    envs, or the truncated envs by `reset(options={"reset_mask": booleans [N]})`. Each env draws the
    seeds of its later episodes from its own generator, as `Cage2Env` does.

    Args:
        num_envs: N.
        red_agent: one of `roster.REDS`, or several with weights as in `Cage2Env`, for all envs. Or
            a sequence `[N]` of such values, one for each env.
        max_steps: length of an episode in steps, 100 by default.
        autoreset_mode: see above.
        describe_steps: whether `infos` holds the `info` of each `Cage2Env`, as a dict of arrays
            `[N]`, as in Gymnasium's vector envs. `suspicious_hosts` is `[N, 13]`. If False, `infos`
            holds at most `final_obs` and an empty `final_info`.
        simulator: "compiled". For another simulator, call `gymnasium.make_vec` with
            `vectorization_mode="sync"`.
        obs_dtype: "float32" or "uint8".
        render_mode: has to be None, because there are no pictures.
        max_episode_steps: Gymnasium's name for `max_steps`. If both are given, the smaller number
            is used.
        scenario: "scenario2", the path of a scenario file, or a `Scenario`. The sizes above are
            Scenario 2's.
        measures: whether `infos["costs"]` holds the costs of the last step by name, arrays `[N]`,
            as the `info` of each `Cage2Env` does. This needs `describe_steps`.

    Raises:
        ValueError: an argument is out of range.
        TypeError: `render_mode` is not None."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)
    # Gymnasium's vector envs have these attributes. Before version 1.0, they were set by an
    # `__init__` that this class does not call.
    closed = False
    viewer = None

    def __init__(
        self,
        num_envs: int = 1,
        red_agent: Any = "B_lineAgent",
        max_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        describe_steps: bool = True,
        simulator: str = "compiled",
        obs_dtype: str = "float32",
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        scenario: Any = SCENARIO2,
        measures: bool = False,
    ) -> None:
        if simulator != "compiled":
            raise ValueError(
                f"simulator={simulator!r}: this vector environment plays 'compiled' only; for "
                'another use gymnasium.make_vec(..., vectorization_mode="sync") or "async"'
            )
        checks.check_render_mode(render_mode)
        lengths = {"max_steps": max_steps, "max_episode_steps": max_episode_steps}
        if max_episode_steps == -1:  # Gymnasium's value for the env's own length.
            del lengths["max_episode_steps"]
        given = [checks.checked_count(name, n) for name, n in lengths.items() if n is not None]
        self.num_envs = num_envs = checks.checked_count("num_envs", num_envs)
        self.max_steps = min(given, default=checks.DEFAULT_STEPS)
        self.describe_steps = describe_steps
        self.simulator = simulator
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.scenario = scenario_of(scenario)
        self._n_actions = len(self.scenario.action_names)
        self.single_observation_space = checks.observation_space(obs_dtype, self.scenario.obs_size)
        self.single_action_space = gymnasium.spaces.Discrete(self._n_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.red_agents = _one_for_each(red_agent, num_envs)
        reds = [checked_reds(self.scenario, red_agent) for red_agent in self.red_agents]
        foreign = dict.fromkeys(attacker for red in reds for attacker in red.foreign)
        self._dtype = self.single_observation_space.dtype
        try:
            batches = batches_of(
                foreign,
                self.scenario,
                'in Python, gymnasium.make_vec(..., vectorization_mode="sync") does',
            )
        except AttackerError as error:
            raise ValueError(f"red_agent: {error}") from error
        self._simulator = batch_with(num_envs, self.max_steps, batches, tables_of(self.scenario))
        self._envs = np.arange(num_envs)
        self._episode_red_agents = np.zeros(num_envs, np.int64)
        self._steps_left = np.zeros(num_envs, np.int64)
        self._started = np.zeros(num_envs, np.bool_)
        self._decoys = BlueDecoys(untold_facts(self.scenario))
        self._decoys.begin(self._envs)
        self._blue_actions = np.full(num_envs, -1, np.int64)
        self.measures = measures
        self._cost_names = evaluated_costs([self.scenario]) if measures else ()
        # The costs of the last step. An env that has just begun an episode has no costs.
        self._costs = np.zeros((num_envs, len(self._cost_names)))
        self._has_costs = np.zeros(num_envs, np.bool_)
        # For each env, the generator of its later seeds, and the seed of this generator.
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._generator_seeds: list[int | None] = [None] * num_envs

    __copy__ = copy.deepcopy

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start episodes. If the seed is a number, the seed of env i is seed + i.

        `options={"reset_mask": booleans [N]}` resets only the envs of the mask.
        `options={"red_agent": name or N names}` chooses other red agents for these episodes.

        Raises:
            ValueError: a seed or an option is wrong. Then no env has been reset.
        """
        checks.check_options(options, ("red_agent", "reset_mask"))
        options = options or {}
        mask = options.get("reset_mask")
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_ or not chosen.any():
            raise ValueError(
                f"reset_mask: {self.num_envs} booleans are needed, at least one of them True"
            )
        red_agents = self.red_agents
        if "red_agent" in options:
            red_agents = _one_for_each(options["red_agent"], self.num_envs)
        for red_agent in red_agents:
            for attacker in checked_reds(self.scenario, red_agent).foreign:
                if attacker.name not in self._simulator.red_agents:
                    raise ValueError(
                        f"red_agent: {attacker.name} is not one that these envs were made with"
                    )
        self._start_episodes(chosen, self._checked_seeds(seed), red_agents)
        infos = self._describe(chosen) if self.describe_steps else {}
        return self._observed(), infos

    def step(
        self, actions: NDArray[np.int64] | Sequence[int]
    ) -> tuple[
        NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]:
        """Play one step. The class's text says what happens at the end of an episode.

        Raises:
            ValueError: there are not N actions, or an action is out of range. Then no env has
                stepped.
            SimulationError: see `BatchedSimulator.step`.
            gymnasium.error.ResetNeeded: an env was never reset, or it was truncated and the
                autoreset mode does not reset it.
        """
        actions = self._checked_actions(actions)
        mode = self.autoreset_mode
        playing = self._steps_left > 0
        all_play = bool(playing.all())
        if not all_play and (mode != AutoresetMode.NEXT_STEP or not self._started.all()):
            raise gymnasium.error.ResetNeeded("call reset() first: no episode is in progress")
        envs = self._envs if all_play else np.flatnonzero(playing)
        held_before = self._simulator.held(envs) if self.measures else None
        self._simulator.play(actions, playing)
        if held_before is not None:
            self._costs[envs] = self._simulator.costs(
                envs, actions[envs], held_before, len(self._cost_names)
            )
            self._has_costs[envs] = True
        self._decoys.after(envs, actions[envs])
        self._blue_actions[envs] = actions[envs]
        self._steps_left[playing] -= 1
        truncated = playing & (self._steps_left == 0)
        rewards = np.where(playing, self._simulator.rewards, 0.0)
        infos: dict[str, Any] = {}
        resets_now = ~playing
        if mode == AutoresetMode.SAME_STEP and truncated.any():
            final_info = self._describe(truncated) if self.describe_steps else {}
            last_obs = self._observed()
            final_obs = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(truncated).tolist():
                final_obs[i] = last_obs[i]
            infos = {
                "final_obs": final_obs,
                "_final_obs": truncated.copy(),
                "final_info": final_info,
                "_final_info": truncated.copy(),
            }
            resets_now = truncated
        if resets_now.any():
            self._start_episodes(resets_now, [None] * self.num_envs, self.red_agents)
        if self.describe_steps:
            infos |= self._describe(None)
        return self._observed(), rewards, np.zeros_like(truncated), truncated, infos

    def describe(self, env: int, truth: bool = False) -> dict[str, Any]:
        """Return the last step of one env in words: see `Cage2Env.describe`.

        Raises:
            gymnasium.error.ResetNeeded: there has been no step in this env's episode.
        """
        if self._blue_actions[env] < 0:
            raise gymnasium.error.ResetNeeded("call step() first: there has been no step")
        blue_success, _, _, red_success, caught = self._simulator.facts[env].tolist()
        seen = self.scenario.seen_of_step(
            self._blue_actions[env],
            blue_success,
            self._simulator.masks_of_hosts[caught],
            self._simulator.obs[env],
        )
        if not truth:
            return seen
        return seen | {
            "red_agent": self._simulator.red_agents[self._episode_red_agents[env]],
            "red_action": red_action_of(self._simulator.states[env], tables_of(self.scenario)),
            "red_success": SUCCESSES[red_success],
        }

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the masks of useful actions, `[N, 145]`: see `Cage2Env.action_masks`."""
        return self._decoys.useful_actions(self._envs)

    def go_on_from(self, snapshot: Snapshot, seeds: list[int]) -> None:
        """Go on in all envs from an episode's snapshot. seeds: `[N]`, for the envs' later draws."""
        self._simulator.load_repeated(snapshot.network, np.array(seeds))
        red_agent, steps_left, blue_action = snapshot.episode
        self._episode_red_agents[:] = red_agent
        self._steps_left[:] = steps_left
        self._blue_actions[:] = blue_action
        self._decoys.masks[:] = snapshot.decoys
        self._started[:] = True
        self._generator_seeds = [*seeds]

    def _checked_seeds(self, seed: Any) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, str) or not np.iterable(seed):
            return [*checks.checked_seeds(seed, self.num_envs)]
        seeds = [None if number is None else checks.checked_seed(number) for number in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} seeds for {self.num_envs} envs")
        return seeds

    def _checked_actions(self, actions: Any) -> NDArray[np.int64]:
        array = np.asarray(actions)
        if array.shape != (self.num_envs,):
            raise ValueError(
                f"actions: {self.num_envs} are needed, one for each env, not shape {array.shape}"
            )
        if array.dtype.kind not in "iu":
            raise ValueError(f"actions: whole numbers are needed, not {array.dtype}")
        if not 0 <= array.min() <= array.max() < self._n_actions:
            wrong = array.min() if array.min() < 0 else array.max()
            raise ValueError(f"action={wrong}: choose an index from 0 to {self._n_actions - 1}")
        return array.astype(np.int64)

    def _observed(self) -> NDArray[Any]:
        return self._simulator.obs.astype(self._dtype)

    def _start_episodes(
        self, chosen: NDArray[np.bool_], seeds: Sequence[int | None], red_agents: Sequence[Any]
    ) -> None:
        """Start episodes. A seed also replaces the env's generator of seeds. If the seed is None,
        this generator draws a seed."""
        episode_seeds = np.zeros(self.num_envs, np.int64)
        for i in np.flatnonzero(chosen).tolist():
            seed = seeds[i]
            if seed is not None:
                self._generators[i] = None
                self._generator_seeds[i] = seed
            else:
                generator = self._generators[i]
                if generator is None:
                    generator = seeding.np_random(self._generator_seeds[i])[0]
                    self._generators[i] = generator
                seed = int(generator.integers(2**31))
            episode_seeds[i] = seed
            drawn = REDS.checked(red_agents[i]).drawn(seed)
            self._episode_red_agents[i] = self._simulator.red_agents.index(drawn.name)
        self._simulator.reset(episode_seeds, self._episode_red_agents, chosen)
        self._steps_left[chosen] = self.max_steps
        self._started |= chosen
        self._decoys.begin(np.flatnonzero(chosen))
        self._blue_actions[chosen] = -1
        self._has_costs[chosen] = False

    def _describe(self, chosen: NDArray[np.bool_] | None) -> dict[str, Any]:
        """Return the infos of `Cage2Env` as arrays and masks, as Gymnasium's vector envs do. Envs
        that are not chosen have zeros. chosen: None means all envs."""
        *numbers, caught_host = np.array(self._simulator.facts.T, np.int64)
        reds = self._episode_red_agents
        values = {
            "red_agent": np.where(reds < len(RED_AGENTS), reds, -1),
            "blue_action": self._blue_actions.copy(),
            **dict(zip(FACTS[:-1], numbers, strict=True)),
            "suspicious_hosts": self._simulator.masks_of_hosts[caught_host],
        }
        masks = np.ones((len(values), self.num_envs), np.bool_)
        if chosen is not None:
            masks[:] = chosen
            for value in values.values():
                value[~chosen] = 0
        infos = values | {f"_{name}": mask for name, mask in zip(values, masks, strict=True)}
        has_costs = self._has_costs if chosen is None else self._has_costs & chosen
        if has_costs.any():
            costs = np.where(has_costs[:, None], self._costs, 0)
            infos["costs"] = dict(zip(self._cost_names, costs.T.copy(), strict=True))
            infos["costs"] |= {f"_{name}": has_costs.copy() for name in self._cost_names}
            infos["_costs"] = has_costs.copy()
        return infos


def _one_for_each(red_agent: Any, num_envs: int) -> list[Any]:
    is_list = isinstance(red_agent, Sequence) and not isinstance(red_agent, str)
    names = list(red_agent) if is_list else [red_agent]
    # A mapping is read only once, here, because reading a mapping takes as long as a reset.
    names = [REDS.checked(name) if isinstance(name, Mapping) else name for name in names]
    if not is_list:
        names *= num_envs
    if len(names) != num_envs:
        raise ValueError(f"red_agent names {len(names)} agents, but num_envs={num_envs}")
    return names
