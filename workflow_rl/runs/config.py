"""What a training run is asked to do: frozen, validated where it is made, kept with the run."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from agents.algorithm import find
from agents.policies.distributions import Distribution
from agents.settings import ConfigError, Settings
from workflow_rl.collection.cluster import LOCAL, NONE, host_and_port, is_address
from workflow_rl.environments.env_batch import Env
from workflow_rl.environments.environment import (
    Environment,
    InvalidEnvironmentError,
    default_env,
    guests,
    make_environment,
)
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.runs.bridge import (
    OF_A_MODEL,
    MBPOConfig,
    PPOConfig,
    mistyped,
    new_settings,
    old_settings,
)

Mode: TypeAlias = Literal["sync", "async"]
MODES = ("sync", "async")
ALGORITHMS = ("ppo", "sac", "mbpo")
OFF_POLICY = {"activation": "relu", "learning_rate": 1e-3}
"""What sac and mbpo begin with, for any environment."""
SHARED = frozenset(
    {"network", "hidden_sizes", "activation", "learning_rate", "discount", "reward_scale"}
)
"""Of PPO's settings, those that sac and mbpo have too."""
DEVICES = ("auto", "cpu", "cuda")
MINIMUM_EPISODES_PER_UPDATE = 24
STEPS_PER_UPDATE = 2048
ENVIRONMENT_DEFAULTS = (
    "ppo",
    "total_episodes",
    "total_steps",
    "episodes_per_update",
    "steps_per_update",
)
"""Fields whose defaults follow from the environment."""
BATCHINGS = ("exact-lag", "whole-batches", "first-come")
WHEN_FULL = ("wait", "drop")

# More has never been meant: it would fill the memory, or start processes without end.
LARGEST: dict[str, int] = {
    "n_envs": 1_000_000,
    "n_workers": 4096,
    "envs_per_worker": 1_000_000,
    "episodes_per_update": 1_000_000,
    "steps_per_update": 100_000_000,
    "num_steps_per_env": 1_000_000,
    "num_batches_to_accumulate": 10_000,
    "eval_episodes": 1_000_000,
    "learner_threads": 1024,
    "worker_timeout": 1_000_000,
    "slow_worker_ms": 1_000_000,
}

