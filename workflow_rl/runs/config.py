"""The config of a training run. It is frozen, resolved and checked, and is saved with the run."""

import json
import math
from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, PrivateAttr

from workflow_rl.agents import algorithm
from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.agents.settings import Count, CountOrNone, OneOf, Settings, giver
from workflow_rl.agents.user_modules import is_found_as
from workflow_rl.collection.cluster_address import AUTO, LOCAL, NAMES, NONE, host_and_port
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.named_by_file import TRUST_IT, is_plain, require_named
from workflow_rl.environments.source import default_env, guests, interpreter
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.presets import KNOWN
from workflow_rl.runs.resolve import (
    LEAST_EPISODES,
    LEAST_OF_LONG,
    Asked,
    UnknownSettings,
    require_possible,
    resolve,
)
from workflow_rl.runs.signature import (
    CAME_FROM,
    SIGNATURE,
    import_classes,
    made_here,
    only_the_file_names,
    signed,
    unnamed_classes,
)

Mode: TypeAlias = Literal["sync", "async"]


POPULATION_FILE = "population.json"
"""The file with the configs of several policies. It marks a folder of several policies."""


class Resume(Enum):
    """How a resumed run may change a field. A field without this mark cannot be changed.

    FREE: to any value, because the field changes no weights, except the device.
    FREE_WITH_EPISODES: to any value, if rollouts are of complete episodes. LATER: to a larger
    number.
    """

    FREE = auto()
    FREE_WITH_EPISODES = auto()
    LATER = auto()


# Larger numbers can only be mistakes: they would fill the memory, or start too many processes.
Envs = Annotated[int, Field(ge=1, le=1_000_000)]
Episodes = Annotated[int, Field(ge=1, le=1_000_000)]
Workers = Annotated[int, Field(ge=1, le=4096)]
Threads = Annotated[int, Field(ge=1, le=1024)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000)]


def _readable(cluster: str) -> str:
    if cluster not in NAMES:
        host_and_port(cluster)  # Raises ValueError for an address that cannot be read.
    return cluster


_NAME_THE_ENVIRONMENT = {
    *("env", "env_args", "make_env", "named_by_file", "action_mask", "ignore_unknown"),
    *("preset", "algorithm", "env_python"),
}
"""The fields that decide the environment."""


