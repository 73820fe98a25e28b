"""A policy as a file of plain arrays: all that acts, readable without torch and without pickle."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from agents.distributions import Categorical, from_plain, to_plain
from agents.numpy_policy import ACTIVATIONS, FORWARD, PolicyParameters

VERSION = 1

_OPTIONAL = ("log_std", "obs_mean", "obs_scale")


def save_policy(file: Path | IO[bytes], policy: PolicyParameters, about: Mapping[str, Any]) -> None:
    """Write it as .npz. about: plain values that are kept with it, such as its environment."""
    n_layers = len(policy.weights)
    arrays: dict[str, Any] = {f"weight_{n}": policy.weights[n] for n in range(n_layers)}
    arrays |= {f"bias_{n}": policy.biases[n] for n in range(n_layers)}
    for name in _OPTIONAL:
        if (array := getattr(policy, name)) is not None:
            arrays[name] = array
    settings = {
        "version": VERSION,
        "network": policy.network,
        "layers": n_layers,
        "activation": policy.activation,
        "distribution": to_plain(policy.distribution or Categorical(len(policy.biases[-1]))),
        "about": about,
    }
    np.savez(file, settings=np.array(json.dumps(settings)), **arrays)


def load_policy(path: Path) -> tuple[PolicyParameters, dict[str, Any]]:
    """The policy and what was kept with it. Runs nothing of the file.

    Raises OSError, and ValueError, saying what is wrong, if it is no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            settings = json.loads(str(file["settings"]))
            if settings["version"] != VERSION:
                raise ValueError(f"{path} is of version {settings['version']}, not {VERSION}")
            layers = range(settings["layers"])
            policy = PolicyParameters(
                tuple(file[f"weight_{n}"] for n in layers),
                tuple(file[f"bias_{n}"] for n in layers),
                settings["activation"],
                **{name: file[name] for name in _OPTIONAL if name in file},
                distribution=from_plain(settings["distribution"]),
                network=settings["network"],
            )
            about = dict(settings["about"])
    except (KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, ValueError) as error:
        reason = f" ({error})" if "version" in str(error) else ""
        raise ValueError(f"{path} is no policy file{reason}") from None
    _check_shapes(path, policy)
    return policy, about


def _check_shapes(path: Path, policy: PolicyParameters) -> None:
    assert policy.distribution is not None
    sizes = [len(policy.weights[0]), *(len(bias) for bias in policy.biases)]
    shapes = [weight.shape for weight in policy.weights]
    fits = shapes == list(itertools.pairwise(sizes))
    known = policy.activation in ACTIVATIONS and policy.network in FORWARD
    if not (fits and known and sizes[-1] == policy.distribution.n_outputs):
        raise ValueError(f"{path} is no policy file (its layers do not fit together)")
