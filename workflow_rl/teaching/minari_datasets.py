"""Episodes as datasets of Minari, which Minari's library reads and writes.

The library decides where a dataset is stored.
"""

import contextlib
import copy
import hashlib
import json
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from workflow_rl.agents.policies.policy_file import MOST_BYTES
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.agents.user_modules import in_one_line
from workflow_rl.environments.action_mask import inner_spaces
from workflow_rl.environments.environment import Environment
from workflow_rl.environments.flat_env import FlatEnv, distribution_over, unflattener
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import UserError
from workflow_rl.output_files import remove_own
from workflow_rl.teaching.teachers import as_sampled


def library() -> Any:
    """Return Minari's library. Raises UserError if it is missing."""
    try:
        import h5py  # noqa: F401  # Without h5py, Minari would fail later, when it reads.
        import minari
    except ImportError as error:
        raise UserError(
            f"it needs {error.name}, which is not installed: pip install -e '.[minari]'"
        ) from None
    return minari


def folder_of(name: str) -> Path:
    """Return the folder of a dataset, which may not exist. Raises UserError."""
    minari = library()
    try:
        minari.dataset.minari_dataset.parse_dataset_id(name)
    except (TypeError, ValueError):  # TypeError: the id has no version.
        raise UserError(f"{name} is no id of Minari's, such as pole/push-v0") from None
    return Path(minari.storage.get_dataset_path(name))


def digest_of_dataset(name: str) -> str | None:
    """Return the SHA-256 of a dataset's files, or None if there are no files. Raises UserError, and
    ValueError for files that are too large."""
    files, digest = _files_of(name), hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest() if files else None


def _files_of(name: str) -> list[Path]:
    """Return a dataset's files. Raises ValueError if they are too large to be read."""
    files = [file for file in sorted((folder_of(name) / "data").rglob("*")) if file.is_file()]
    if (size := sum(file.stat().st_size for file in files)) > MOST_BYTES:
        raise ValueError(f"{name} has {size:,} bytes: at most {MOST_BYTES:,} are read")
    return files


def write_dataset(
    name: str,
    trajectories: Sequence[Trajectory],
    about: Any,
    obs_dim: int,
    observation_space: spaces.Space[Any] | None,
    action_space: spaces.Space[Any],
    env_spec: str | None = None,
) -> None:
    """Write complete episodes as a new dataset. Raises UserError.

    obs_dim: the size of the part of a row that an actor sees. Only this part is written.
    observation_space: None for rows of numbers. env_spec: a recipe of the environment for the
    library, see `spec_of`.
    """
    minari, folder = library(), folder_of(name)
    is_new = not folder.exists()
    if observation_space is None:
        dtype = trajectories[0].obs.dtype
        low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
        observation_space = spaces.Box(low, high, (obs_dim,), dtype.type)
    for space in (observation_space, action_space):
        _require_plain_names(space)
    acted = unflattener(action_space)
    buffers = []
    for number, trajectory in enumerate(trajectories):
        rows = [*trajectory.obs[:, :obs_dim], trajectory.last_obs[:obs_dim]]
        seen = [spaces.unflatten(observation_space, row) for row in rows]
        ends = np.zeros((2, trajectory.length), bool)
        ends[:, -1] = trajectory.terminated, trajectory.truncated
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=_columns(observation_space, seen),
                actions=_columns(action_space, [acted(action) for action in trajectory.action]),
                rewards=list(trajectory.reward),
                terminations=list(ends[0]),
                truncations=list(ends[1]),
                infos={},
            )
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari warns of a missing author and link to code.
            dataset = minari.create_dataset_from_buffers(
                name,
                buffers,
                observation_space=observation_space,
                action_space=action_space,
                algorithm_name=str(about["agent"]),
                description=f"episodes on {about['env']}, by workflow_rl: {dict(about)}",
                jpeg_encoding=False,  # JPEG would change images.
            )
        if env_spec is not None:  # Earlier, the library would make an environment from it.
            dataset.storage.update_metadata({"env_spec": env_spec})
    except (NotImplementedError, ValueError, OSError) as error:
        for part in ("data/main_data.hdf5", "data/metadata.json", "data", "") if is_new else ():
            with contextlib.suppress(OSError):
                remove_own(folder / part)
        raise UserError(f"{name} cannot be written: {in_one_line(error)}") from None


def spec_of(environment: Environment, args: Mapping[str, Any]) -> str | None:
    """Return the environment's spec in Gymnasium's registry, with the arguments, as JSON.

    None if the environment is not registered, or JSON cannot hold an argument, such as a function.
    """
    if not isinstance(environment, GymnasiumEnvironment) or environment.made_by() is not None:
        return None
    spec = copy.deepcopy(gymnasium.registry.get(environment.env_id.rpartition(":")[2]))
    if spec is None:
        return None
    for name, value in args.items():
        if name in ("max_episode_steps", "disable_env_checker"):  # Arguments of `gymnasium.make`.
            setattr(spec, name, value)
        else:
            spec.kwargs[name] = value
    try:
        return spec.to_json()
    except (TypeError, ValueError):
        return None


