"""Policy files: plain arrays, which are read without torch and without pickle."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from workflow_rl.agents.policies.archive import read_archive, sealed
from workflow_rl.agents.policies.distributions import Categorical, from_plain
from workflow_rl.agents.policies.network import ACTIVATIONS
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.errors import UserError

VERSION = 1

Parsed = TypeVar("Parsed")

_OPTIONAL = ("log_std", "obs_mean", "obs_scale")


def save_policy(file: Path | IO[bytes], policy: PolicyParameters, about: Mapping[str, Any]) -> None:
    """Write a policy as a sealed .npz file.

    about: plain values that are kept with the policy, such as its environment.
    """
    save_file(file, *packed(policy), about)


def save_file(
    file: Path | IO[bytes],
    settings: Mapping[str, Any],
    arrays: Mapping[str, Any],
    about: Mapping[str, Any],
) -> None:
    """Write plain settings and arrays as a sealed .npz file."""
    archive = io.BytesIO()
    text = json.dumps({"version": VERSION, **settings, "about": about})
    np.savez(archive, settings=np.array(text), **arrays)
    content = sealed(archive.getvalue())
    if isinstance(file, Path):
        file.write_bytes(content)
    else:
        file.write(content)


def load_policy(
    path: str | os.PathLike[str], content: bytes | None = None
) -> tuple[PolicyParameters, dict[str, Any]]:
    """Return the policy and what was kept with it. Nothing in the file is run.

    content: what the file holds, if it was read already.

    Raises OSError, and ValueError, which says what is wrong, for other files.
    """
    return load_file(path, unpacked, content)


def load_file(
    path: str | os.PathLike[str],
    parsed: Callable[[dict[str, Any], dict[str, Any]], Parsed],
    content: bytes | None = None,
    kind: str = "policy file",
) -> tuple[Parsed, dict[str, Any]]:
    """Return what `parsed` makes of a file's settings and arrays, and what was kept with it.

    parsed: may raise anything. content: see `load_policy`, which raises the same. kind: what an
    error calls the file.
    """
    try:
        archive = read_archive(Path(path), content)
        with np.load(io.BytesIO(archive), allow_pickle=False) as file:
            settings = json.loads(str(file["settings"]))
            if settings["version"] != VERSION:
                raise ValueError(f"{path} is of version {settings['version']}, not {VERSION}")
            arrays = {name: file[name] for name in file.files if name != "settings"}
        return parsed(settings, arrays), dict(settings["about"])
    except OSError:
        raise
    except Exception as error:  # A damaged file can raise anything.
        told = isinstance(error, UserError) or "version" in str(error)
        reason = f" ({error})" if told else ""
        raise ValueError(f"{path} is no {kind}{reason}") from None


def packed(policy: PolicyParameters) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy's settings, which are plain, and its arrays."""
    n_layers = len(policy.weights)
    arrays: dict[str, Any] = {f"weight_{n}": policy.weights[n] for n in range(n_layers)}
    arrays |= {f"bias_{n}": policy.biases[n] for n in range(n_layers)}
    for name in _OPTIONAL:
        if (array := getattr(policy, name)) is not None:
            arrays[name] = array
    actions = policy.distribution or Categorical(policy.described().n_outputs)
    settings = {
        "network": policy.network,
        "network_args": dict(policy.network_args),
        "masked": policy.masked,
        "n_further": policy.n_further,
        "sampled": policy.sampled,
        "layers": n_layers,
        "activation": policy.activation,
        "distribution": actions.to_plain(),
    }
    return settings, arrays


def unpacked(settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> PolicyParameters:
    """Return the policy of its settings and arrays. Raises UserError, and anything else."""
    # At most as many as there are arrays: the file may say any number.
    layers = range(settings["layers"])[: len(arrays)]
    given = [name for name in _OPTIONAL if name in arrays]
    expected = [f"{kind}_{n}" for kind in ("weight", "bias") for n in layers]
    if sorted(arrays) != sorted([*expected, *given]):
        raise ValueError("its members are others")
    policy = PolicyParameters(
        tuple(arrays[f"weight_{n}"] for n in layers),
        tuple(arrays[f"bias_{n}"] for n in layers),
        settings["activation"],
        **{name: arrays[name] for name in given},
        distribution=from_plain(settings["distribution"]),
        network=settings["network"],
        network_args={**settings.get("network_args", {})},  # A file may hold any type.
        masked=settings.get("masked", False),
        n_further=settings.get("n_further", 0),
        sampled=settings.get("sampled", False),
    )
    if not _fits_together(policy):
        raise UserError("its layers do not fit together")
    return policy


def _fits_together(policy: PolicyParameters) -> bool:
    distribution, network = policy.distribution, policy.described()
    assert distribution is not None
    n_inputs, n_outputs = network.n_inputs, network.n_outputs
    normalising = [array for array in (policy.obs_mean, policy.obs_scale) if array is not None]
    log_std = [] if policy.log_std is None else [policy.log_std]
    arrays = [*policy.weights, *policy.biases, *normalising, *log_std]
    return (
        ":" not in policy.network  # A class of the user's is in checkpoints alone: it needs torch.
        and network.fits(policy.layers)
        and type(policy.masked) is bool
        and type(policy.n_further) is int
        and type(policy.sampled) is bool
        and policy.n_further >= 0
        and (distribution.takes_masks or not policy.masked)
        and type(distribution.n_outputs) is int
        and distribution.n_outputs == n_outputs >= 1
        and [array.shape for array in normalising] in ([], [(n_inputs,)] * 2)
        and [array.shape for array in log_std] == [(n_outputs,)] * distribution.has_log_std
        and all(array.dtype == np.float32 for array in arrays)
        and not any(np.isnan(array).any() for array in arrays)
        and policy.activation in ACTIVATIONS
    )
