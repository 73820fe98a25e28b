"""Checkpoints: written under a temporary name and renamed, read without running code."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workflow_rl import __version__
from workflow_rl.agents.algorithm import Algorithm
from workflow_rl.agents.policies.numpy_policy import Parameters
from workflow_rl.agents.settings import Settings
from workflow_rl.collection.schedule import BegunBatch, Share
from workflow_rl.environments.named_by_file import is_plain, texts_in
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint_file import read_values, write_values
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.handed_in import LIST
from workflow_rl.runs.saved_config import (
    UnknownSettings,
    import_classes,
    only_the_file_names,
    require_same_fields,
)
from workflow_rl.runs.training_state import TrainingState

if TYPE_CHECKING:
    from workflow_rl.runs.replay_files import Part

FORMAT = 4
MEMORY_FOLDER = "memory"
"""The steps that an agent remembers, beside the latest checkpoint."""
_PARTS = ("format", "config", "agent", "training", "policies", "run_id", "memory")
_SOME_BYTES = 2**16
_EARLIER = "was made by an earlier version of the package, and this version cannot read it"
_OTHER_KINDS = {
    b"_stable_baselines3_version": "is a model of Stable-Baselines3, which only that loads: a "
    "script like examples/sb3_ppo.py can play it on our environment (docs/how-to/clients.md)",
    b"/data.pkl": _EARLIER,
    LIST.encode(): "is a folder for a challenge, packed: unpack it, and give the policy in it",
    b".npy": "is a policy file, which acts but has no critic to learn with: give a run's folder or "
    "a checkpoint (.safetensors)",
}
"""What an archive is, by the name of a file in it."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped.

    config: TrainConfig.to_save(). agent: PPOAgent.state_dict(). begun: the batches that are being
    collected meanwhile. run_id: of the run that saved it. memory: the files with the steps that the
    agent remembers, if this is the latest checkpoint of a run whose agent remembers any. written:
    `writing_of` its file, if it was read from one. There is no random state to keep: every random
    stream is derived from the run's seed and the counters in `training`.
    """

    config: dict[str, Any]
    agent: dict[str, Any]
    training: TrainingState
    begun: list[BegunBatch] = field(default_factory=list)
    run_id: str = ""
    memory: list[Part] | None = None
    written: tuple[int, int] | None = None


def writing_of(path: Path) -> tuple[int, int]:
    """Return what is another after each writing of a file. Raises OSError."""
    about = path.stat()
    return about.st_ino, about.st_mtime_ns


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace `path` in one step: a reader, or a crash, finds the old one or the new one."""
    content = {
        "format": FORMAT,
        "config": checkpoint.config,
        "agent": checkpoint.agent,
        "training": checkpoint.training.to_dict(),
        "policies": [_plain_batch(batch) for batch in checkpoint.begun],
        "run_id": checkpoint.run_id,
        "memory": None if checkpoint.memory is None else [list(part) for part in checkpoint.memory],
    }
    write_values(path, content)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint of this package. Raises UserError."""
    if not path.is_file():
        earlier = path.with_suffix(".pt")
        if earlier.is_file():
            raise UserError(f"{earlier} {_EARLIER}")
        raise UserError(f"there is no checkpoint at {path}")
    try:
        written = writing_of(path)
        content = read_values(path)
    except Exception as error:  # Whatever somebody else's file makes of its reader.
        reason = f": {str(error)[:300]}" if isinstance(error, ValueError) else ""
        damage = f"is damaged, or not a checkpoint{reason}"
        raise UserError(f"{path} {_other_kind(path) or damage}") from None
    try:
        if content["format"] != FORMAT:
            raise UserError(
                f"its checkpoint format is {content['format']!s:.50}, but this version reads "
                f"{FORMAT}"
            )
        require_same_fields(content, _PARTS)
        training = TrainingState.from_dict(content["training"])
        config, agent = dict(content["config"]), dict(content["agent"])
        begun = [_begun_batch(values, config) for values in content["policies"]]
        memory = None
        if content["memory"] is not None:
            from workflow_rl.runs.replay_files import parts_of  # Few agents remember anything.

            memory = parts_of(content["memory"])
        run_id = str(content["run_id"])
        return Checkpoint(config, agent, training, begun, run_id, memory, written)
    except UserError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    except Exception:  # Whatever somebody else's file makes of its reader.
        raise UserError(f"{path} is not a checkpoint of this package") from None


def _other_kind(path: Path) -> str:
    """Return what an archive is that is given in the place of a checkpoint; nothing for others.

    An archive has the names of its members in its last bytes, and that of the first one in its
    first bytes.
    """
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(_SOME_BYTES)
        file.seek(max(0, path.stat().st_size - _SOME_BYTES))
        names = beginning + file.read(_SOME_BYTES)
        if beginning.startswith(b"PK\3\4"):
            return next((kind for name, kind in _OTHER_KINDS.items() if name in names), "")
    return ""


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
    """Return the algorithm of a checkpoint's run, and its settings.

    Raises UserError, naming `path`.
    """
    try:
        import_classes(checkpoint.config)
    except ConfigError as error:
        raise UserError(f"{path}: {error}") from None
    config = own_config(checkpoint, path)
    if isinstance(config.settings, UnknownSettings):
        raise UserError(f"{path}: {only_the_file_names(checkpoint.config)}")
    return config.plug_in, config.settings


def own_policy(checkpoint: Checkpoint, path: Path) -> Parameters:
    """Return the actor of a checkpoint, if its network is the one that its config describes.

    No agent is made: what a config describes could take a machine's memory. Raises
    UserError, naming `path`.
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


def _plain_batch(batch: BegunBatch) -> dict[str, Any]:
    """Return a batch that is being collected as tensors and plain values."""
    settings, arrays = batch.policy.parameters.packed()
    return {
        "settings": settings,
        "arrays": {name: torch.from_numpy(array) for name, array in arrays.items()},
        "policy_version": batch.policy.policy_version,
        "share": None if batch.share is None else list(batch.share),
    }


def _begun_batch(values: Any, config: Mapping[str, Any]) -> BegunBatch:
    """Return the batch that `_plain_batch` gave.

    config: of the run. Raises UserError, and anything else for what never was a batch.
    """
    # Few checkpoints have such a batch.
    from workflow_rl.agents.policies.team_policy import unpacked_policies

    share = values["share"]
    arrays = {name: tensor.numpy() for name, tensor in values["arrays"].items()}
    parameters = unpacked_policies(values["settings"], arrays, may_be_own=True)
    named = {*texts_in(config["settings"])}
    for member in getattr(parameters, "parameters", {"": parameters}).values():
        # The config alone is signed: it names the files that a class of the user's gets.
        if ":" in member.network and not is_plain([*{*texts_in(member.network_args)} - named]):
            raise UserError(f"only a batch in it gives {member.network} the name of a file")
    return BegunBatch(parameters.actor(values["policy_version"]), share and Share._make(share))