class TrainConfig(Settings):
    """One training run. The constructor raises ConfigError.

    A field that is None in the constructor gets a default that follows from other fields: see
    `resolve.resolve`. `given` has the user's fields, and `changed` resolves them again.
    """

    mode: Mode = Field(description="Trainer: sync or async.")
    n_envs: Annotated[Envs, Resume.FREE_WITH_EPISODES] = Field(
        8,
        description="Number of environments. The synchronous trainer steps them together. The "
        "asynchronous trainer gives workers this number of episodes at a time.",
    )
    n_workers: Annotated[Workers, Resume.FREE] = Field(  # type: ignore[assignment]
        None,
        description="Worker processes. By default the synchronous trainer has a worker for each "
        "env, and the asynchronous trainer and the compiled simulator one for each core.",
    )
    envs_per_worker: Annotated[Envs, Resume.FREE] = Field(  # type: ignore[assignment]
        None,
        description="Environments that a worker owns. By default n_envs / n_workers.",
    )
    env: str = Field(
        default_factory=default_env,
        description="CAGE-2, or any Gymnasium environment: a registered id, module:ID, or "
        "module:function, where the function returns an environment.",
    )
    env_args: dict[str, Any] = Field({}, description="Arguments of the environment.")
    env_python: Annotated[str, AfterValidator(interpreter), Resume.FREE] = Field(
        "",
        description="Python interpreter that plays the environment, such as "
        "/opt/simulator/bin/python, where the simulator is installed. By default, the package's "
        "interpreter. See docs/how-to/own-python.md.",
    )
    action_mask: bool = Field(
        True,
        description="Exclude impossible actions, if the environment offers a mask in info or in a "
        "Dict observation.",
    )
    ignore_unknown: bool = Field(
        False,
        description="Leave out the entries of a Dict observation whose spaces are not supported, "
        "such as Text.",
    )
    total_episodes: Annotated[Count | None, Resume.LATER] = Field(
        None,
        description="Number of episodes of the whole run. The default for CAGE-2 is 3000.",
    )
    total_steps: Annotated[Count | None, Resume.LATER] = Field(
        None,
        description="Number of env steps of the whole run, instead of episodes. The last update is "
        "whole, so that a run plays some steps more. The default for other environments is 100000.",
    )
    episodes_per_update: Episodes | None = Field(
        None,
        description="Number of complete episodes in a rollout. Each update learns from one "
        "rollout. The default for CAGE-2 is 24.",
    )
    min_episodes_per_update: Episodes | None = Field(
        None,
        description="Smallest number of episodes in a rollout whose size is given in steps. The "
        "first rollout has this number. The default is 8, or 2 if 8 episodes have more than twice "
        "the rollout's steps.",
    )
    num_steps_per_env: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="Collect unrolls of this number of steps, and do not reset the envs between "
        "unrolls. By default workers play complete episodes.",
    )
    steps_per_update: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None,
        description="Number of steps in a rollout: exact for unrolls, estimated from earlier "
        "episodes for complete episodes. The default is 2048. The default for unrolls is the steps "
        "of 24 episodes on CAGE-2, one unroll of every env for sac and mbpo, and one worker's "
        "unroll for first-come batches.",
    )
    async_rl: bool = Field(
        False,
        description="Collect while learning. By default, every batch is then collected with the "
        "weights of exactly one update ago, and results are reproducible.",
    )
    batching: Literal["exact-lag", "whole-batches", "first-come"] = Field(
        "exact-lag",
        description="exact-lag: collect with the weights of exactly num_batches_to_accumulate "
        "updates ago. whole-batches: take an equal share of every env, with the newest weights. "
        "first-come: take what arrives first, each piece with the newest weights. With "
        "whole-batches and first-come, results differ from run to run.",
    )
    num_batches_to_accumulate: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1, description="Maximum number of batches that wait for the learner."
    )
    when_full: Literal["wait", "drop"] = Field(
        "wait",
        description="What happens when num_batches_to_accumulate batches wait: wait pauses "
        "collecting, drop drops the oldest batch.",
    )
    take_all: bool = Field(
        False, description="Learn from all waiting batches at once, or from one batch at a time."
    )
    curriculum: bool = Field(
        False,
        description="Tell your own environment how far the run is, from 0 to 1: its reset gets "
        "options['progress'] in training. See docs/how-to/own-environment.md.",
    )
    preset: Annotated[str, OneOf(KNOWN)] | None = Field(
        None,
        description="Take the defaults of a recipe, such as cage2-quick (docs/tutorial.md), "
        "any-network (docs/how-to/any-network.md) or sac-control (docs/explanations/mbpo.md), or "
        "the defaults of a known system (docs/explanations/modes.md). Settings that you give "
        "replace the preset's settings.",
    )
    seed: CountOrNone = Field(
        0,
        description="Seed of all random numbers. The same seed gives the same weights with any "
        "number of workers.",
    )
    device: Annotated[Literal["auto", "cpu", "cuda"], Resume.FREE] = Field(
        "cpu",
        description="Where the agent learns. auto is cuda if there is a GPU. Only the CPU promises "
        "equal weights.",
    )
    learner_threads: Threads = Field(
        1,
        description="CPU threads that the agent learns with, half of them for the actor and half "
        "for the critic. 1, 2 and 3 threads give the same results; more threads round differently.",
    )
    teacher: str | None = Field(
        None,
        description="Before the first update, copy this agent: a policy file, the folder of a run, "
        "a name that evaluate takes, such as champion, or episodes that record wrote. none copies "
        "no agent, even if the preset names one. See docs/how-to/teachers.md.",
    )
    teacher_episodes: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        100,
        description="Number of episodes that the teacher plays. From a file, all episodes are "
        "used. A tenth of the episodes is held out.",
    )
    teacher_epochs: Count = Field(10, description="Number of passes over the teacher's episodes.")
    checkpoint_every: Annotated[Count, Resume.FREE] = Field(
        10, description="Number of updates between checkpoints."
    )
    keep_every: Annotated[CountOrNone, Resume.FREE] = Field(
        0,
        description="Number of updates between checkpoints that are kept, in the folder kept, as "
        "candidates for the best agent. 0 keeps none.",
    )
    eval_every: CountOrNone = Field(
        0,
        description="Number of updates between evaluations in the run. The command "
        "evaluate plays other episodes. 0 never evaluates.",
    )
    eval_episodes: Episodes = Field(
        20, description="Number of episodes of each evaluation in the run."
    )
    stop_at_return: Annotated[Finite | None, Resume.FREE] = Field(
        None,
        description="End the run when the mean return reaches this number. It is the mean of the "
        "evaluation with eval_every, otherwise of the last 100 training episodes.",
    )
    patience: Annotated[Count | None, Resume.FREE] = Field(
        None,
        description="End the run after this number of updates in which the mean return of "
        "stop_at_return was not higher than before.",
    )
    play: Annotated[Literal["greedy", "sampled"] | None, Resume.FREE] = Field(
        None,
        description="How the agent plays after the training, when it is evaluated, exported or "
        "loaded: its likeliest actions, or sampled actions as in training. By default, its "
        "likeliest, unless --final-evaluation finds that sampled actions play much better.",
    )
    worker_timeout: Annotated[Seconds, Resume.FREE] = Field(
        60.0,
        description="Replace a worker that is silent for this number of seconds, such as in an "
        "endless step.",
    )
    max_worker_failures: Annotated[CountOrNone, Resume.FREE] = Field(
        10,
        description="Maximum number of workers that fail and are replaced. After one more failure "
        "the run stops. An episode that always raises is left out, and counts as one failure.",
    )
    cluster: Annotated[str, AfterValidator(_readable), Resume.FREE] = Field(
        NONE,
        description="Ray cluster of the workers: local starts a cluster on this machine, auto and "
        "host:port join a running cluster, none uses no cluster. See docs/how-to/cluster.md.",
    )
    slow_worker_ms: Annotated[float, Field(ge=0, le=1_000_000), Resume.FREE] = Field(
        0.0,
        description="Add this number of milliseconds to each step of the slow workers, to see the "
        "effect of stragglers. The results do not change.",
    )
    slow_worker_share: Annotated[float, Field(gt=0, le=1), Resume.FREE] = Field(
        0.1,
        description="Share of the workers that are slow, rounded up.",
    )
    algorithm: str = Field(
        "ppo",
        description="ppo learns from the steps of the newest policy. sac learns from all steps "
        "many times, for envs whose steps take long. mbpo also learns from steps that a model "
        "imagines. See docs/explanations/mbpo.md. module:Name imports an algorithm of your own.",
    )
    settings: Settings = Field(  # type: ignore[assignment]
        None,
        description="Settings of the algorithm: an object of its class, or a mapping with some of "
        "the settings. The other settings get the environment's defaults.",
    )
    reward_from: dict[str, Finite] = Field(
        {},
        description="Learn from another reward: a weighted sum of these costs of a step, and of "
        "reward, the environment's own reward: NAME=WEIGHT. See docs/how-to/budgets.md.",
    )
    make_env: Callable[..., Any] | None = Field(
        None,
        exclude=True,
        repr=False,
        description="Function that makes the environment. env is then only its name. The function "
        "is not saved with the run.",
    )
    named_by_file: bool = Field(
        False,
        exclude=True,
        repr=False,
        description="Whether only a stranger's file mentions the environment. It is then made only "
        "if nothing is imported. This field is not saved with the run.",
    )
    _asked: Asked = PrivateAttr()
    _environment: Environment = PrivateAttr()
    _plug_in: Algorithm | None = PrivateAttr()

    def __init__(
        self,
        mode: Any = None,
        n_envs: Any = None,
        /,
        *,
        known_environment: Environment | None = None,
        known_plug_in: Algorithm | None = None,
        **given: Any,
    ) -> None:
        """known_environment, known_plug_in: the objects that the fields name, if they are known."""
        positional = {"mode": mode, "n_envs": n_envs}
        given = {n: v for n, v in positional.items() if v is not None} | given
        asked = Asked.of(given, type(self).model_fields)
        super().__init__(**asked.fields(type(self).model_fields))
        resolved = resolve(dict(self), asked, known_environment, known_plug_in)
        values, self._environment, self._plug_in = resolved
        vars(self).update(values)
        self._asked = asked
        require_possible(self, self._plug_in)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainConfig) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def given(self) -> Mapping[str, Any]:
        """The fields that the user gave. All other fields are defaults."""
        return dict(self._asked.given)

    def origins(self) -> dict[str, str]:
        """Return the origin of values that are not general defaults, by name: "option" for the
        user's values, "preset", "environment", or the class of the settings."""
        kind, values, environment = type(self.settings), self.flat(), self.environment
        of_run = [n for n, v in environment.settings.items() if getattr(self, n, None) == v]
        given, preset = self._asked.given, dict(self._asked.preset)
        preset |= {**preset.pop("env_args", {}), **preset.pop("settings", {})}
        plain = json.loads(json.dumps(preset))  # Tuples become lists, as in `values`.
        asked = {*given, *(given.get("env_args") or {})}
        settings = given.get("settings") or {}
        if isinstance(settings, Settings):  # The object does not say which values the user gave.
            usual = self.plug_in.settings_for(environment.settings, {})
            plain_settings = {n: v for n, v in plain.items() if n in kind.model_fields}
            unasked = {**usual.to_dict(), **plain_settings}
            asked |= {name for name in unasked if unasked[name] != values[name]}
        else:
            asked |= {*settings}
        return {
            **{name: f"class {giver(kind, name).__name__}" for name in kind.model_fields},
            **dict.fromkeys([*environment.args, *of_run], "environment"),
            **dict.fromkeys(self.plug_in.replaced_by(environment.settings), "environment"),
            **{name: "preset" for name in plain if plain[name] == values.get(name)},
            **dict.fromkeys(asked & values.keys(), "option"),
        }

    def changed(self, **changes: Any) -> Self:
        """Return the config of the given fields with these changes. None asks for a default."""
        is_other = changes.keys() & _NAME_THE_ENVIRONMENT
        learns_otherwise = changes.keys() & {"algorithm", "preset"}
        return type(self)(
            known_environment=None if is_other else self._environment,
            known_plug_in=None if learns_otherwise else self._plug_in,
            **{**self._asked.given, **changes},
        )

    @property
    def environment(self) -> Environment:
        """The environment that `env` and `env_args` name. No env is made yet."""
        return self._environment

    @property
    def plug_in(self) -> Algorithm:
        """The algorithm that `algorithm` names. Raises ConfigError if only a file mentions it."""
        return self._plug_in or algorithm.find(self.algorithm)

    @property
    def total_of_curriculum(self) -> int | None:
        """The number of episodes at which the progress is 1; None without a curriculum."""
        return self.total_episodes if self.curriculum else None

    def require_named(self, names_cluster: bool = False) -> None:
        """Raise ConfigError if training would import, start or read something, or join a cluster,
        that only a stranger's file mentions.

        names_cluster: whether the user names the cluster.
        """
        if isinstance(self.settings, UnknownSettings):
            raise ConfigError("algorithm", only_the_file_names(self.to_dict()))
        require_named(self.environment)
        if self.named_by_file and not is_plain(self.teacher):
            raise ConfigError(
                "teacher", f"only the file mentions the agent {self.teacher}: {TRUST_IT}"
            )
        if not names_cluster and self.cluster not in (NONE, LOCAL):
            raise ConfigError(
                "cluster",
                f"only the file mentions the cluster {self.cluster}: give --cluster {self.cluster} "
                "to join it, or --cluster none",
            )

    def episodes_of_rollout(self, length: float) -> int:
        """Return the number of episodes in a rollout. length: their length; 0 if it is unknown."""
        if self.episodes_per_update is not None:
            return self.episodes_per_update
        assert self.steps_per_update is not None
        n_episodes = self.steps_per_update / (length or math.inf)
        # Eight long episodes would make updates rare.
        if self.min_episodes_per_update is None and LEAST_EPISODES > 2 * n_episodes > 0:
            return max(LEAST_OF_LONG, round(n_episodes))
        return max(self.min_episodes_per_update or LEAST_EPISODES, math.ceil(n_episodes))

    def progress(self, episodes: int, env_steps: int) -> float:
        if self.total_episodes is not None:
            return min(1, episodes / self.total_episodes)
        assert self.total_steps is not None
        return min(1, env_steps / self.total_steps)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for config.json and checkpoints.

        A guest's arguments are beside the other fields, like a guest's options on the command line.
        Arguments of other environments can have any name, and are under env_args.
        """
        values = self.model_dump(mode="json", exclude={"settings", "env_args"})
        return {**values, "settings": self.settings.to_dict(), **self.named_env_args}

    def to_save(self) -> dict[str, Any]:
        """Return `to_dict` for files, signed if the user named all of it: see `signature`."""
        is_named = not self.named_by_file and not isinstance(self.settings, UnknownSettings)
        # If `env` does not name the function, a resume would not find it.
        is_found = self.make_env is None or is_found_as(self.env, self.make_env)
        return signed(self.to_dict()) if is_named and is_found else self.to_dict()

    @property
    def named_env_args(self) -> dict[str, Any]:
        """The environment's arguments in the form of files."""
        args = json.loads(json.dumps(self.env_args))
        return args if self.env in guests else {"env_args": args}

    def flat(self) -> dict[str, Any]:
        """Return `to_dict` with the settings of the algorithm beside the other fields."""
        return flattened(self.to_dict())

    @classmethod
    def parts(cls, saved: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the environment's arguments in a result of `to_dict` or `to_save`, and the other
        fields.

        Raises UserError for other fields than this version's, KeyError and TypeError.
        """
        values = {name: saved[name] for name in saved if name not in (SIGNATURE, CAME_FROM)}
        fields = {name: field for name, field in cls.model_fields.items() if not field.exclude}
        guest = guests.get(saved["env"])
        arguments = {} if guest is None else guest.arguments().model_fields
        if guest is not None:
            del fields["env_args"]
        require_same_fields(values, {**fields, **arguments})
        if guest is None:
            return values.pop("env_args"), values
        return {name: values.pop(name) for name in arguments}, values

    @classmethod
    def from_dict(
        cls,
        saved: Mapping[str, Any],
        environment: Environment | None = None,
        plug_in: Algorithm | None = None,
    ) -> Self:
        """Return the config from a result of `to_dict` or `to_save`, as data.

        Nothing that the values name is imported or called. The algorithm must be a known algorithm,
        and no env is made. Raises KeyError, TypeError or ValueError.

        environment: the environment, if the user names it. plug_in: the algorithm, if it is known.
        """
        args, values = cls.parts(saved)
        if unnamed_classes(saved):
            plug_in = None
        elif plug_in is None or plug_in.name != values["algorithm"]:
            plug_in = algorithm.find(values["algorithm"])
        kind = UnknownSettings if plug_in is None else plug_in.settings
        if plug_in is not None:
            known = kind.model_fields
            require_same_fields({**known, **values["settings"]}, known)
        return cls(
            **{**values, "settings": kind(**values["settings"])},
            env_args=args,
            named_by_file=environment is None and not made_here(saved),
            known_environment=environment,
            known_plug_in=plug_in,
        )

    @classmethod
    def to_train(
        cls,
        saved: Mapping[str, Any],
        environment: Environment | None = None,
        plug_in: Algorithm | None = None,
        names_cluster: bool = False,
    ) -> Self:
        """Return the config from a result of `to_dict` or `to_save`, for training. Modules that the
        user's own command wrote there are imported. Raises the errors of `from_dict` and
        `require_named`."""
        import_classes(saved)
        config = cls.from_dict(saved, environment, plug_in)
        is_auto_of_ours = config.cluster == AUTO and made_here(saved)
        config.require_named(names_cluster or is_auto_of_ours)
        return config


def require_same_fields(found: Collection[str], expected: Collection[str]) -> None:
    """Raise UserError if a file's fields differ from the fields that this version writes."""
    for name in sorted({*found} ^ {*expected}):
        what = "has" if name in found else "lacks"
        raise UserError(f"it was made by another version of the package: it {what} {name!r:.50}")


def flattened(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved config with the settings of the algorithm beside the other fields."""
    return {**{n: value for n, value in saved.items() if n != "settings"}, **saved["settings"]}
