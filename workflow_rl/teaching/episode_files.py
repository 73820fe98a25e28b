"""Files of recorded episodes: plain arrays, which are read without pickle.

docs/reference/episodes.md describes the arrays for other readers and writers.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workflow_rl.agents.policies.distributions import Actions, Categorical, Distribution
from workflow_rl.agents.policies.further_distributions import Mixed, MultiCategorical, from_plain
from workflow_rl.agents.policies.policy_file import load_file, save_file
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import team_layout
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.collection.rollout import what_is_not_finite
from workflow_rl.errors import UserError
from workflow_rl.output_files import NOT_OURS, no_pipe, replacing

_OF_STEPS = ("obs", "action", "reward")
_OF_EPISODES = ("length", "last_obs", "terminated", "truncated", "episode", "variant")
_MEMBERS = {f"{name}.npy" for name in ("settings", *_OF_STEPS, *_OF_EPISODES)}


MINARI = "minari:"
"""The beginning of a path that names a dataset of Minari."""


class Recorded(NamedTuple):
    """Complete episodes, at least one. spaces: the result of `plain_spaces`. about: the origin of
    the episodes, in plain values."""

    trajectories: Sequence[Trajectory]
    spaces: Mapping[str, Any]
    about: Mapping[str, Any]


def plain_spaces(spaces: Spaces) -> dict[str, Any]:
    """Return a description of an environment's rows and actions, in plain values. Entities are left
    out, because rows do not depend on the declared entities."""
    team = None if spaces.team is None else spaces.team.to_plain()
    values = {
        "obs_dim": spaces.obs_dim,
        "actions": spaces.distribution.to_plain(),
        "masked": spaces.masked,
        "privileged": spaces.privileged,
        "team": team and {name: value for name, value in team.items() if name != "entities"},
    }
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def write_episodes(path: Path, recorded: Recorded) -> None:
    """Write complete episodes as a sealed .npz file. Raises OSError."""
    columns = {name: [getattr(t, name) for t in recorded.trajectories] for name in _OF_EPISODES}
    arrays = {name: np.array(column) for name, column in columns.items()}
    arrays |= {
        name: np.concatenate([getattr(trajectory, name) for trajectory in recorded.trajectories])
        for name in _OF_STEPS
    }
    with replacing(path, "wb") as file:
        save_file(file, {"spaces": recorded.spaces}, arrays, recorded.about)


def dataset_named(path: Path) -> str | None:
    """Return the id of the Minari dataset that a path names; None for a file."""
    return str(path).removeprefix(MINARI) if str(path).startswith(MINARI) else None


def holds_episodes(path: Path, ours: bool = False) -> bool:
    """Return whether a path names a file or dataset of recorded episodes. The content is not read.

    ours: accept only a file that `write_episodes` has written.
    """
    if dataset_named(path) is not None:
        return True
    try:
        with open(path, "rb", opener=no_pipe) as file, zipfile.ZipFile(file) as archive:
            names = {*archive.namelist()}
            is_ours = names == _MEMBERS and archive.comment  # The comment is a seal.
            return bool(is_ours) if ours else "length.npy" in names
    except (*NOT_OURS, zipfile.BadZipFile):
        return False


def require_replaceable(path: Path) -> None:
    """Raise FileExistsError for an existing file that does not hold our episodes, and for an
    existing dataset of Minari."""
    if (name := dataset_named(path)) is not None:
        from workflow_rl.teaching import minari_datasets

        if (folder := minari_datasets.folder_of(name)).exists():
            raise FileExistsError(f"{folder} exists: give another id, such as a later version")
    elif path.exists() and not holds_episodes(path, ours=True):
        raise FileExistsError(f"{path} holds no episodes: it is left as it is")


def read_episodes(path: Path) -> Recorded:
    """Return the episodes in a file or a Minari dataset. Raises OSError, or ValueError with a
    message that says what is wrong."""
    if (name := dataset_named(path)) is not None:
        from workflow_rl.teaching import minari_datasets

        declared, arrays, about = minari_datasets.read_dataset(name)
        try:
            return Recorded(*_parsed({"spaces": plain_spaces(declared)}, arrays), about)
        except UserError as error:
            raise ValueError(f"{path}: {error}") from None
    (trajectories, spaces), about = load_file(path, _parsed, kind="file of episodes")
    return Recorded(trajectories, spaces, about)


def _parsed(
    settings: dict[str, Any], arrays: dict[str, Any]
) -> tuple[list[Trajectory], dict[str, Any]]:
    """Return episodes and spaces that fit together. Raises UserError. A damaged file can raise any
    exception."""
    spaces = settings["spaces"]
    missing = {*_OF_STEPS, *_OF_EPISODES} - arrays.keys()
    if missing:
        raise UserError(f"it has no array {min(missing)}")
    distribution, team = from_plain(spaces["actions"]), spaces["team"]
    length = arrays["length"]
    if length.dtype.kind not in "iu" or length.ndim != 1 or not len(length) or length.min() < 1:
        raise UserError("length must be the steps of each episode, at least 1")
    n_steps, n_episodes = int(length.sum()), len(length)
    size = spaces["obs_dim"] + spaces["privileged"] + spaces["masked"] * distribution.n_outputs
    if team is not None:
        size = team_layout(team).row_size
    action_shape = () if isinstance(distribution, Categorical) else (distribution.n_numbers,)
    shapes = {
        "obs": (n_steps, size),
        "last_obs": (n_episodes, size),
        "action": (n_steps, *action_shape),
        "reward": (n_steps,),
        **dict.fromkeys(_OF_EPISODES[2:], (n_episodes,)),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise UserError(f"{name} has shape {arrays[name].shape}, not {shape}")
    kinds = {"obs": "uif", "last_obs": "uif", "reward": "f", "episode": "iu", "variant": "U"}
    for name, kind in {**kinds, "terminated": "b", "truncated": "b"}.items():
        if arrays[name].dtype.kind not in kind:
            raise UserError(f"{name} is of {arrays[name].dtype}")
    if not (arrays["terminated"] | arrays["truncated"]).all():
        raise UserError("an episode has neither terminated nor been truncated")
    if (wrong := what_is_wrong_with(arrays["action"], distribution)) is not None:
        raise UserError(wrong)
    action = arrays["action"].astype(np.float32 if _sizes(distribution) is None else np.int64)
    log_prob = np.zeros(action.shape if team is not None else n_steps, np.float32)
    ends = np.cumsum(length)
    trajectories = [
        Trajectory(
            int(arrays["episode"][n]),
            str(arrays["variant"][n]),
            0,
            arrays["obs"][end - steps : end],
            action[end - steps : end],
            log_prob[end - steps : end],
            arrays["reward"][end - steps : end].astype(np.float64),
            arrays["last_obs"][n],
            bool(arrays["terminated"][n]),
            bool(arrays["truncated"][n]),
        )
        for n, (end, steps) in enumerate(zip(ends.tolist(), length.tolist(), strict=True))
    ]
    if (problem := what_is_not_finite(trajectories)) is not None:
        raise UserError(problem)
    _demand_allowed(arrays["obs"], action, distribution, bool(spaces["masked"]) and team is None)
    return trajectories, spaces


def _demand_allowed(
    obs: NDArray[Any], action: NDArray[Any], distribution: Distribution, is_masked: bool
) -> None:
    """Raise UserError for numbers that float32 cannot hold, and for actions that masks forbid."""
    with np.errstate(over="ignore"):
        if obs.dtype.kind == "f" and not np.isfinite(obs.astype(np.float32)).all():
            raise UserError("obs has numbers beyond the largest of float32")
    sizes = _sizes(distribution)
    if is_masked and sizes is not None:
        first = np.cumsum(sizes) - sizes
        chosen = action.reshape(len(action), -1) + first
        masks = obs[:, -distribution.n_outputs :]
        if not (np.take_along_axis(masks, chosen, axis=1) > 0).all():
            raise UserError("an action is one that its mask rules out")


def _sizes(distribution: Distribution) -> NDArray[np.int64] | None:
    """Return the number of options of each choice; None if actions are real numbers."""
    if isinstance(distribution, Categorical):
        return np.array([distribution.n_outputs])
    if isinstance(distribution, MultiCategorical):
        return np.array([part.n_outputs for part in distribution.parts])
    return None


def what_is_wrong_with(action: Actions, distribution: Distribution) -> str | None:
    """Return why a distribution cannot draw actions [B] or [B, K]; None if it can."""
    if isinstance(distribution, Mixed) and np.isfinite(action).all():
        parts = enumerate(distribution.parts)
        told = (what_is_wrong_with(distribution.of_part(n, action), part) for n, part in parts)
        return next(filter(None, told), None)
    sizes = _sizes(distribution)
    if action.dtype.kind not in ("f" if sizes is None else "iu"):
        return f"action is of {action.dtype}"
    if sizes is None:
        is_wrong = ~np.isfinite(action)
    else:
        choices = action if action.ndim > 1 else action[:, None]
        is_wrong = ((choices < 0) | (choices >= sizes)).reshape(action.shape)
    if is_wrong.any():
        return f"action holds {action[is_wrong][0]}, and there are {distribution}"
    return None
