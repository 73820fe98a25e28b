import numpy as np
import pytest

from tests.cli import CART_POLE, TINY, call, refused, said_by

PLAYED = "--episodes 3 --n-workers 1 --quiet"


def test_what_a_run_plays_is_written_and_copied(cart_pole_run, tmp_path):
    file = tmp_path / "episodes.npz"
    said = said_by("record", cart_pole_run, file, PLAYED)
    assert f"{cart_pole_run} on CartPole-v1: mean return" in said
    assert "in 3 episodes" in said
    with np.load(file) as arrays:  # As anybody reads it.
        assert len(arrays["obs"]) == len(arrays["action"]) == arrays["length"].sum()
        assert np.array_equal(arrays["reward"], np.ones(len(arrays["obs"])))
    taught = [TINY, "--teacher", file, "--run-dir", tmp_path / "run"]
    said = said_by("train-async", CART_POLE, *taught, "--teacher-epochs 1")
    assert f"copied {file}: mean return" in said
    assert "the copy:        mean return" in said
    said_by("verify", tmp_path / "run")
    other = [*taught[:-1], tmp_path / "other"]
    refused(call("train-async --env Pendulum-v1", *other), "--teacher", "obs_dim 4")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("agent", "view", "shape"),
    [
        ("decoys", "--observation history", ()),
        ("rules", "--env workflow_rl/CAGE4-v0 --observation belief --actions suspects", (5,)),
    ],
)
def test_a_scripted_agent_or_team_of_a_guest(agent, view, shape, tmp_path):
    file = tmp_path / "x.npz"
    view += " --simulator compiled --max-steps 5"
    said = said_by(f"record {agent}", file, PLAYED, view)
    assert f"{agent} on workflow_rl/CAGE{4 if shape else 2}-v0: mean return" in said
    with np.load(file) as arrays:
        assert arrays["action"].shape == (arrays["length"].sum(), *shape)
