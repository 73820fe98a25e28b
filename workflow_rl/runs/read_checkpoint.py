"""What a checkpoint means: whose run it is of, where that run stands, and its agent, which another
agent can begin with or go on from. Nothing in the file is run."""

import dataclasses
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from workflow_rl import __version__
from workflow_rl.agents.algorithm import Algorithm, LearningAgent
from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import Parameters
from workflow_rl.agents.settings import Settings
from workflow_rl.collection.schedule import BegunBatch, Share
from workflow_rl.environments.named_by_file import is_plain, texts_in
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.output_files import NOT_OURS, no_pipe, require_numbers
from workflow_rl.runs.checkpoint import (
    FORMAT,
    LATEST,
    MEMORY_FOLDER,
    Checkpoint,
    read_values,
    writing_of,
)
from workflow_rl.runs.config import TrainConfig, require_same_fields
from workflow_rl.runs.folder import NEEDED
from workflow_rl.runs.resolve import UnknownSettings
from workflow_rl.runs.return_curves import RECENT_EPISODES
from workflow_rl.runs.signature import import_classes, only_the_file_names
from workflow_rl.runs.training_state import TrainingState

_PARTS = ("format", "config", "agent", "training", "policies", "run_id", "memory")
_OF_ROW = {*NEEDED, "eval_return_mean", "worker_utilisation"}
MOST_SECONDS = 1e12
"""Seconds of a run, or steps of an episode. To more, a float would not add a millisecond."""
_POLICY = (
    "is a policy file, which acts but has no critic to learn with: give a run's folder or a "
    "checkpoint (.safetensors)"
)
_ARCHIVE = (
    "is an archive: unpack it, and give what is in it. A model of Stable-Baselines3 plays by a "
    "script like examples/sb3_ppo.py (docs/how-to/clients.md)"
)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint of this package. Raises UserError."""
    if not path.is_file():
        raise UserError(f"there is no checkpoint at {path}")
    try:
        written = writing_of(path)
        content = read_values(path)
    except Exception as error:  # A stranger's file can raise any exception in its reader.
        reason = f": {str(error)[:300]}" if isinstance(error, ValueError) else ""
        what = f"is damaged, or not a checkpoint{reason}"
        with suppress(OSError), open(path, "rb", opener=no_pipe) as file:
            if file.read(4) == b"PK\3\4":
                what = _POLICY if path.suffix == ".npz" else _ARCHIVE
        raise UserError(f"{path} {what}") from None
    try:
        if content["format"] != FORMAT:
            raise UserError(
                f"its checkpoint format is {content['format']!s:.50}, but this version reads "
                f"{FORMAT}"
            )
        require_same_fields(content, _PARTS)
        training = _training_state(content["training"])
        config, agent = dict(content["config"]), dict(content["agent"])
        begun = [_begun_batch(values, config) for values in content["policies"]]
        memory = None
        if content["memory"] is not None:
            from workflow_rl.runs.replay_files import parts_of  # Few agents have a memory.

            memory = parts_of(content["memory"])
        run_id = str(content["run_id"])
        return Checkpoint(config, agent, training, begun, run_id, memory, written)
    except UserError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    except Exception:  # A stranger's file can raise any exception in its reader.
        raise UserError(f"{path} is not a checkpoint of this package") from None


def own_config(checkpoint: Checkpoint, path: Path) -> TrainConfig:
    """Return the config of a checkpoint's run. Raises UserError, naming `path`."""
    try:
        return TrainConfig.from_dict(checkpoint.config)
    except ConfigError as error:
        raise UserError(f"{path} has a config that cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path} has a config that version {__version__} cannot read: {str(error)[:300]}"
        ) from None


def own_settings(checkpoint: Checkpoint, path: Path) -> tuple[Algorithm, Settings]:
    """Return the algorithm of a checkpoint's run, and its settings. Raises UserError."""
    try:
        import_classes(checkpoint.config)
    except ConfigError as error:
        raise UserError(f"{path}: {error}") from None
    config = own_config(checkpoint, path)
    if isinstance(config.settings, UnknownSettings):
        raise UserError(f"{path}: {only_the_file_names(checkpoint.config)}")
    return config.plug_in, config.settings


