import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from tests.cli import output_of
from workflow_rl.errors import UserError
from workflow_rl.runs.checkpoint import Checkpoint, read_values, save_checkpoint, write_values
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.handed_in import LIST
from workflow_rl.runs.read_checkpoint import load_checkpoint, own_policy
from workflow_rl.runs.saved_agent import saved_path
from workflow_rl.runs.training_state import TrainingState


@pytest.mark.parametrize("actions", [
    np.random.default_rng(0).integers(0, 256, 100_000),
    np.array([[0, 256], [1, 2]]), np.array([-1, 0]), np.array([0.5], np.float32),
], ids=["choices", "large", "negative", "continuous"])  # fmt: skip
def test_actions_of_an_episode_that_does_not_end_take_little_room(actions, tmp_path):
    state = TrainingState(slots=[(0, actions, None), (1, None, None)])
    save_checkpoint(tmp_path / "one.safetensors", Checkpoint({}, {}, state))
    assert (tmp_path / "one.safetensors").stat().st_size < 200_000
    (_, loaded, _), nothing = load_checkpoint(tmp_path / "one.safetensors").training.slots
    assert loaded.dtype == actions.dtype
    assert np.array_equal(loaded, actions)
    assert nothing == (1, None, None)


def test_which_file_of_a_run_is_meant(tmp_path):
    best, latest = tmp_path / "best.safetensors", tmp_path / "checkpoint.safetensors"
    assert saved_path(tmp_path) == saved_path(tmp_path, "latest") == latest
    best.touch()
    assert saved_path(tmp_path) == saved_path(tmp_path, "best") == best
    assert saved_path(tmp_path, "latest") == latest
    assert saved_path(best, "latest") == best


@pytest.mark.parametrize("updates", range(4))
def test_an_update_without_its_row_of_metrics_is_not_logged(updates):
    assert TrainingState(updates=updates).logged_updates == updates
    assert TrainingState(updates=updates + 1, unlogged={}).logged_updates == updates


@pytest.mark.parametrize("sizes", [[], [4], [4, 4], [4, 5, 6]])
def test_networks_of_another_shape_than_the_config_are_refused(sizes):
    outputs = [*sizes, 3]
    layers = {}
    for n, (n_in, n_out) in enumerate(zip([2, *sizes], outputs, strict=True)):
        layers[f"actor.{2 * n}.weight"] = torch.zeros(n_out, n_in)
        layers[f"actor.{2 * n}.bias"] = torch.zeros(n_out)

    def saved_with(hidden_sizes: list[int]) -> Checkpoint:
        config = TrainConfig("async", settings={"hidden_sizes": tuple(hidden_sizes)})
        state = {"network": layers, "distribution": ["Categorical", 3]}
        return Checkpoint(config.to_dict(), state, TrainingState())

    own_policy(saved_with(sizes), Path("a.safetensors"))
    for others in ([*sizes, 3], sizes[1:] if sizes else [1], [size + 1 for size in sizes] or [2]):
        with pytest.raises(UserError, match="another shape"):
            own_policy(saved_with(others), Path("a.safetensors"))


def torch_format(path: Path) -> None:
    safetensors.torch.save_file({"weight": torch.ones(1)}, path, {"format": "pt"})


@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("nothing.safetensors", lambda path: None, r"no checkpoint at .*nothing\.safetensors"),
        ("a", lambda path: write_values(path, {"model": 1}), "not a checkpoint of this package"),
        ("a", torch_format, "does not begin as a checkpoint does"),
        (
            "a",
            lambda path: write_values(path, {"format": 99}),
            "format is 99, but this version reads 4",
        ),
        (
            "checkpoint.pt",
            lambda path: torch.save({"format": 2}, path),
            "is an archive: unpack it",
        ),
    ],
    ids=["none", "another's", "another format", "later", "of torch"],
)
def test_what_is_no_checkpoint_is_named(name, write, said, tmp_path):
    write(tmp_path / name)
    with pytest.raises(UserError, match=said):
        load_checkpoint(tmp_path / name)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (None, "run_id"),
        ("training", "diverged"),
        ("config", "action_mask"),
        ("config", "opening"),
        ("agent", "distribution"),
    ],
)
def test_one_of_another_version_is_refused_in_one_line(undisturbed, tmp_path, part, name):
    content = read_values(undisturbed("Counting") / "checkpoint.safetensors")
    del (content if part is None else content[part])[name]
    write_values(tmp_path / "checkpoint.safetensors", content)
    options = ["--resume", str(tmp_path), "--total-steps", "900"]
    again = output_of("train-async", *options, code=2)
    assert "another version of the package" in again
    assert "Traceback" not in again


def test_a_folder_for_a_challenge_is_called_one(tmp_path):
    folder, packed = tmp_path / "submission", tmp_path / "submission.zip"
    folder.mkdir()
    for name in (LIST, "policy.npz"):
        (folder / name).touch()
    shutil.make_archive(str(folder), "zip", folder)
    with pytest.raises(UserError, match="is an archive: unpack it"):
        load_checkpoint(packed)
    with pytest.raises(UserError, match=r"give the policy in it, .*policy\.npz"):
        saved_path(folder)