# What a resumed run may be given anew, n_envs only if its rollouts are so many complete episodes:
# others depend on how many envs there are. None of it changes the weights the run ends with, but
# for the device: CPU and GPU round differently.
FREE_ON_RESUME = frozenset(
    {
        "n_envs",
        "n_workers",
        "envs_per_worker",
        "device",
        "checkpoint_every",
        "keep_every",
        "worker_timeout",
        "max_worker_failures",
        "cluster",
        "slow_worker_ms",
        "slow_worker_share",
    }
)


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_PPO_SETTINGS = tuple(one.name for one in dataclasses.fields(PPOConfig))


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Raises ConfigError, naming the field.

    None asks for the default that follows from the rest; the value in use replaces it.

    Args:
        mode: "sync" or "async".
        n_envs: environments that step together, or episodes handed out at a time.
        n_workers: processes.
        envs_per_worker: environments of each.
        env: the environment's id, see `environments.environment`.
        env_args: its arguments.
        total_episodes: where the run ends; total_steps is then None.
        total_steps: where it ends, in env steps.
        episodes_per_update: complete episodes of a rollout. If it is None, about as many as have
            steps_per_update steps, by the lengths of those in the rollout before, and at least
            n_envs.
        num_steps_per_env: length of an unroll, whose envs go on where they are; None is a complete
            episode.
        steps_per_update: steps of a rollout, of unrolls exactly.
        async_rl: collect while learning. Without it nothing ever waits, and the next four mean
            nothing; see `schedule`.
        batching: one of BATCHINGS.
        num_batches_to_accumulate: batches that may wait for the learner.
        when_full: when so many wait: "wait" pauses collecting, "drop" drops the oldest.
        take_all: learn from all batches that wait at once.
        preset: which of `presets.PRESETS` the settings come from; it changes nothing by itself.
        seed: the same gives the same weights.
        device: "auto", "cpu" or "cuda".
        learner_threads: CPU threads of the learner.
        checkpoint_every: updates between checkpoints.
        keep_every: updates between checkpoints that stay beside the latest, as candidates to choose
            from; 0 keeps none.
        eval_every: updates between evaluations; 0 never evaluates.
        eval_episodes: episodes of an evaluation.
        worker_timeout: seconds within which a worker must answer.
        max_worker_failures: workers that may fail and be replaced.
        cluster: "none" has the workers on this machine; others are addresses of
            `collection.cluster`.
        slow_worker_ms: how much longer a step takes in the slow workers, milliseconds.
        slow_worker_share: how many of the workers are slow ones, rounded up.
        ppo: a PPOConfig, or some of its fields as a mapping; the others, or all if it is None, have
            the environment's own defaults.
        algorithm: "ppo", "sac" or "mbpo". The last two have networks, learning rate, discount and
            reward scale of ppo's; sac is mbpo without a model.
        mbpo: an MBPOConfig, or some of its fields as a mapping, for sac and mbpo.
        make_env: a function that makes the environment, of which env is only the name.
        named_by_file: whether only a file names the environment, which is then not made: see
            `trust`.
        asked: what the fields of ENVIRONMENT_DEFAULTS were given as, and what became of them.

    The last three are not kept with the run.
    """

    mode: Mode
    n_envs: int = 8
    n_workers: int = None  # type: ignore[assignment]
    envs_per_worker: int = None  # type: ignore[assignment]
    env: str = field(default_factory=default_env)
    env_args: Mapping[str, Any] = field(default_factory=dict)
    total_episodes: int | None = None
    total_steps: int | None = None
    episodes_per_update: int | None = None
    num_steps_per_env: int | None = None
    steps_per_update: int | None = None
    async_rl: bool = False
    batching: str = "exact-lag"
    num_batches_to_accumulate: int = 1
    when_full: str = "wait"
    take_all: bool = False
    preset: str | None = None
    seed: int = 0
    device: str = "auto"
    learner_threads: int = 1
    checkpoint_every: int = 10
    keep_every: int = 0
    eval_every: int = 0
    eval_episodes: int = 20
    worker_timeout: float = 60.0
    max_worker_failures: int = 10
    cluster: str = NONE
    slow_worker_ms: float = 0.0
    slow_worker_share: float = 0.1
    ppo: PPOConfig = None  # type: ignore[assignment]  # PPOConfig | Mapping[str, Any] | None
    algorithm: str = "ppo"
    mbpo: MBPOConfig | None = None  # MBPOConfig | Mapping[str, Any] | None
    make_env: Callable[..., Env] | None = field(default=None, compare=False)
    named_by_file: bool = field(default=False, compare=False)
    asked: Mapping[str, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        given = {name: self._given(name) for name in ENVIRONMENT_DEFAULTS}
        self._validate()
        asked = {name: (value, getattr(self, name)) for name, value in given.items()}
        object.__setattr__(self, "asked", asked)

    def _given(self, name: str) -> Any:
        """What a field was given as; `dataclasses.replace` gives what became of it."""
        value = getattr(self, name)
        given, became = self.asked.get(name, (value, value))
        return given if value == became else value

    def _validate(self) -> None:
        for name, expected in mistyped(self).items():
            raise ConfigError(name, f"{getattr(self, name)!r} is not {expected}")
        if self.mode not in MODES:
            raise ConfigError("mode", f"{self.mode!r} is not one of {', '.join(MODES)}")
        for name, largest in LARGEST.items():
            _require_at_most(largest, name, getattr(self, name))
        object.__setattr__(self, "env_args", dict(self.environment.args))
        try:
            json.dumps(self.env_args)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError("env_args", f"they cannot be kept with the run: {error}") from None
        if isinstance(self.mbpo, Settings):  # BRIDGE
            object.__setattr__(self, "mbpo", old_settings(self.mbpo)[1])
        if isinstance(self.ppo, Settings):  # BRIDGE
            object.__setattr__(self, "ppo", old_settings(self.ppo)[0])  # type: ignore[arg-type]
        if not isinstance(self.ppo, PPOConfig):
            for name in self.ppo or {}:
                if name not in _PPO_SETTINGS:
                    raise ConfigError("ppo", f"{name!r} is not one of {', '.join(_PPO_SETTINGS)}")
            object.__setattr__(
                self, "ppo", default_ppo(self.environment, self.algorithm, self.ppo or {})
            )
        self._check_algorithm()
        if self.total_episodes is None and self.total_steps is None:
            for name in ("total_episodes", "total_steps"):
                object.__setattr__(self, name, self.environment.settings.get(name))
        if self.total_episodes is not None and self.total_steps is not None:
            raise ConfigError(
                "total_steps",
                f"{self.total_steps} does not go with --total-episodes {self.total_episodes}: a "
                "run ends after one or the other",
            )
        for name in ("n_envs", "checkpoint_every", "eval_episodes"):
            _require_at_least(1, name, getattr(self, name))
        for name in ("total_episodes", "total_steps"):
            if getattr(self, name) is not None:
                _require_at_least(1, name, getattr(self, name))
        if self.device not in DEVICES:
            raise ConfigError("device", f"{self.device!r} is not one of {', '.join(DEVICES)}")
        _require_at_least(1, "learner_threads", self.learner_threads)
        for name in ("seed", "keep_every", "eval_every", "max_worker_failures"):
            _require_at_least(0, name, getattr(self, name))
        if self.worker_timeout <= 0:
            raise ConfigError("worker_timeout", f"{self.worker_timeout:g} s is not longer than 0 s")
        if is_address(self.cluster):
            try:
                host_and_port(self.cluster)
            except ValueError:
                raise ConfigError(
                    "cluster", f"{self.cluster!r} is neither none, local, auto nor host:port"
                ) from None
        if self.slow_worker_ms < 0:
            raise ConfigError("slow_worker_ms", f"{self.slow_worker_ms:g} is less than 0")
        if not 0 < self.slow_worker_share <= 1:
            raise ConfigError(
                "slow_worker_share",
                f"{self.slow_worker_share:g} is not greater than 0 and at most 1",
            )
        n_workers, envs_per_worker = workers_for(
            self.n_envs,
            self.n_workers,
            self.envs_per_worker,
            one_env_each=self.mode == "sync" and not self.environment.steps_together,
            cores=usable_cores() if self.cluster in (NONE, LOCAL) else None,
        )
        object.__setattr__(self, "n_workers", n_workers)
        object.__setattr__(self, "envs_per_worker", envs_per_worker)
        if self.num_steps_per_env is None:
            self._check_episodes()
        else:
            self._check_unrolls(self.num_steps_per_env)
        self._check_overlap()

    @functools.cached_property
    def environment(self) -> Environment:
        """What `env` and `env_args` name."""
        if self.make_env is not None:
            return GymnasiumEnvironment(self.env, self.env_args, self.make_env)
        try:
            return make_environment(self.env, self.env_args, self.named_by_file)
        except InvalidEnvironmentError as error:
            raise ConfigError(error.argument, str(error)) from None

    def _check_algorithm(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(
                "algorithm", f"{self.algorithm!r} is not one of {', '.join(ALGORITHMS)}"
            )
        if self.algorithm == "ppo":
            if self.mbpo is not None:
                raise ConfigError("mbpo", "its settings do not go with ppo")
            return
        if not isinstance(self.mbpo, MBPOConfig):
            given: Mapping[str, Any] = self.mbpo or {}
            without_model: dict[str, Any] = {}
            if self.algorithm == "sac":
                without_model = {"imagined_share": 0.0}
                if foreign := OF_A_MODEL.intersection(given):
                    raise ConfigError(min(foreign), "sac has no model: it needs --algorithm mbpo")
            try:
                object.__setattr__(self, "mbpo", MBPOConfig(**{**without_model, **given}))
            except (TypeError, ValueError) as error:
                raise ConfigError("mbpo", str(error)) from None
        assert self.mbpo is not None
        if self.algorithm == "sac" and self.mbpo.imagined_share:
            raise ConfigError(
                "imagined_share", f"{self.mbpo.imagined_share:g} needs --algorithm mbpo"
            )
        for name in ("normalise_obs", "normalise_returns"):
            if getattr(self.ppo, name):
                raise ConfigError(name, f"{self.algorithm} does not normalise: leave it out")
        _require_at_most(1, "learner_threads", self.learner_threads)
        if self.device == "cuda":
            raise ConfigError("device", f"{self.algorithm} learns on the cpu")

    def learned_distribution(self) -> Distribution:
        """What the agent's actions are drawn from. Makes the environment, for its spaces.

        Raises ConfigError where the algorithm cannot learn on them, and InvalidEnvironmentError.
        """
        return find(self.algorithm).distribution(self.environment.spaces(), self.settings)

    @property
    def settings(self) -> Settings:
        """BRIDGE: the algorithm's settings."""
        return new_settings(self.algorithm, self.ppo, self.mbpo)

    def _check_episodes(self) -> None:
        if self.episodes_per_update is not None and self.steps_per_update is not None:
            raise ConfigError(
                "steps_per_update",
                f"{self.steps_per_update} does not go with --episodes-per-update "
                f"{self.episodes_per_update}: a rollout of complete episodes is given by one or "
                "the other",
            )
        if self.episodes_per_update is None and self.steps_per_update is None:
            if self.environment.episode_steps is None:
                object.__setattr__(self, "steps_per_update", STEPS_PER_UPDATE)
            else:
                rounds = math.ceil(MINIMUM_EPISODES_PER_UPDATE / self.n_envs)
                object.__setattr__(self, "episodes_per_update", rounds * self.n_envs)
        for name in ("episodes_per_update", "steps_per_update"):
            if getattr(self, name) is not None:
                _require_at_least(1, name, getattr(self, name))

    def _check_unrolls(self, n_steps: int) -> None:
        _require_at_least(1, "num_steps_per_env", n_steps)
        if self.episodes_per_update is not None:
            raise ConfigError(
                "episodes_per_update",
                f"{self.episodes_per_update} does not go with --num-steps-per-env: its rollouts "
                "are given by --steps-per-update",
            )
        round_steps = self.n_envs * n_steps
        if self.steps_per_update is None and self.batching == "first-come":
            object.__setattr__(self, "steps_per_update", self.envs_per_worker * n_steps)
        if self.steps_per_update is None:
            episode_steps = self.environment.episode_steps
            at_least = (
                STEPS_PER_UPDATE
                if episode_steps is None
                else MINIMUM_EPISODES_PER_UPDATE * episode_steps
            )
            rounds = math.ceil(at_least / round_steps)
            object.__setattr__(self, "steps_per_update", rounds * round_steps)
        assert self.steps_per_update is not None
        _require_at_least(1, "steps_per_update", self.steps_per_update)
        if self.batching != "first-come" and self.steps_per_update % round_steps:
            below = self.steps_per_update // round_steps * round_steps
            nearest = [str(steps) for steps in (below, below + round_steps) if steps]
            raise ConfigError(
                "steps_per_update",
                f"{self.steps_per_update} is not a multiple of what the envs collect together, "
                f"{self.n_envs} x {n_steps} = {round_steps}: {' or '.join(nearest)} would be",
            )

    def _check_overlap(self) -> None:
        if self.batching not in BATCHINGS:
            raise ConfigError("batching", f"{self.batching!r} is not one of {', '.join(BATCHINGS)}")
        if self.when_full not in WHEN_FULL:
            raise ConfigError(
                "when_full", f"{self.when_full!r} is not one of {', '.join(WHEN_FULL)}"
            )
        _require_at_least(1, "num_batches_to_accumulate", self.num_batches_to_accumulate)
        if self.batching != "exact-lag" and not self.async_rl:
            raise ConfigError("batching", f"{self.batching} needs --async-rl")
        if self.batching == "first-come" and self.mode == "sync":
            raise ConfigError(
                "batching", "first-come needs the asynchronous trainer: a barrier has no first"
            )
        lag = self.num_batches_to_accumulate
        if not self.async_rl and lag != 1:
            raise ConfigError("num_batches_to_accumulate", f"{lag} needs --async-rl")
        limit = self.ppo.max_policy_lag
        if self.batching == "exact-lag" and self.async_rl and limit is not None and limit < lag:
            raise ConfigError(
                "max_policy_lag",
                f"{limit} leaves nothing to learn from: with --batching exact-lag every sample's "
                f"lag is --num-batches-to-accumulate, {lag}",
            )
        if self.batching == "exact-lag":
            for name, value in (("when_full", "wait"), ("take_all", False)):
                if getattr(self, name) != value:
                    raise ConfigError(
                        name,
                        f"{getattr(self, name)} does not go with --batching exact-lag, which "
                        "neither drops nor joins batches",
                    )

    @property
    def free_on_resume(self) -> frozenset[str]:
        """The fields that a resumed run may be given anew."""
        return (
            FREE_ON_RESUME if self.episodes_per_update is not None else FREE_ON_RESUME - {"n_envs"}
        )

    def require_same_run(self, saved: Mapping[str, Any]) -> None:
        """Raises ConfigError where it differs from the config of a run to be resumed, as `to_dict`
        gave it, in what must not: but for `free_on_resume` and a later end."""
        before = TrainConfig.from_dict(saved).to_dict()
        for name, value in self.to_dict().items():
            later = name in ("total_episodes", "total_steps") and None not in (value, before[name])
            if name in self.free_on_resume or (later and value >= before[name]):
                continue
            if value != before.get(name):
                raise ConfigError(name, f"{value}, but the run to resume has {before.get(name)}")

    def with_env(self, make_env: Callable[..., Env]) -> TrainConfig:
        """The same run on the environments that this function makes, called with env_args.

        What is a default of the environment before becomes one of the new environment.
        """
        changes = {name: given for name, (given, _) in self.asked.items()}
        if self.env in guests:
            own_name = getattr(make_env, "__qualname__", type(make_env).__qualname__)
            changes |= {"env": f"{make_env.__module__}:{own_name}", "env_args": {}}
        return dataclasses.replace(self, make_env=make_env, asked={}, **changes)

    def progress(self, episodes: int, env_steps: int) -> float:
        """Share of the run that is done after so many, from 0 to 1."""
        if self.total_episodes is not None:
            return min(1, episodes / self.total_episodes)
        assert self.total_steps is not None
        return min(1, env_steps / self.total_steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as config.json and checkpoints keep them.

        A guest's arguments stand beside the other fields, as its options do on the command line;
        those of other environments, which may have any name, are under env_args.
        """
        kept = [one.name for one in dataclasses.fields(self) if one.compare]
        values = {name: getattr(self, name) for name in kept if name != "env_args"}
        for name in ("ppo", "mbpo"):
            values[name] = values[name] and dataclasses.asdict(values[name])
        return copy.deepcopy({**values, **self.named_env_args})

    @property
    def named_env_args(self) -> dict[str, Any]:
        """env_args as they stand in files."""
        return dict(self.env_args) if self.env in guests else {"env_args": dict(self.env_args)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """The inverse of `to_dict`, of values from a file. Imports and calls nothing that they
        name: the environment is not made, see `trust`. Raises KeyError, TypeError or ValueError.
        """
        values = dict(values)
        ppo = {**values["ppo"], "hidden_sizes": tuple(values["ppo"]["hidden_sizes"])}
        guest = guests.get(values.get("env", default_env()))
        if guest is not None:
            values["env_args"] = {
                name: values.pop(name) for name in guest.arguments().model_fields if name in values
            }
        mbpo = values.get("mbpo")
        if mbpo is not None:
            sizes = tuple(mbpo["model_hidden_sizes"])
            values["mbpo"] = MBPOConfig(**{**mbpo, "model_hidden_sizes": sizes})
        own: dict[str, Any] = {"make_env": None, "named_by_file": True, "asked": {}}
        return cls(**{**values, "ppo": PPOConfig(**ppo), **own})


def default_ppo(
    environment: Environment,
    algorithm: str = "ppo",
    given: Mapping[str, Any] = MappingProxyType({}),
) -> PPOConfig:
    """PPO's settings for an environment and algorithm, but for those given. Raises ValueError."""
    names = {field.name for field in dataclasses.fields(PPOConfig)}
    own = {name: value for name, value in environment.settings.items() if name in names}
    if algorithm != "ppo":
        own |= {**OFF_POLICY, "normalise_obs": False, "normalise_returns": False}
    return PPOConfig(**{**own, **given})


def _require_at_least(minimum: int, name: str, value: int) -> None:
    if value < minimum:
        raise ConfigError(name, f"{value} is too small: it must be {minimum} or greater")


def _require_at_most(maximum: int, name: str, value: float | None) -> None:
    if value is not None and value > maximum:
        raise ConfigError(name, f"{value} is too large: it must be {maximum} or less")


def workers_for(
    n_envs: int,
    n_workers: int | None,
    envs_per_worker: int | None,
    one_env_each: bool,
    cores: int | None,
) -> tuple[int, int]:
    """Workers and envs for each, where only some are given. Raises ConfigError.

    The default is one env a worker, as SubprocVecEnv has it, or else one worker a core: where
    workers play episodes by themselves, and where one call steps all of a worker's envs. cores:
    None if nobody knows how many there are.
    """
    if n_workers is None and envs_per_worker is None:
        if cores is None and not one_env_each:
            raise ConfigError(
                "n_workers", "it has to be given with this --cluster: as many as it has cores"
            )
        n_workers = n_envs if one_env_each or cores is None else min(cores, n_envs)
    if n_workers is None:
        assert envs_per_worker is not None
        _require_at_least(1, "envs_per_worker", envs_per_worker)
        n_workers = math.ceil(n_envs / envs_per_worker)
    _require_at_least(1, "n_workers", n_workers)
    if n_workers > n_envs:
        raise ConfigError(
            "n_workers", f"{n_workers} is too large: at most n_envs, {n_envs}, have anything to do"
        )
    if envs_per_worker is None:
        envs_per_worker = math.ceil(n_envs / n_workers)
    _require_at_least(1, "envs_per_worker", envs_per_worker)
    if n_workers * envs_per_worker < n_envs:
        raise ConfigError(
            "envs_per_worker",
            f"{n_workers} workers of {envs_per_worker} have no room for {n_envs} envs: it must be "
            f"{math.ceil(n_envs / n_workers)} or greater, or left out",
        )
    return n_workers, envs_per_worker