def own_policy(checkpoint: Checkpoint, path: Path) -> Parameters:
    """Return the actor of a checkpoint, if the network fits the checkpoint's config.

    No agent is made: a config can describe one that fills the memory. Raises UserError.
    """
    algorithm, settings = own_settings(checkpoint, path)
    try:
        parameters = algorithm.saved_policy(settings, checkpoint.agent)
        finite = not any(tensor.isnan().any() for tensor in checkpoint.agent["network"].values())
    except RuntimeError:
        raise UserError(f"{path} has a network of another shape than its config says") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be used: {error}") from None
    except (LookupError, TypeError, AttributeError):
        raise UserError(f"{path} is not a checkpoint of this package") from None
    if not finite:
        raise UserError(f"{path} has weights that are no numbers")
    return parameters


def _begun_batch(values: Any, config: Mapping[str, Any]) -> BegunBatch:
    """Return the batch from what `save_checkpoint` writes of the batch.

    config: the run's config. Raises UserError. Values that are no batch can raise any exception.
    """
    # Few checkpoints have a begun batch.
    from workflow_rl.agents.policies.team_policy import unpacked_policies

    share = values["share"]
    arrays = {name: tensor.numpy() for name, tensor in values["arrays"].items()}
    parameters = unpacked_policies(values["settings"], arrays, may_be_own=True)
    named = {*texts_in(config["settings"])}
    for member in getattr(parameters, "parameters", {"": parameters}).values():
        # Only the config is signed, so only the config may name files for a user's class.
        if ":" in member.network and not is_plain([*{*texts_in(member.network_args)} - named]):
            raise UserError(f"only a batch in it gives {member.network} the name of a file")
    share = None if share is None else Share._make(share)
    numbers = (values["policy_version"], *(share or ()))
    # The last number is how many episodes there are. A list of too many would fill the memory.
    if not all(type(n) is int and 0 <= n < 2**63 for n in numbers) or numbers[-1] > 10**8:
        raise ValueError("a batch in it has no share of a run")
    return BegunBatch(parameters.actor(numbers[0]), share)


def _training_state(values: dict[str, Any]) -> TrainingState:
    """Return the state from a result of its `to_dict`. Wrong values raise ValueError and others."""
    require_same_fields(values, [field.name for field in dataclasses.fields(TrainingState)])
    recent = {
        "recent_returns": deque(map(float, values["recent_returns"]), maxlen=RECENT_EPISODES),
        "recent_variants": deque(map(str, values["recent_variants"]), maxlen=RECENT_EPISODES),
        "recent_costs": deque(_sums(values["recent_costs"]), maxlen=RECENT_EPISODES),
        "evaluated_costs": _sums(values["evaluated_costs"]),
        "skipped_episodes": list(map(int, values["skipped_episodes"])),
        "unfinished": list(map(int, values["unfinished"])),
    }
    slots = [_slot(*slot) for slot in values["slots"]]
    state = TrainingState(**{**values, **recent, "slots": slots})
    state.best_score = float(state.best_score)
    _require_numbers(state)
    if (row := state.unlogged) is not None:
        require_numbers(*row.values())
        is_whole = row.keys() >= _OF_ROW and {*map(type, row)} == {str}
        if not is_whole or row["update"] != state.updates:
            raise ValueError("its row of metrics is not the last update's")
    return state


def _require_numbers(state: TrainingState) -> None:
    """Raise ValueError if a count or a number of seconds is not finite, or no run has as many."""
    kinds: dict[Any, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,)}
    for counter in dataclasses.fields(state):
        value, expected = getattr(state, counter.name), kinds.get(counter.type)
        if expected is None or counter.name == "best_score":  # best_score begins as -inf.
            continue
        most = MOST_SECONDS if counter.type is float else 2**63
        if type(value) not in expected or not abs(value) < most:
            raise ValueError(f"{counter.name} is no number")


