"""Files of episodes: what was written is read, and anything else is refused in one line."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow_rl.agents.policies.distributions import Categorical
from workflow_rl.agents.policies.further_distributions import DiagonalGaussian, MultiCategorical
from workflow_rl.agents.spaces import Spaces
from workflow_rl.agents.team import TeamLayout
from workflow_rl.agents.trajectory import Trajectory
from workflow_rl.teaching.episode_files import (
    Recorded,
    holds_episodes,
    plain_spaces,
    read_episodes,
    what_is_wrong_with,
    write_episodes,
)

LENGTHS = (3, 1, 2)
TEAM = TeamLayout(("a", "b"), (2, 3), (4, 4), masked=True)
SPACES = {
    "choice": Spaces(4, Categorical(3), masked=True),
    "several choices": Spaces(4, MultiCategorical((2, 5))),
    "numbers": Spaces(4, DiagonalGaussian(2, (0.5, 0.1), (0.25, 3.0))),
    "critic sees more": Spaces(2, Categorical(3), privileged=2),
    "team": Spaces(TEAM.obs_dim, MultiCategorical((4, 4)), masked=True, team=TEAM),
}


def example(spaces: Spaces, dtype: Any = np.float32) -> Recorded:
    draw = np.random.default_rng(0)
    its: Any = spaces.distribution
    size = spaces.obs_dim + spaces.privileged + spaces.masked * its.n_outputs
    episodes = []
    for number, length in enumerate(LENGTHS):
        rows = draw.integers(0, 2, (length + 1, size)).astype(dtype)
        if spaces.masked and not spaces.team:
            rows[:, -its.n_outputs :] = 1
        action = {
            Categorical: lambda n: draw.integers(0, 3, n),
            MultiCategorical: lambda n: draw.integers(0, 2, (n, 2)),
            DiagonalGaussian: lambda n: draw.normal(size=(n, 2)).astype(np.float32),
        }[type(its)](length)
        log_prob = np.zeros(action.shape if spaces.team else length, np.float32)
        rewards = draw.normal(size=length)
        ends = {"terminated": number == 1, "truncated": number != 1}
        seen = rows[:-1], action, log_prob, rewards, rows[-1]
        episodes.append(Trajectory(7 + number, f"red-{number}", 0, *seen, **ends))
    return Recorded(episodes, plain_spaces(spaces), {"agent": "anyone", "env": "any", "seed": 3})


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("spaces", SPACES.values(), ids=SPACES)
def test_what_was_written_is_read(spaces, dtype, tmp_path):
    written = example(spaces, dtype)
    write_episodes(tmp_path / "episodes.npz", written)
    assert holds_episodes(tmp_path / "episodes.npz")
    read = read_episodes(tmp_path / "episodes.npz")
    assert read[1:] == written[1:]
    for one, other in zip(read.trajectories, written.trajectories, strict=True):
        for name, mine, theirs in zip(one._fields, one, other, strict=True):
            assert np.array_equal(mine, theirs), name
            assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name


def changed_file(path: Path, **changes: Any) -> Path:
    """Write a file with other arrays, as anybody could with NumPy; None leaves an array out."""
    whole = io.BytesIO()
    write_episodes(path, example(SPACES["several choices"]))
    with np.load(path) as file:
        arrays: dict[str, Any] = dict(file)
    about = {**json.loads(str(arrays["settings"])), **changes.pop("settings", {})}
    arrays |= {**changes, "settings": np.array(json.dumps(about))}
    np.savez(whole, **{name: array for name, array in arrays.items() if array is not None})
    path.write_bytes(whole.getvalue())
    return path


def test_a_file_of_other_writers_is_read(tmp_path):
    action = np.array([[1, 4]] * 6, np.uint8)
    read = read_episodes(changed_file(tmp_path / "x.npz", action=action, more=np.zeros(3)))
    assert read.trajectories[0].action.dtype == np.int64
    assert read.trajectories[0].action.tolist() == [[1, 4]] * 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"action": None}, "it has no array action"),
        ({"length": np.array([3, 1, 3])}, r"obs has shape \(6, 4\), not \(7, 4\)"),
        ({"length": np.array([6, 0, 0])}, "length must be"),
        ({"length": np.array([3.0, 1.0, 2.0])}, "length must be"),
        ({"obs": np.zeros((6, 5), np.float32)}, r"obs has shape \(6, 5\), not \(6, 4\)"),
        ({"obs": np.full((6, 4), np.nan)}, "observation is not finite at step 0 of episode 7"),
        ({"reward": np.full(6, np.inf)}, "reward is not finite"),
        ({"action": np.array([[1, 5]] * 6)}, "action holds 5, and there are 2 x 5 actions"),
        ({"action": np.array([[-1, 0]] * 6)}, "action holds -1"),
        ({"action": np.zeros((6, 2))}, "action is of float64"),
        ({"action": np.zeros(6, np.int64)}, r"action has shape \(6,\), not \(6, 2\)"),
        ({"terminated": np.zeros(3, bool), "truncated": np.zeros(3, bool)}, "neither"),
        ({"terminated": np.zeros(3)}, "terminated is of float64"),
        ({"variant": np.array([None] * 3)}, "is no file of episodes"),
        ({"settings": {"spaces": {}}}, "is no file of episodes"),
        ({"settings": {"version": 2}}, "is of version 2"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(changes, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        read_episodes(changed_file(tmp_path / "x.npz", **changes))


def test_files_of_other_kinds_hold_no_episodes(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    for name in ("text.npz", "arrays.npz", "nowhere.npz", ".", "x" * 5000):
        assert not holds_episodes(tmp_path / name)


@given(st.integers(0, 10**4), st.integers(0, 255))
def test_a_damaged_file_is_refused(tmp_path_factory, place, value):
    path = tmp_path_factory.mktemp("damaged") / "x.npz"
    write_episodes(path, example(SPACES["choice"]))
    content = bytearray(path.read_bytes())
    place %= len(content)
    if content[place] == value:
        return
    content[place] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is no file of episodes"):
        read_episodes(path)


@pytest.mark.parametrize(
    ("distribution", "action", "is_wrong"),
    [
        (Categorical(3), np.array([0, 2]), False),
        (Categorical(3), np.array([0, 3]), True),
        (DiagonalGaussian(1), np.array([[9.0]]), False),
        (DiagonalGaussian(1), np.array([[np.nan]]), True),
    ],
)
def test_actions_of_the_space(distribution, action, is_wrong):
    assert (what_is_wrong_with(action, distribution) is not None) == is_wrong


def test_an_action_that_its_mask_rules_out_is_refused(tmp_path):
    written = example(SPACES["choice"])
    for trajectory in written.trajectories:
        trajectory.obs[:, -3:] = 0
    write_episodes(tmp_path / "episodes.npz", written)
    with pytest.raises(ValueError, match="mask rules out"):
        read_episodes(tmp_path / "episodes.npz")
