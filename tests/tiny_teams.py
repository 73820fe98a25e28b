"""Tiny environments with PettingZoo's ParallelEnv interface, without PettingZoo."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from workflow_rl.environments import BatchedTeamEnv, TeamStep


class ShiftEnv:
    """Two agents of different spaces match what they see. `late` comes after two steps, is busy in
    every third step, and leaves before the end; action masks rule out its last action."""

    possible_agents = ("early", "late")

    def __init__(self, length: int = 8) -> None:
        self.length = length
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        n = 2 if agent == "early" else 3
        return Box(0, 1, (n,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2 if agent == "early" else 4)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._random = np.random.default_rng(seed)
        self._steps = 0
        return self._obs(), self._infos()

    def step(self, actions: dict[str, int]) -> Any:
        assert set(actions) == {one for one in self.agents if not self._busy(one)}
        rewards = {one: float(actions.get(one, -1) == self._shown[one]) for one in self.agents}
        self._steps += 1
        left = self.agents
        obs, infos = self._obs(), self._infos()
        ended = self._steps == self.length
        terminations = {one: one not in self.agents for one in left}
        if ended:
            self.agents = []
        return obs, rewards, terminations, dict.fromkeys(left, ended), infos

    def _busy(self, agent: str) -> bool:
        return agent == "late" and self._steps % 3 == 0

    def _obs(self) -> dict[str, Any]:
        here = 2 <= self._steps < self.length - 1
        self.agents = ["early", "late"] if here else ["early"]
        self._shown = {
            "early": int(self._random.integers(2)),
            "late": int(self._random.integers(3)),
        }
        sizes = {"early": 2, "late": 3}
        return {one: np.eye(sizes[one], dtype=np.float32)[self._shown[one]] for one in self.agents}

    def _infos(self) -> dict[str, Any]:
        mask = np.array([1, 1, 1, 0], np.int8)
        return {
            one: {"busy_steps": int(self._busy(one))}
            | ({"action_mask": mask} if one == "late" else {})
            for one in self.agents
        } | {"late": {"busy_steps": int(self._busy("late")), "action_mask": mask}}


class StatedShift(ShiftEnv):
    state_space = Box(0, 8, (1,), np.int64)

    def state(self) -> Any:
        return np.array([self.length - self._steps])


class DeadlyShift(ShiftEnv):
    """Kills its worker in the middle of an episode of the run beside the marker, unless another one
    has done so before."""

    marker: Path

    def step(self, actions: dict[str, int]) -> Any:
        if self.marker.with_name("run").exists() and self._steps == 4:
            with suppress(FileExistsError):
                self.marker.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


def deadly(folder: Path) -> type[ShiftEnv]:
    """Return the class of environments of which one kills its worker."""
    return type("Deadly", (DeadlyShift,), {"marker": folder / "killed"})


class Doors:
    """Each agent sees which of its doors is open, and whether there is an alarm. It gets 1 if it
    closes this door, or waits during an alarm. The doors are entities; some do not exist."""

    possible_agents = ("north", "south", "chief")
    doors: ClassVar = {"north": 3, "south": 3, "chief": 4}

    def __init__(self) -> None:
        self.entities = {agent: tables_of(n) for agent, n in self.doors.items()}
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        return Box(0, 1, (2 * self.doors[agent] + 1,), np.float32)

    def action_space(self, agent: str) -> Discrete:
        return Discrete(self.doors[agent] + 1)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._random = np.random.default_rng(seed)
        self.agents, self._steps = list(self.possible_agents), 0
        return self._obs(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        agents = self.agents
        rewards = {agent: float(actions[agent] == self._right[agent]) for agent in agents}
        self._steps += 1
        obs, ended = self._obs(), self._steps == 10
        if ended:
            self.agents = []
        ends = dict.fromkeys(agents, False), dict.fromkeys(agents, ended)
        return obs, rewards, *ends, {agent: {} for agent in agents}

    def _obs(self) -> dict[str, Any]:
        shown, self._right = {}, {}
        for agent in self.agents:
            n = self.doors[agent]
            exists = self._random.permutation(n) < n - 1
            door = int(self._random.choice(np.flatnonzero(exists)))
            alarm = int(self._random.random() < 0.3)
            self._right[agent] = n if alarm else door
            shown[agent] = np.array([*exists, *np.eye(n)[door], alarm], np.float32)
        return shown


def tables_of(n: int) -> dict[str, Any]:
    """Return the tables of an agent with n doors."""
    return {
        "features": [[n + door] for door in range(n)],
        "present": list(range(n)),
        "actions": [*((0, door) for door in range(n)), (0, -1)],
    }


class Kinds:
    """Four agents with actions of four kinds. Each sees numbers and should repeat them."""

    action_spaces: ClassVar = {
        "mover": Box(-2, 2, (2,), np.float32),
        "mixer": Dict(turn=Discrete(2, start=1), by=Box(-1, 1, (1,), np.float64)),
        "chooser": MultiDiscrete([2, 3]),
        "guard": Discrete(3),
    }
    sizes: ClassVar = {"mover": 2, "mixer": 2, "chooser": 2, "guard": 1}
    possible_agents = tuple(action_spaces)

    def observation_space(self, agent: str) -> Box:
        return Box(0, 1, (self.sizes[agent],), np.float32)

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._random = np.random.default_rng(seed)
        self.agents, self._steps = list(self.possible_agents), 0
        return self._obs(), self._infos()

    def step(self, actions: dict[str, Any]) -> Any:
        agents = self.agents
        for agent, action in actions.items():
            assert self.action_spaces[agent].contains(action), action
        mixed = actions["mixer"]
        done = {**actions, "mixer": [mixed["turn"] - 1, *mixed["by"]]}
        assert done["guard"] != 2
        rewards = {
            one: -float(np.abs(done[one] - self._shown[one]).sum()) / self.sizes[one]
            for one in agents
        }
        self._steps += 1
        obs, ended = self._obs(), self._steps == 5
        self.agents = [] if ended else agents
        ends = dict.fromkeys(agents, False), dict.fromkeys(agents, ended)
        return obs, rewards, *ends, self._infos()

    def _obs(self) -> dict[str, Any]:
        draw = self._random.integers
        self._shown = {one: draw(2, size=n).astype(np.float32) for one, n in self.sizes.items()}
        return dict(self._shown)

    def _infos(self) -> dict[str, Any]:
        return {"guard": {"action_mask": np.array([1, 1, 0], np.int8)}}


class Shifts(BatchedTeamEnv):
    """ShiftEnv, many at once."""

    def __init__(self, n_envs: int, length: int = 8) -> None:
        one = ShiftEnv(length)
        self.observation_spaces = {
            name: one.observation_space(name) for name in ShiftEnv.possible_agents
        }
        self.action_spaces = {name: one.action_space(name) for name in ShiftEnv.possible_agents}
        self.length = length
        self._steps = np.zeros(n_envs, np.int64)
        self._shown = np.zeros((n_envs, length + 1, 2), np.int64)

    def reset(self, indices: Any, seeds: Any) -> Any:
        for env, seed in zip(indices, seeds, strict=True):
            random = np.random.default_rng(seed)
            for t in range(self.length + 1):
                self._shown[env, t] = random.integers(2), random.integers(3)
        self._steps[indices] = 0
        return self._seen(indices), self._status(indices)

    def step(self, indices: Any, actions: Any) -> TeamStep:
        acts = self._status(indices) == self.ACTS
        assert not actions[~acts].any()
        reward = (acts & (actions == self._shown[indices, self._steps[indices]])).astype(np.float64)
        self._steps[indices] += 1
        ended = self._steps[indices] == self.length
        seen, status = self._seen(indices), self._status(indices)
        return TeamStep(seen, status, reward, np.zeros_like(ended), ended)

    def action_masks(self, indices: Any) -> Any:
        return np.tile([1, 1, 1, 1, 1, 0], (len(indices), 1))

    def _seen(self, indices: Any) -> Any:
        early, late = self._shown[indices, self._steps[indices]].T
        return np.hstack([np.eye(2)[early], np.eye(3)[late]]).astype(np.float32)

    def _status(self, indices: Any) -> Any:
        steps = self._steps[indices]
        late = np.where(steps % 3 == 0, self.BUSY, self.ACTS)
        late[(steps < 2) | (steps >= self.length - 1)] = self.ABSENT
        early = np.where(steps == self.length, self.CUT_OFF, self.ACTS)
        return np.stack([early, late], axis=1)
