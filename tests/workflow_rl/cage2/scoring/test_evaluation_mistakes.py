"""One clear line, before any episode, for what cannot be evaluated or written."""

import pytest

from tests.workflow_rl.cage2.scoring.evaluations import error_line, save_agent


def test_exactly_one_agent_must_be_named(tmp_path):
    assert "or a scripted agent's name" in error_line()
    assert "or a scripted agent's name" in error_line(tmp_path, "--agent", "sleep")


def test_options_that_do_not_go_together_are_refused(tmp_path):
    assert "--stochastic" in error_line("--agent", "sleep", "--stochastic")
    assert "--which best" in error_line("--agent", "sleep", "--which", "best")
    assert "'--check': -1" in error_line("--agent", "sleep", "--check", "-1")


@pytest.mark.parametrize(("obs_dim", "n_actions"), [(62, 145), (52, 36)])
def test_a_network_of_another_shape_is_refused(tmp_path, obs_dim, n_actions):
    path = tmp_path / "checkpoint.safetensors"
    save_agent(path, obs_dim, n_actions)
    line = error_line(path)
    assert "another shape" in line
    assert str(obs_dim if obs_dim != 52 else n_actions) in line


def test_outputs_that_cannot_be_written_are_found_before_the_episodes(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise AssertionError("episodes were played before the outputs were checked")

    monkeypatch.setattr("workflow_rl.cage2.scoring.protocol.evaluate_blue", fail)
    a_file = tmp_path / "a file"
    a_file.touch()
    for option, path in (
        ("--json", tmp_path / "nowhere" / "scores.json"),
        ("--json", tmp_path),
        ("--json", a_file / "scores.json"),
        ("--output-dir", a_file),
    ):
        line = error_line("--agent", "sleep", option, path)
        assert option in line
        assert str(path) in line
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
