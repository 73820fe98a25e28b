"""Model-based policy optimisation (Janner et al. 2019, "When to Trust Your Model", algorithm 2)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workflow_rl.agents.algorithm import Metrics, Series
from workflow_rl.agents.mbpo.config import MBPOConfig, MBPOMetrics
from workflow_rl.agents.mbpo.dynamics import Dynamics, Fit
from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.numpy_policy import NumpyPolicy
from workflow_rl.agents.policy_from_checkpoint import saved_number
from workflow_rl.agents.replay import Transitions, joined_transitions
from workflow_rl.agents.sac.agent import SACAgent
from workflow_rl.agents.trajectory import Trajectory

NO_FIT = Fit(math.nan, math.nan, math.nan, math.nan)


class MBPOAgent(SACAgent):
    """A soft actor-critic that also learns from the steps of a learned model.

    bits: whether observations are 0 and 1. The model of bits differs from the model of numbers.
    imagined: the imagined steps of each of the last updates. imagined_steps: the number of imagined
    steps in the whole run. modelled_steps: the number of real steps before the model's last fit, 0
    before the first fit.
    """

    config: MBPOConfig

    def __init__(
        self, config: MBPOConfig, obs_dim: int, distribution: Distribution, bits: bool, seed: int
    ) -> None:
        super().__init__(config, obs_dim, distribution, seed)
        self.imagined: list[Transitions] = []
        self.imagined_steps = 0
        self.modelled_steps = 0
        self._fit = NO_FIT
        self.dynamics: Dynamics | None = None
        if config.imagined_share:
            self.dynamics = Dynamics(config, obs_dim, distribution, bits, seed)

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        self._fit = NO_FIT
        metrics = super().update(trajectories, progress)._asdict()
        return MBPOMetrics(
            **metrics,
            imagined_steps=self.imagined_steps,
            rollout_length=self.config.rollout_length_at(progress),
            **{f"model_{name}": value for name, value in self._fit._asdict().items()},
        )

    def prepare(self, n_real: int, progress: float, random: np.random.Generator) -> None:
        """Fit the model if a fit is due. Then imagine steps of the present policy that start from
        real steps."""
        if self.dynamics is None:
            return
        config = self.config
        self.on_modelling(True)
        n_added = self.replay.n_added
        if not self.modelled_steps or n_added - self.modelled_steps >= config.model_every:
            self._fit = self.dynamics.fit(self.replay.steps, random)
            self.modelled_steps = n_added
        newest = self.replay.newest(config.start_steps)
        n_rollouts = math.ceil(config.imagined_rollouts * n_real)
        obs = self.replay.steps.obs[random.choice(newest, n_rollouts)]
        policy = NumpyPolicy(self.policy_parameters())
        parts = []
        for _ in range(config.rollout_length_at(progress)):
            action = policy.act_batch(obs, [random] * len(obs))[0]
            steps, ended = self.dynamics.imagine(obs, action, random)
            parts.append(steps)
            self.imagined_steps += steps.n_steps
            obs = steps.next_obs[~ended]
            if not len(obs):
                break
        self.imagined = [*self.imagined, joined_transitions(parts)][-config.imagined_updates :]
        self._imagined = joined_transitions(self.imagined)
        self.on_modelling(False)

    def drawn(self, random: np.random.Generator) -> Transitions:
        """Return real and imagined steps together, at random."""
        if self.dynamics is None:
            return super().drawn(random)
        config, real, imagined = self.config, self.replay.steps, self._imagined
        n_imagined = round(config.imagined_share * config.batch_size)
        batch = real.at(random.integers(0, real.n_steps, config.batch_size - n_imagined))
        more = imagined.at(random.integers(0, imagined.n_steps, n_imagined))
        return joined_transitions([batch, more])

    def state_dict(self) -> dict[str, Any]:
        counts = {"imagined_steps": self.imagined_steps, "modelled_steps": self.modelled_steps}
        state = {**super().state_dict(), **counts}
        return state if self.dynamics is None else {**state, "dynamics": self.dynamics.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.imagined_steps = saved_number(state, "imagined_steps")
        self.modelled_steps = saved_number(state, "modelled_steps")
        if self.dynamics is not None:
            self.dynamics.load_state_dict(state["dynamics"])

    def memory(self) -> dict[str, Series]:
        pieces: list[tuple[int, int]] = []
        end = self.imagined_steps
        for steps in reversed(self.imagined):
            pieces.insert(0, (end - steps.n_steps, end))
            end -= steps.n_steps
        return {**super().memory(), "imagined": Series(pieces, self._numbered, None, self._load)}

    def _numbered(self, first: int, end: int) -> Transitions:
        """Return imagined steps from `first` to before `end`, all of one update."""
        start = self.imagined_steps - sum(steps.n_steps for steps in self.imagined)
        for steps in self.imagined:
            if first < start + steps.n_steps:
                return steps.at(slice(first - start, end - start))
            start += steps.n_steps
        raise AssertionError(f"step {first} is not remembered")

    def _load(self, end: int, parts: Iterable[Transitions]) -> None:
        """Remember imagined steps. Each part has the steps of one update."""
        if end not in (0, self.imagined_steps):
            raise ValueError("these are not all of its agent's steps")
        self.imagined = [
            Transitions._make(np.array(column) for column in self.own(steps, "f"))
            for steps in parts
        ]