def _sums(costs: Any) -> list[list[float]]:
    sums = [[float(cost) for cost in of_episode] for of_episode in costs]
    if not all(abs(cost) < float("inf") for of_episode in sums for cost in of_episode):
        raise ValueError("a cost of an episode is no number")
    return sums


def _slot(episode: int, actions: Any, total: int | None) -> tuple[int, Actions | None, int | None]:
    if actions is None:
        return episode, None, total
    return episode, (actions.long() if actions.dtype == torch.uint8 else actions).numpy(), total


def restored_agent(agent: LearningAgent, checkpoint: Checkpoint, path: Path) -> None:
    """Load a checkpoint's state into the agent. Raises UserError, naming `path`."""
    try:
        agent.load_state_dict(checkpoint.agent)
    except (*NOT_OURS, RuntimeError) as error:
        reason = str(error) if type(error) is ValueError else "the networks have another shape"
        if type(error) is KeyError:
            reason = f"it was made by another version of the package: it lacks {error}"
        raise UserError(f"{path} does not fit its config: {reason}") from None


def load_memory(agent: LearningAgent, checkpoint: Checkpoint, run_path: Path) -> None:
    """Load the steps that the agent remembers, if it has a memory. Raises UserError."""
    memories = agent.memory()
    if not memories:
        return
    from workflow_rl.runs import replay_files  # Few agents have a memory.

    path = run_path / LATEST
    if checkpoint.memory is None:
        raise UserError(
            f"{path} was saved without the steps that its agent remembers, as best.safetensors and "
            "those in kept are: a run cannot go on with it, but another can begin with it "
            "(--init-from)"
        )
    try:
        replay_files.read_parts(run_path / MEMORY_FOLDER, checkpoint.memory, memories)
    except OSError as error:
        raise UserError(
            f"{path} needs {error.filename}, which cannot be read: {error.strerror}"
        ) from None
    except ValueError as error:
        raise UserError(f"{path} cannot be gone on with: {error}") from None


def begin_with(agent: LearningAgent, checkpoint: Checkpoint, config: TrainConfig) -> None:
    """Load another run's weights. Raises UserError; ConfigError if the config has a teacher."""
    if config.teacher is not None:
        raise ConfigError(
            "teacher",
            f"{config.teacher} and the run to begin with both give weights: name one, and no "
            "teacher (none, in Python None) beside the run",
        )
    _require_same_function(checkpoint, config)
    try:
        agent.load_policy(checkpoint.agent)
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reasons = {RuntimeError: "its networks have another shape", ValueError: str(error)}
        missing = f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
        why = reasons.get(type(error), missing)
        raise UserError(f"the agent of --init-from does not fit this run: {why}") from None


def _require_same_function(checkpoint: Checkpoint, config: TrainConfig) -> None:
    """Raise UserError if the weights would compute another function in this run."""
    try:
        theirs = _function(checkpoint.config["settings"])
    except NOT_OURS:
        return  # Loading the weights reports the error.
    ours = _function(config.settings.to_dict())
    for name, before in theirs.items():
        if None not in (before, ours[name]) and before != ours[name]:
            raise UserError(
                f"the agent of --init-from does not fit this run: it learned with {name} {before}, "
                f"and this run has {ours[name]}"
            )


def _function(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that decide what weights compute. Raises an error of NOT_OURS."""
    kind = settings.get("network", "mlp")
    defaults = {field.name: field.default for field in dataclasses.fields(NETWORKS[kind])}
    args = {
        name: default for name, default in defaults.items() if default is not dataclasses.MISSING
    }
    args |= dict(settings.get("network_args", {}))
    args.pop("seen_again", None)  # This setting of unrolls does not change the function.
    return {"network": kind, "activation": settings.get("activation"), "network_args": args}
