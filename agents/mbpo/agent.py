"""Model-based policy optimisation (Janner et al. 2019, "When to Trust Your Model", algorithm 2)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from agents.algorithm import DivergedError
from agents.mbpo.config import MBPOConfig
from agents.mbpo.dynamics import Dynamics, Fit
from agents.mbpo.metrics import MBPOMetrics
from agents.policies.distributions import Distribution, SquashedGaussian, to_plain
from agents.policies.networks import NETWORKS
from agents.policies.numpy_policy import NumpyPolicy, PolicyParameters
from agents.ppo.agent import saved_distribution, saved_number
from agents.replay import ReplayBuffer, Transitions, joined, transitions_of
from agents.sac.config import SACConfig
from agents.sac.soft_actor_critic import SoftActorCritic, steps_of
from agents.trajectory import Trajectory

VALUE_EVERY = 4
"""Gradient steps, of which one is the network's own critic's too."""
NO_FIT = Fit(math.nan, math.nan, math.nan, math.nan)


def target_entropy(distribution: Distribution, asked: float | None) -> float:
    """In nats: of one choice of several, `asked` is a share of a uniform policy's; of bounded
    numbers, nats for each, as numbers from -1 to 1.

    None: 0.4, and -1 (Haarnoja et al. 2018, appendix D).
    """
    if isinstance(distribution, SquashedGaussian):
        return len(distribution.low) * (-1.0 if asked is None else asked)
    return math.log(distribution.n_outputs) * (0.4 if asked is None else asked)


class MBPOAgent:
    """The learner: a soft actor-critic, the real steps it remembers, and a model of them.

    It takes the place of a PPOAgent, with the same networks. Everything random follows from `seed`
    and the number of updates: two agents given the same trajectories end with the same weights.

    bits: whether observations are integers from 0 to 1, which is how they are modelled.
    on_modelling: is told when an update turns to its model (True), and from it to acting (False).

    Raises ValueError for a distribution that is not of `for_soft_actor_critic`.
    """

    def __init__(
        self,
        config: SACConfig,
        mbpo: MBPOConfig,
        obs_dim: int,
        distribution: Distribution,
        bits: bool,
        seed: int,
    ) -> None:
        self.config = config
        self.mbpo = mbpo
        self.seed = seed
        self.policy_version = 0
        self.distribution = distribution
        self.network = NETWORKS[config.network](
            obs_dim, distribution, config.hidden_sizes, config.activation, seed
        )
        self.learner = SoftActorCritic(
            self.network,
            config.hidden_sizes,
            config.discount,
            config.learning_rate,
            mbpo.target_rate,
            target_entropy(distribution, mbpo.target_entropy),
            seed,
        )
        self.replay = ReplayBuffer(mbpo.replay_capacity)
        self.imagined: list[Transitions] = []
        self.imagined_steps = 0
        self._gradient_steps_left = 0.0
        self._obs_dim = obs_dim
        self._bits = bits
        self.dynamics = self._make_model(bits)
        self.on_modelling: Callable[[bool], None] = lambda begins: None

    def policy_parameters(self) -> PolicyParameters:
        """A NumPy copy of the actor at the present `policy_version`."""
        return self.network.policy_parameters()

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> MBPOMetrics:
        """Learn from a rollout; afterwards `policy_version` is one higher.

        progress: share of the run done before it, from 0 to 1. Raises DivergedError.
        """
        mbpo = self.mbpo
        random = np.random.default_rng([self.seed, self.policy_version])
        steps = transitions_of(trajectories)
        self.replay.add(steps)
        fit, length, learned = NO_FIT, mbpo.rollout_length_at(progress), []
        if len(self.replay) >= mbpo.warm_up_steps:
            with np.errstate(all="ignore"):  # What diverges is found by its losses.
                if self.dynamics is not None:
                    self.on_modelling(True)
                    fit = self.dynamics.fit(self.replay.steps, random)
                    self._imagine(self.dynamics, steps.n_steps, length, random)
                    self.on_modelling(False)
                learned = self._learn(self._gradient_steps_for(steps.n_steps), random)
        lag = np.array([self.policy_version - one.policy_version for one in trajectories])
        mean_lag = float(np.average(lag, weights=[one.length for one in trajectories]))
        self.policy_version += 1
        means = np.mean(learned, axis=0).tolist() if learned else [math.nan] * 4
        lags = (int(lag.min()), mean_lag, int(lag.max()))
        counts = (len(learned), self.replay.n_added, self.imagined_steps, length)
        return MBPOMetrics._make([*means, self.config.learning_rate, *lags, 0.0, *counts, *fit])

    def _gradient_steps_for(self, n_real: int) -> int:
        """A whole number. The fraction that is left, up to half a step on either side, counts in
        the next update: else short updates would never learn."""
        asked = self._gradient_steps_left + self.mbpo.gradient_steps * n_real
        self._gradient_steps_left = asked - round(asked)
        return round(asked)

    def _make_model(self, bits: bool) -> Dynamics | None:
        """None where nothing is imagined."""
        if not self.mbpo.imagined_share:
            return None
        return Dynamics(self.mbpo, self._obs_dim, self.distribution, bits, self.seed)

    def _imagine(
        self, model: Dynamics, n_real: int, length: int, random: np.random.Generator
    ) -> None:
        """Go on from real steps for `length` steps, with the present policy."""
        mbpo = self.mbpo
        newest = self.replay.newest(mbpo.start_steps)
        n_rollouts = math.ceil(mbpo.imagined_rollouts * n_real)
        obs = self.replay.steps.obs[random.choice(newest, n_rollouts)]
        policy = NumpyPolicy(self.policy_parameters())
        parts = []
        for _ in range(length):
            action = policy.act_batch(obs, [random] * len(obs))[0]
            steps = model.imagine(obs, action, random)
            parts.append(steps)
            self.imagined_steps += steps.n_steps
            obs = steps.next_obs[~steps.terminated]
            if not len(obs):
                break
        self.imagined = [*self.imagined, joined(parts)][-mbpo.imagined_updates :]

    def _learn(self, n_gradient_steps: int, random: np.random.Generator) -> list[list[float]]:
        """Gradient steps on real and imagined steps together. Returns their metrics."""
        mbpo, real = self.mbpo, self.replay.steps
        imagined = joined(self.imagined) if self.imagined else None
        n_imagined = round(mbpo.imagined_share * mbpo.batch_size) if imagined else 0
        of_value = 0.0
        learned: list[list[float]] = []
        for _ in range(n_gradient_steps):
            batch = real.at(random.integers(0, real.n_steps, mbpo.batch_size - n_imagined))
            if imagined is not None and n_imagined:
                more = imagined.at(random.integers(0, imagined.n_steps, n_imagined))
                batch = joined([batch, more])
            steps = steps_of(batch, self.config.reward_scale)
            metrics = self.learner.learn(steps, random)
            if len(learned) % VALUE_EVERY == 0:
                of_value = self.learner.learn_value(steps, random)
            learned.append(list(metrics))
            if not all(map(math.isfinite, (*metrics, of_value))):
                losses = (metrics.policy_loss, metrics.value_loss, of_value)
                raise DivergedError(f"the losses are {', '.join(map(str, losses))}")
        self.learner.write()
        return learned

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything the next update depends on, but for the steps that it remembers
        (`replay` and `imagined`), as tensors and plain values."""
        state = {
            "network": self.network.state_dict(),
            "learner": self.learner.state_dict(),
            "imagined_steps": self.imagined_steps,
            "gradient_steps_left": self._gradient_steps_left,
            "policy_version": self.policy_version,
            "seed": self.seed,
            "distribution": to_plain(self.distribution),
        }
        if self.dynamics is not None:
            state["dynamics"] = self.dynamics.state_dict()
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`, with the steps that `remember` is given. Raises
        RuntimeError, KeyError, TypeError, AttributeError, OverflowError or ValueError if it does
        not fit."""
        self.load_policy(state)
        self.learner.load_state_dict(state["learner"])
        if "replay" in state:  # Earlier versions kept the steps there.
            self._remember_saved(state["replay"], state["imagined"])
        self.imagined_steps = saved_number(state, "imagined_steps")
        # Earlier versions counted no fractions.
        self._gradient_steps_left = float(state.get("gradient_steps_left", 0.0))
        if not abs(self._gradient_steps_left) <= 0.5:
            raise ValueError(f"{self._gradient_steps_left} is no fraction of a gradient step")
        # Earlier versions chose `bits` by the first steps, and made no model before the warm-up.
        model = state.get("dynamics", {"bits": self._bits})
        self.dynamics = self._make_model(bool(model["bits"]))
        if self.dynamics is not None and "dynamics" in state:
            self.dynamics.load_state_dict(model)
        self.policy_version = saved_number(state, "policy_version")
        self.seed = saved_number(state, "seed")

    def remember(
        self, n_real: int, real: Iterable[Transitions], imagined: Sequence[Transitions]
    ) -> None:
        """Take the steps of another agent like this one instead of its own.

        n_real: how many real steps there have been. real: the last of them, oldest first.
        imagined: those of each of the last updates. Raises ValueError if they do not fit.
        """
        self.replay.load(n_real, map(self._own, real))
        self.imagined = [self._own(steps) for steps in imagined]

    def _own(self, steps: Transitions) -> Transitions:
        """The same. Raises ValueError for steps of another environment."""
        low, n_choices = getattr(self.distribution, "low", None), self.distribution.n_outputs
        action = () if low is None else (len(low),)
        shapes = [(steps.n_steps, *one) for one in ((self._obs_dim,), action, (), (self._obs_dim,))]
        kinds = ("biuf", "iu" if low is None else "f", "f", "biuf", "b")
        if (
            [column.shape for column in steps] != [*shapes, (steps.n_steps,)]
            or any(c.dtype.kind not in kind for c, kind in zip(steps, kinds, strict=True))
            or (low is None and not ((steps.action >= 0) & (steps.action < n_choices)).all())
        ):
            raise ValueError("its steps are of another environment")
        return steps

    def _remember_saved(
        self, replay: Mapping[str, Any], imagined: Sequence[Mapping[str, Any]]
    ) -> None:
        """What earlier versions kept in `state_dict`: tensors, the real ones as they lay in the
        replay buffer."""

        def steps_of_tensors(columns: Mapping[str, Any]) -> Transitions:
            steps = Transitions._make(columns[name].numpy() for name in Transitions._fields)
            return self._own(steps)

        n_real, capacity, real = int(replay["n_added"]), self.replay.capacity, []
        if n_real:
            held = steps_of_tensors(replay)
            if held.n_steps != min(n_real, capacity):
                raise ValueError("its replay buffer is of another size")
            real = [held.at(np.arange(n_real - held.n_steps, n_real) % capacity)]
        self.remember(n_real, real, [steps_of_tensors(one) for one in imagined])

    def load_policy(self, state: Mapping[str, Any]) -> None:
        """Take the weights alone from `state_dict()`, or from a PPOAgent's: a warm start.

        Raises RuntimeError, KeyError or ValueError if they do not fit.
        """
        if saved_distribution(state) != self.distribution:
            raise ValueError(f"its actions are {saved_distribution(state)}")
        if "obs_moments" in state or "return_scale" in state:
            raise ValueError("it normalises observations or rewards, which mbpo does not")
        self.network.load_state_dict(state["network"])
        self.learner.read()
