"""Configs in files, whose algorithm may be a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.config import TrainConfig
from workflow_rl.runs.saved_config import only_the_file_names
from workflow_rl.runs.signature import signed


def saved(env: str = "workflow_rl/CAGE2-v0", **changes: Any) -> dict[str, Any]:
    return {**TrainConfig("async", env=env).to_dict(), **changes}


def test_what_a_preset_would_give_is_not_given_to_a_saved_config() -> None:
    config = TrainConfig.from_dict(saved(preset="alf"))
    assert (config.preset, config.num_steps_per_env) == ("alf", None)


@pytest.mark.parametrize("where", ["", "settings"])
def test_a_config_with_an_unknown_setting_is_refused(where: str) -> None:
    values = saved()
    (values[where] if where else values)["hindsight"] = None
    with pytest.raises(UserError, match="another version of the package: it has 'hinds"):
        TrainConfig.from_dict(values)


@pytest.mark.parametrize("env", ["workflow_rl/CAGE2-v0", "CartPole-v1"])
def test_a_config_without_a_setting_is_refused(env: str) -> None:
    values = saved(env=env)
    del values["patience"]
    with pytest.raises(UserError, match="another version of the package: it lacks 'pati"):
        TrainConfig.from_dict(values)


def test_an_algorithm_that_only_a_file_names_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "called"
    (tmp_path / "strangers_algorithm.py").write_text(f"open({str(called)!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = saved(algorithm="strangers_algorithm:Own", settings={"speed": 3})
    config = TrainConfig.from_dict(values)
    assert config.to_dict()["settings"] == {"speed": 3}
    with pytest.raises(ConfigError, match="only the file names the algorithm"):
        config.require_named()
    assert not called.exists()
    with pytest.raises(ConfigError):  # The module has no Own.
        TrainConfig.to_train(signed(values))
    assert called.exists()


def test_an_unknown_name_in_a_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        TrainConfig.from_dict(saved(algorithm="nobody"))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("__main__:Net", "a class of a script: put the class in a module"),
        ("my_module:f.<locals>.Net", "a class of a script: put the class in a module"),
        (
            "no_module_of_mine:Net",
            "no module no_module_of_mine is found from here: go to",
        ),
        (
            "tests.own_networks:Net",
            "only the file names the network tests.own_networks:Net: give",
        ),
    ],
)
def test_what_to_do_about_a_class_that_only_a_file_names(name: str, advice: str) -> None:
    assert advice in only_the_file_names({"algorithm": "ppo", "settings": {"network": name}})
