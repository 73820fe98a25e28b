"""Proximal policy optimisation (Schulman et al. 2017) on lists of trajectories."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from workflow_rl.agents.algorithm import CopyMetrics, LearningAgent
from workflow_rl.agents.policies.actor_critic import ActorCritic
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import (
    PolicyParameters,
    likely_repeats,
    normalised_obs,
)
from workflow_rl.agents.policies.torch_layers import set_threads
from workflow_rl.agents.ppo.adam import FusedAdam
from workflow_rl.agents.ppo.advantages import (
    Estimates,
    Estimator,
    estimate_advantages,
    gae,
    gae_with_vtrace,
)
from workflow_rl.agents.ppo.config import Annealed, PPOConfig, PPOMetrics
from workflow_rl.agents.ppo.losses import (
    approximate_kl,
    clip_fraction,
    clipped_policy_loss,
    effective_share,
    explained_variance,
    normalised,
    require_finite,
    value_loss,
)
from workflow_rl.agents.ppo.minibatches import (
    Minibatch,
    RolloutObs,
    TensorBatch,
    distinct_rows,
    stack_obs,
)
from workflow_rl.agents.ppo.running_statistics import ReturnScale, RunningMoments
from workflow_rl.agents.trajectory import Float64Array, Trajectory, lags_of

if TYPE_CHECKING:
    from workflow_rl.agents.algorithm import Metrics
    from workflow_rl.agents.ppo.budgets import Budgets, CostCritics
    from workflow_rl.agents.ppo.sequences import RolloutSequences
    from workflow_rl.agents.spaces import Spaces

PolicyLoss: TypeAlias = Callable[[Tensor, Tensor, float], Tensor]
ValueLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class PPOAgent(LearningAgent):
    """The learner: an actor-critic, its optimizer, and the number of their updates.

    obs_moments, return_scale: running statistics over all earlier rollouts for normalising
    observations and rewards, or None without normalisation.

    two_threads: learn the actor and the critic on two threads. The results are equal bit for bit,
    because the two networks share nothing.

    policy_loss, value_loss: the losses of a minibatch, see `losses`. advantages: an
    `advantages.Estimator`, by default from the setting `correction`. To use other losses or another
    estimator, assign functions with the same arguments.

    layout: the environment's declaration for this kind of network: see `Network.declared`.

    kept: copies of the networks and the `obs_moments` after copying a teacher, if a loss towards
    these copies is set. This is kickstarting (Schmitt et al. 2018, arXiv 1803.03835), in which the
    copy is the teacher.

    costs: the critics of the costs that budgets limit, or None without budgets. budgets: the
    budgets of a team. The team sets their multipliers.

    `seed` determines the initial weights and, with the update's number, the minibatches. So equal
    trajectories give equal weights.
    """

    policy_loss: PolicyLoss = staticmethod(clipped_policy_loss)
    value_loss: ValueLoss = staticmethod(value_loss)
    advantages: Estimator = staticmethod(gae)

    def __init__(
        self,
        config: PPOConfig,
        spaces: Spaces,
        seed: int,
        device: str = "cpu",
        two_threads: bool = False,
        budgets: Budgets | None = None,
    ) -> None:
        self.config = config
        self.seed = seed
        self.two_threads = two_threads and not config.shared_trunk
        self.device = torch.device(device)
        self.policy_version = 0
        self.distribution = spaces.distribution
        kind, args = NETWORKS[config.network], dict(config.network_args)
        self.layout: Any = None
        if kind.declared:
            self.layout = kind.known_of(getattr(spaces, kind.declared))
            args["layout"] = self.layout.to_plain()

        def network_of(seed: int) -> ActorCritic:
            return ActorCritic(
                spaces.obs_dim,
                spaces.distribution,
                config.hidden_sizes,
                config.activation,
                seed,
                log_std_init=config.log_std_init,
                kind=config.network,
                args=args,
                masked=spaces.masked,
                n_further=spaces.privileged,
                is_shared=config.shared_trunk,
            ).to(self.device)

        self.network = network_of(seed)
        self.costs: CostCritics | None = None
        if config.budgets:
            from workflow_rl.agents.ppo.budgets import Budgets, CostCritics

            budgets = budgets or Budgets(config.budgets, spaces.costs)
            self.costs = CostCritics(budgets, network_of, seed, config.max_grad_norm)
        self.obs_moments: RunningMoments | None = None
        self.return_scale: ReturnScale | None = None
        seen = self.network.critic_network
        if config.normalise_obs and (seen.alike is None or (seen.alike >= 0).any()):
            self.obs_moments = RunningMoments(seen.n_inputs, seen.alike)
        if config.normalise_returns:
            self.return_scale = ReturnScale(config.discount)
        self.kept: tuple[ActorCritic, RunningMoments | None] | None = None
        self.optimizer = FusedAdam(self.network.parameters(), config.learning_rate, eps=1e-5)
        if config.correction == "vtrace" and type(self).advantages is PPOAgent.advantages:
            self.advantages = gae_with_vtrace

    def policy_parameters(self) -> PolicyParameters:
        parameters = self.network.policy_parameters()
        if self.obs_moments is None:
            return parameters
        n_inputs = self.network.actor_network.n_inputs
        mean, scale = (numbers[:n_inputs] for numbers in self.obs_moments.mean_and_scale())
        return parameters._replace(obs_mean=mean, obs_scale=scale)

    def update(self, trajectories: Sequence[Trajectory], progress: float) -> Metrics:
        """Learn from a rollout, and keep to the budgets: see `learn`."""
        learn = partial(self.learn, progress=progress)
        if self.costs is None:
            return learn(trajectories)
        return self.costs.budgets.learned(trajectories, learn)

    def learn(self, trajectories: Sequence[Trajectory], progress: float) -> PPOMetrics:
        """Learn from a rollout. This adds 1 to `policy_version`.

        trajectories: they have the budgets' costs. progress: share of the run's episodes (or steps)
        collected before this rollout, from 0 to 1, see `PPOConfig.at`.

        Trajectories whose policy lag exceeds `max_policy_lag` are left out, and the learning rate
        is multiplied by the share of the steps that remain, as in Sample Factory (Petrenko et al.
        2020). If no steps remain, the weights and the optimizer are not changed.

        Raises DivergedError. The agent must then load an earlier state.
        """
        config = self.config
        lag = np.array([self.policy_version - t.policy_version for t in trajectories])
        n_steps = np.array([t.length for t in trajectories])
        limit = math.inf if config.max_policy_lag is None else config.max_policy_lag
        is_valid = lag <= limit
        valid_fraction = float(n_steps[is_valid].sum() / n_steps.sum())
        annealed = config.at(progress)
        learning_rate = valid_fraction * annealed.learning_rate
        annealed = annealed._replace(learning_rate=learning_rate)
        valid = list(itertools.compress(trajectories, is_valid))
        if self.return_scale is not None:
            self.return_scale.update(trajectories)
        learned = self._learn(valid, annealed) if valid else {}
        if self.obs_moments is not None:
            # This comes last, because the acting policy normalised with the earlier statistics.
            self.obs_moments.update(self.normalised_numbers(trajectories))
        lags = lags_of(trajectories, self.policy_version)
        self.policy_version += 1
        return PPOMetrics(
            **learned,
            **lags,
            learning_rate=learning_rate,
            stale_fraction=1 - valid_fraction,
            action_std=self._action_std(),
        )

    def _action_std(self) -> float:
        """Return the mean standard deviation of an action's real numbers, or NaN without any."""
        if self.network.log_std is None:
            return math.nan
        return float(self.distribution.deviations(self.network.log_std.detach()).mean())

    def normalised_numbers(self, trajectories: Sequence[Trajectory]) -> np.ndarray:
        """Return the observations' numbers for `obs_moments`, without masks."""
        assert self.obs_moments is not None
        n_inputs = len(self.obs_moments.mean)
        return stack_obs(trajectories)[0][:, :n_inputs].astype(np.float32)

    def copy(
        self, taught: Sequence[Trajectory], held_out: Sequence[Trajectory], epochs: int
    ) -> Iterator[CopyMetrics]:
        from workflow_rl.agents.ppo.copying import copied

        yield from copied(self, taught, held_out, epochs)
        if self.config.teacher_coef:
            self._keep()

    def _keep(self) -> tuple[ActorCritic, RunningMoments | None]:
        network, moments = self.kept = copy.deepcopy((self.network, self.obs_moments))
        network.requires_grad_(False)
        return network, moments

    def _learn(self, trajectories: Sequence[Trajectory], annealed: Annealed) -> dict[str, Any]:
        config = self.config
        self.optimizer.learning_rate = annealed.learning_rate
        taught = annealed.teacher_coef > 0
        obs, batch, effective = self.make_batch(trajectories, with_teacher=taught, with_costs=True)
        if self.costs is not None:
            self.costs.optimizer.learning_rate = annealed.learning_rate
        shuffle = np.random.default_rng([self.seed, self.policy_version])
        history: list[dict[str, Tensor]] = []
        norms: list[dict[str, float]] = []
        whole = config.minibatches_of == "observations"
        # Minibatches have nearly equal sizes, because a minibatch of few steps would be noisy.
        n_minibatches = math.ceil(len(batch.action) / config.minibatch_size)
        epochs = (
            obs.minibatches(batch, n_minibatches, whole, shuffle) for _ in range(config.epochs)
        )
        with self._helper() as helper:
            for minibatch in itertools.chain.from_iterable(epochs):
                metrics, of_step = self._learn_minibatch(minibatch, annealed, helper)
                history.append(metrics)
                if not of_step:
                    break
                norms.append(of_step)
        rows = [torch.stack(list(metrics.values())) for metrics in history]
        means = torch.stack(rows).mean(0).tolist()
        mean_norms = {
            f"{part}_gradient_norm": float(np.mean([of_step[part] for of_step in norms]))
            for part in (norms[0] if norms else ())
        }
        return {
            **dict(zip(history[0], means, strict=True)),
            **mean_norms,
            "explained_variance": explained_variance(batch.value, batch.return_),
            "effective_share": effective,
            "gradient_steps": len(norms),
        }

    def seen(
        self, trajectories: Sequence[Trajectory], moments: RunningMoments | None = None
    ) -> tuple[RolloutObs | RolloutSequences, np.ndarray, np.ndarray]:
        """Return observations, the rows that were acted on [B], and the episodes' last rows [N].

        moments: statistics for normalising, by default `obs_moments`.
        """
        if self.network.has_memory:
            from workflow_rl.agents.ppo.sequences import RolloutSequences, stack_sequences

            rows, lengths, acted, last = stack_sequences(trajectories)
            return RolloutSequences(self._on_device(rows, moments), lengths), acted, last
        obs, last_obs = stack_obs(trajectories)
        rows = np.concatenate([obs, last_obs])
        obs_index = np.arange(len(rows))
        repeat = likely_repeats(obs)
        if repeat:
            rows, obs_index = distinct_rows(rows)
        seen = RolloutObs(self._on_device(rows, moments), repeat)
        return seen, obs_index[: len(obs)], obs_index[len(obs) :]

    def _on_device(self, rows: np.ndarray, moments: RunningMoments | None = None) -> Tensor:
        """Return the networks' inputs from observations. moments: see `seen`."""
        moments = moments or self.obs_moments
        takes_bytes = self.network.critic_network.takes_bytes and rows.dtype == np.uint8
        if moments is not None or not takes_bytes:
            rows = rows.astype(np.float32)
        if moments is not None:
            n_inputs, limit = len(moments.mean), self.network.critic_network.limit
            numbers = normalised_obs(rows[:, :n_inputs], *moments.mean_and_scale(), limit)
            rows = np.concatenate([numbers, rows[:, n_inputs:]], axis=1)
        return torch.from_numpy(rows).to(self.device)

    @torch.no_grad()
    def make_batch(
        self,
        trajectories: Sequence[Trajectory],
        of_returns: bool = False,
        with_teacher: bool = False,
        with_costs: bool = False,
    ) -> tuple[RolloutObs | RolloutSequences, TensorBatch, float]:
        """Return observations, the data of the steps, and `effective_share` of the steps.

        of_returns: whether the critic's targets are the returns, with any estimator.
        with_teacher: whether to compute `TensorBatch.taught`, if there is a copy of a teacher.
        with_costs: whether advantages include the budgets' costs, if there are budgets.
        """
        config = self.config
        seen, acted, last = self.seen(trajectories)
        value = seen.computed(self.network.values).cpu().numpy().astype(np.float64)
        action = np.concatenate([trajectory.action for trajectory in trajectories])
        log_prob = np.concatenate([trajectory.log_prob for trajectory in trajectories])
        log_prob_now = self._log_prob_now(seen, acted, action, log_prob, trajectories)
        ratio = np.exp(log_prob_now.astype(np.float64) - log_prob)

        def estimate(
            trajectories: Sequence[Trajectory],
            value: Float64Array,
            scaled: Callable[[Float64Array], Float64Array] = lambda costs: costs,
        ) -> Estimates:
            return estimate_advantages(
                trajectories,
                value[acted],
                value[last],
                config.discount,
                1.0 if of_returns else config.gae_lambda,
                scaled,
                ratio,
                gae if of_returns else self.advantages,
            )

        estimates = estimate(trajectories, value, self._scaled_reward)
        advantage, return_ = estimates
        cost_return = np.zeros((len(acted), 0), np.float32)
        if with_costs and self.costs is not None:
            advantage, cost_return = self.costs.joined(trajectories, seen, estimates, estimate)
        weight = np.ones_like(log_prob)
        if config.decoupled_clip:
            # Clipping around the acting policy would remove most of the gradient, because the last
            # update has already moved the policy to the edge of the clip range.
            log_prob = log_prob_now
            weight = np.minimum(ratio, 1).astype(np.float32)
        taught = np.zeros((len(acted), 0), np.float32)
        if with_teacher and self.kept is not None:
            network, moments = self.kept
            by_teacher = seen if moments is None else self.seen(trajectories, moments)[0]
            taught = by_teacher.computed(network.outputs).cpu().numpy()[acted]
        own_value = value[acted].astype(np.float32)
        of_policy = acted, action, log_prob, own_value, advantage, return_, weight, taught
        tensors = (torch.from_numpy(of).to(self.device) for of in (*of_policy, cost_return))
        return seen, TensorBatch(*tensors), effective_share(ratio)

    def _scaled_reward(self, reward: np.ndarray) -> np.ndarray:
        if self.return_scale is not None:
            reward = self.return_scale.scaled(reward)
        return self.config.reward_scale * reward

    def _log_prob_now(
        self,
        seen: RolloutObs | RolloutSequences,
        acted: np.ndarray,
        action: np.ndarray,
        log_prob: np.ndarray,
        trajectories: Sequence[Trajectory],
    ) -> np.ndarray:
        """Return log-probabilities of the actions under the present policy, float32 [B].

        log_prob: the recorded log-probabilities. Steps of the present policy keep these values,
        because torch and NumPy round differently.
        """
        lag = [self.policy_version - trajectory.policy_version for trajectory in trajectories]
        is_older = np.repeat(lag, [trajectory.length for trajectory in trajectories]) > 0
        if not is_older.any():
            return log_prob
        now, _ = self.distribution.log_prob_and_entropy(
            seen.computed(self.network.outputs),
            self.network.log_std,
            torch.from_numpy(acted).to(self.device),
            torch.from_numpy(action).to(self.device),
        )
        return np.where(is_older, now.cpu().numpy(), log_prob)

    def _helper(self) -> AbstractContextManager[Executor | None]:
        if not self.two_threads:
            return contextlib.nullcontext()
        # By default, a new thread would split matrix products by the number of cores.
        n_threads = torch.get_num_threads()
        return ThreadPoolExecutor(1, initializer=set_threads, initargs=(n_threads,))

    def _learn_minibatch(
        self, minibatch: Minibatch, annealed: Annealed, helper: Executor | None
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Make a gradient step. Return its metrics, and the norm of each part's gradient.

        If the KL divergence exceeds its limit, no step is made, and there are no norms. helper: a
        thread for the values' loss and gradients.
        """
        config = self.config
        self.optimizer.zero_grad()
        if config.shared_trunk:
            outputs, values = self.network(minibatch.obs)
            objective, metrics = self._policy_losses(minibatch, annealed, outputs)
            critic_loss = self.critic_loss(minibatch, values)
            (objective + config.value_coef * critic_loss).backward()
            critic_loss = critic_loss.detach()
        elif helper is None:
            critic_loss = self._learn_values(minibatch)
            metrics = self._learn_policy(minibatch, annealed)
        else:
            learned = helper.submit(self._learn_values, minibatch)
            metrics = self._learn_policy(minibatch, annealed)
            critic_loss = learned.result()
        policy_loss = metrics["policy_loss"]
        metrics = {"policy_loss": policy_loss, "value_loss": critic_loss} | metrics
        require_finite({"policy's loss": policy_loss, "value's loss": critic_loss})
        if config.target_kl is not None and metrics["approx_kl"] > 1.5 * config.target_kl:
            return metrics, {}
        norms = {}
        for name, parameters in self.network.parts().items():
            norm = torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            require_finite({f"{name}'s gradient": norm})
            norms[name] = float(norm)
        self.optimizer.step()
        if self.costs is not None:
            self.costs.learn(minibatch)
        return metrics, norms

    def _learn_policy(self, minibatch: Minibatch, annealed: Annealed) -> dict[str, Tensor]:
        """Add the actor's gradients. Return its metrics."""
        outputs = self.network.outputs(minibatch.obs)
        objective, metrics = self._policy_losses(minibatch, annealed, outputs)
        objective.backward()
        return metrics

    def _policy_losses(
        self, minibatch: Minibatch, annealed: Annealed, outputs: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the actor's loss, and the metrics of the minibatch without gradients."""
        steps = minibatch.steps
        advantage = steps.advantage
        if self.config.normalise_advantage:
            advantage = normalised(advantage)
        log_prob, entropy = self.distribution.log_prob_and_entropy(
            outputs, self.network.log_std, minibatch.row, steps.action
        )
        log_ratio = log_prob - steps.log_prob
        ratio = log_ratio.exp()
        policy_loss = self.policy_loss(ratio, steps.weight * advantage, annealed.clip_range)
        entropy = entropy.mean()
        objective = policy_loss - annealed.entropy_coef * entropy
        teacher_loss = torch.zeros_like(objective)
        if steps.taught.shape[1]:
            assert self.kept is not None
            of_steps = outputs if minibatch.row is None else outputs[minibatch.row]
            teacher = steps.taught, self.kept[0].log_std
            student = of_steps, self.network.log_std
            apart = self.distribution.divergence(teacher, student).mean()
            teacher_loss = annealed.teacher_coef * apart
            objective = objective + teacher_loss
        with torch.no_grad():
            return objective, {
                "policy_loss": policy_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": approximate_kl(log_ratio),
                "clip_fraction": clip_fraction(ratio, annealed.clip_range),
                "teacher_loss": teacher_loss.detach(),
            }

    def _learn_values(self, minibatch: Minibatch) -> Tensor:
        loss = self.critic_loss(minibatch, self.network.values(minibatch.obs))
        (self.config.value_coef * loss).backward()
        return loss.detach()

    def critic_loss(self, minibatch: Minibatch, values: Tensor) -> Tensor:
        of_steps = values if minibatch.row is None else values[minibatch.row]
        return self.value_loss(of_steps, minibatch.steps.return_)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "policy_version": self.policy_version,
            "seed": self.seed,
            "distribution": self.distribution.to_plain(),
            "masked": self.network.masked,
        }
        if self.layout is not None:
            state[self.network.actor_network.declared] = self.layout.to_plain()
        if self.network.n_further:
            state["n_further"] = self.network.n_further
        for name, statistics in self._statistics().items():
            state[name] = statistics.state_dict()
        if self.costs is not None:
            state["budgets"] = self.costs.state_dict()
        if self.kept is not None:
            network, moments = self.kept
            state["teacher"] = {"network": network.state_dict()}
            if moments is not None:
                state["teacher"]["obs_moments"] = moments.state_dict()
        return copy.deepcopy(state)

    def _statistics(self) -> dict[str, RunningMoments | ReturnScale]:
        both = {"obs_moments": self.obs_moments, "return_scale": self.return_scale}
        return {name: statistics for name, statistics in both.items() if statistics is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        from workflow_rl.agents.policy_from_checkpoint import saved_number

        declared = self.network.actor_network.declared
        if self.layout is not None and state.get(declared) != self.layout.to_plain():
            raise ValueError(f"its {declared} are others")
        self._load_policy(state)
        self.optimizer.load_state_dict(state["optimizer"])
        if self.costs is not None:
            self.costs.load_state_dict(state["budgets"])
        self.kept = None
        if "teacher" in state:
            network, moments = self._keep()
            network.load_state_dict(state["teacher"]["network"])
            if moments is not None:
                moments.load_state_dict(state["teacher"]["obs_moments"])
        self.policy_version = saved_number(state, "policy_version")
        self.seed = saved_number(state, "seed")

    def load_policy(self, state: Mapping[str, Any]) -> None:
        """Take only weights and running statistics from a `state_dict()`. The number of entities
        may differ."""
        if self.layout is not None:
            from workflow_rl.agents.policy_from_checkpoint import for_layout

            kind = type(self.network.actor_network)
            state = for_layout(state, kind, self.layout, self.distribution)
        self._load_policy(state)
        if self.return_scale is not None:
            self.return_scale.forget_episodes()

    def _load_policy(self, state: Mapping[str, Any]) -> None:
        from workflow_rl.agents import policy_from_checkpoint

        policy_from_checkpoint.require_distribution(state, self.distribution)
        if policy_from_checkpoint.saved_flag(state, "masked") != self.network.masked:
            raise ValueError("only one of it and this run takes masks of actions")
        if policy_from_checkpoint.saved_further(state) != self.network.n_further:
            raise ValueError("its critic sees other numbers than this run's")
        for name in ("obs_moments", "return_scale"):
            if name in state and name not in self._statistics():
                raise ValueError(f"it has {name}, and this run does not normalise by them")
        self.network.load_state_dict(state["network"])
        for name, statistics in self._statistics().items():
            statistics.load_state_dict(state[name])
