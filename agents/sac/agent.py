"""Soft actor-critic on lists of trajectories. It learns from all remembered steps."""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workflow_rl.agents.algorithm import DivergedError, LearningAgent, Metrics, Series
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.distributions import Distribution
from workflow_rl.agents.policies.further_distributions import SquashedGaussian
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policy_from_checkpoint import require_distribution, saved_number
from workflow_rl.agents.replay import ReplayBuffer, Transitions, transitions_of
from workflow_rl.agents.sac.config import SACConfig, SACMetrics
from workflow_rl.agents.sac.soft_actor_critic import LearnedPolicy, SoftActorCritic, steps_of
from workflow_rl.agents.trajectory import Trajectory, lags_of

VALUE_EVERY = 4
"""The network's own critic learns in an update's first gradient step, and then in every fourth
step."""


def target_entropy(distribution: Distribution, asked: float | None) -> float:
    """Return the target entropy in nats. asked: see `SACConfig.target_entropy`.

    The defaults are 0.4 of the uniform policy's entropy, and -1 for each number (Haarnoja et al.
    2018, appendix D).
    """
    if isinstance(distribution, SquashedGaussian):
        return len(distribution.low) * (-1.0 if asked is None else asked)
    return math.log(distribution.n_outputs) * (0.4 if asked is None else asked)