def read_dataset(name: str) -> tuple[Spaces, dict[str, Any], dict[str, Any]]:
    """Return a dataset's spaces, its arrays in the form of docs/reference/episodes.md, and its
    origin. Raises ValueError with a message that says what is wrong.

    Nothing that the dataset names is imported, called or fetched.
    """
    folder, minari = folder_of(name), library()
    if not folder.exists():
        raise ValueError(f"there is no dataset at {folder}: `minari download {name}` fetches one")
    _files_of(name)
    try:
        storage = minari.dataset.minari_storage.MinariStorage
        metadata = storage.read_raw_metadata(folder / "data")
        if not {"observation_space", "action_space"} <= metadata.keys():
            # Without spaces, the library would make the environment that the file names.
            raise UserError("it does not tell its spaces")
        dataset = minari.load_dataset(name)
        written = [
            _as_written(space, json.loads(metadata[name_of]))
            for name_of, space in (
                ("observation_space", dataset.observation_space),
                ("action_space", dataset.action_space),
            )
        ]
        env = _Recording(*written)
        flat: Any = FlatEnv(env)
        arrays = _arrays(dataset.iterate_episodes(), env, flat)
    except Exception as error:  # A damaged file can raise anything.
        raise ValueError(f"{name} cannot be read: {in_one_line(error)}") from None
    size = flat.observation_space.shape[0]
    played = Spaces(size, distribution_over(env.action_space))
    return played, arrays, {"agent": str(metadata.get("algorithm_name", "")), "env": name}


def _require_plain_names(space: spaces.Space[Any]) -> None:
    """Raise UserError if Minari would read an entry of a Dict as several entries."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        names = [*space.spaces] if isinstance(space, spaces.Dict) else []
        if cut := [name for name in names if "/" in str(name)]:
            raise UserError(f"Minari keeps no entry of a Dict whose name has a slash: {cut[0]!r}")
        for part in inner_spaces(space):
            _require_plain_names(part)


def _as_written(space: spaces.Space[Any], plain: Any) -> spaces.Space[Any]:
    """Return a space whose Dicts have their entries in the written order. The library sorts
    entries. plain: the file's description of the space."""
    if isinstance(space, spaces.Dict):
        parts = plain["subspaces"]
        of = {name: _as_written(space.spaces[name], part) for name, part in parts.items()}
        return spaces.Dict(OrderedDict(of))
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, plain["subspaces"], strict=True)
        return spaces.Tuple([_as_written(part, of) for part, of in pairs])
    return space


class _Recording(gymnasium.Env[Any, Any]):
    """Plays back an episode of a dataset, so that `FlatEnv` makes its rows."""

    episode: Any

    def __init__(self, shown: spaces.Space[Any], acted: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = shown, acted

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return _at(self.episode.observations, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        reward = float(self.episode.rewards[self._step - 1])
        return _at(self.episode.observations, self._step), reward, False, False, {}


def _arrays(episodes: Iterator[Any], env: _Recording, flat: Any) -> dict[str, Any]:
    rows, actions, rewards, lengths, last_rows, terminated = [], [], [], [], [], []
    for episode in episodes:
        env.episode = episode
        seen = [flat.reset()[0]]
        for step in range(len(episode.rewards)):
            action = as_sampled(env.action_space, _at(episode.actions, step))
            obs, reward, *_ = flat.step(action)
            seen.append(obs)
            actions.append(action)
            rewards.append(reward)
        rows += seen[:-1]
        last_rows.append(seen[-1])
        lengths.append(len(seen) - 1)
        terminated.append(bool(episode.terminations[-1]))
    return {
        "obs": np.stack(rows),
        "action": np.stack(actions),
        "reward": np.array(rewards, np.float64),
        "length": np.array(lengths),
        "last_obs": np.stack(last_rows),
        "terminated": np.array(terminated),
        # An episode that did not terminate was cut off.
        "truncated": ~np.array(terminated),
        "episode": np.arange(len(lengths)),
        "variant": np.full(len(lengths), ""),
    }


def _at(part: Any, step: int) -> Any:
    """Return the observation or action of one step. part: a column, or a dict or tuple of them."""
    if isinstance(part, dict):
        return {name: _at(of, step) for name, of in part.items()}
    return tuple(_at(of, step) for of in part) if isinstance(part, tuple) else part[step]


def _columns(space: spaces.Space[Any], given: Sequence[Any]) -> Any:
    """Return observations or actions in Minari's columns: the inverse of `_at`."""
    if isinstance(space, spaces.Dict):
        return {
            name: _columns(of, [taken[name] for taken in given])
            for name, of in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            _columns(of, [taken[n] for taken in given]) for n, of in enumerate(space.spaces)
        )
    return np.array(given)