class SACAgent(LearningAgent):
    """A soft actor-critic and the real steps that it remembers.

    Random numbers depend only on `seed` and the number of updates, so equal trajectories give equal
    weights. The distribution must be Categorical or SquashedGaussian. Others raise ValueError.

    An algorithm that learns from additional steps derives from this class, and overrides `prepare`
    and `drawn`.
    """

    def __init__(
        self, config: SACConfig, obs_dim: int, distribution: Distribution, seed: int
    ) -> None:
        self.config = config
        self.seed = seed
        self.policy_version = 0
        self.distribution = distribution
        self.obs_dim = obs_dim
        self.network = ActorCritic(
            obs_dim, distribution, config.hidden_sizes, config.activation, seed
        )
        self.learner = SoftActorCritic(
            self.network,
            config.discount,
            config.learning_rate,
            config.target_rate,
            target_entropy(distribution, config.target_entropy),
            seed,
            config.layer_norm,
        )
        self.replay = ReplayBuffer(config.replay_capacity)
        self._gradient_steps_left = 0.0
        self._gradient_steps_made = 0

    def policy_parameters(self) -> PolicyParameters:
        return self.network.policy_parameters()

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        random = np.random.default_rng([self.seed, self.policy_version])
        steps = transitions_of(trajectories)
        self.replay.add(steps)
        learned: dict[str, Any] = {}
        if len(self.replay) >= self.config.warm_up_steps:
            with np.errstate(all="ignore"):  # The losses show a divergence.
                self.prepare(steps.n_steps, progress, random)
                asked = self._gradient_steps_left + self.config.gradient_steps * steps.n_steps
                # The rest counts in the next update. Otherwise short updates would never learn.
                self._gradient_steps_left = asked - round(asked)
                learned = self._learn(round(asked), random)
        lags = lags_of(trajectories, self.policy_version)
        self.policy_version += 1
        return SACMetrics(
            **learned,
            **lags,
            learning_rate=self.config.learning_rate,
            real_steps=self.replay.n_added,
        )

    def prepare(self, n_real: int, progress: float, random: np.random.Generator) -> None:
        """Prepare an update's gradient steps. n_real: the number of new real steps."""

    def drawn(self, random: np.random.Generator) -> Transitions:
        """Return random steps for one gradient step."""
        real = self.replay.steps
        return real.at(random.integers(0, real.n_steps, self.config.batch_size))

    def _learn(self, n_steps: int, random: np.random.Generator) -> dict[str, Any]:
        """Make gradient steps. Return their metrics by name. Raises DivergedError."""
        policies: list[LearnedPolicy] = []
        critic_results: list[tuple[float, float]] = []
        value_loss = 0.0
        for n in range(n_steps):
            steps = steps_of(self.drawn(random), self.config.reward_scale)
            critic_results.append(self.learner.learn_critics(steps, random))
            # With a count for each update, the policy would learn in every step of short updates.
            if self._gradient_steps_made % self.config.policy_every == 0:
                policies.append(self.learner.learn_policy(steps, random))
            self._gradient_steps_made += 1
            if n % VALUE_EVERY == 0:
                value_loss = self.learner.learn_value(steps, random)
            policy_losses = policies[-1][:3] if policies else ()
            losses = (*policy_losses, critic_results[-1][0], value_loss)
            if not all(map(math.isfinite, losses)):
                raise DivergedError(f"the losses are {', '.join(map(str, losses))}")
        self.learner.write()
        metrics: dict[str, Any] = {"gradient_steps": n_steps}
        if critic_results:
            critic_losses, critic_norms = zip(*critic_results, strict=True)
            metrics["value_loss"] = sum(critic_losses) / n_steps
            metrics["value_gradient_norm"] = sum(critic_norms) / n_steps
        if policies:
            mean = LearnedPolicy._make(np.mean(policies, axis=0).tolist())
            metrics["policy_loss"], metrics["entropy"] = mean.loss, mean.entropy
            metrics["temperature"] = mean.temperature
            metrics["policy_gradient_norm"] = mean.gradient_norm
            metrics["action_std"] = policies[-1].std
        return metrics

    def state_dict(self) -> dict[str, Any]:
        state = {
            "network": self.network.state_dict(),
            "learner": self.learner.state_dict(),
            "gradient_steps_left": self._gradient_steps_left,
            "gradient_steps_made": self._gradient_steps_made,
            "policy_version": self.policy_version,
            "seed": self.seed,
            "distribution": self.distribution.to_plain(),
        }
        return copy.deepcopy(state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.load_policy(state)
        self.learner.load_state_dict(state["learner"])
        self._gradient_steps_left = float(state["gradient_steps_left"])
        if not abs(self._gradient_steps_left) <= 0.5:  # NaN is refused, too.
            raise ValueError(f"{self._gradient_steps_left} is no fraction of a gradient step")
        self._gradient_steps_made = saved_number(state, "gradient_steps_made")
        self.policy_version = saved_number(state, "policy_version")
        self.seed = saved_number(state, "seed")

    def load_policy(self, state: Mapping[str, Any]) -> None:
        """Take only the weights of a `state_dict()`, also of PPO. Raises: see LearningAgent."""
        require_distribution(state, self.distribution)
        if "obs_moments" in state or "return_scale" in state:
            raise ValueError("it normalises observations or rewards, which this algorithm does not")
        self.network.load_state_dict(state["network"])
        self.learner.read()

    def memory(self) -> dict[str, Series]:
        replay = self.replay
        held = [(replay.oldest, replay.n_added)] if len(replay) else []

        def load(end: int, parts: Iterable[Transitions]) -> None:
            replay.load(end, map(self.own, parts))

        return {"real": Series(held, replay.numbered, replay.capacity, load)}

    def own(self, steps: Transitions, terminated_kinds: str = "b") -> Transitions:
        """Return steps from a file. Raises ValueError for steps of another environment.

        terminated_kinds: the allowed dtype kinds of `terminated`: "b" for real steps, "f" for
        imagined steps, whose ends are probabilities.
        """
        low, n_choices = getattr(self.distribution, "low", None), self.distribution.n_outputs
        action = () if low is None else (len(low),)
        shapes = [
            (steps.n_steps, *shape) for shape in ((self.obs_dim,), action, (), (self.obs_dim,))
        ]
        kinds = ("biuf", "iu" if low is None else "f", "f", "biuf", terminated_kinds)
        if (
            [column.shape for column in steps] != [*shapes, (steps.n_steps,)]
            or any(c.dtype.kind not in kind for c, kind in zip(steps, kinds, strict=True))
            or not ((steps.terminated >= 0) & (steps.terminated <= 1)).all()
            or (low is None and not ((steps.action >= 0) & (steps.action < n_choices)).all())
        ):
            raise ValueError("its steps are of another environment")
        return steps
