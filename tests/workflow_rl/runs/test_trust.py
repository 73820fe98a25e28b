"""What the user's own files name is opened; what only a stranger's file names is asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner

from tests.strangers.watch import HOSTILE_MODULE, TINY, watched
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.numpy_policy import PolicyParameters
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.commands.main import main
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import load_checkpoint
from workflow_rl.runs.checkpoint_file import read_values, write_values
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.resume import resumed_plan
from workflow_rl.runs.saved_agent import load_saved
from workflow_rl.runs.signature import SIGNATURE, changed, made_here, signed

ENV = "own_environment_of_the_user"
SOURCE = (
    "import gymnasium\n"
    "def make(length=3):\n"
    "    open('made', 'w')\n"
    "    return gymnasium.make('CartPole-v1', max_episode_steps=length)\n"
)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the user's environment into the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(tmp_path))
    Path(f"{ENV}.py").write_text(SOURCE)
    yield
    sys.modules.pop(ENV, None)


def trained(*more: str) -> None:
    options = ["--env", f"{ENV}:make", "--total-steps", "64", "--steps-per-update", "32"]
    result = CliRunner().invoke(main, ["train-async", *TINY, *options, *more, "--run-dir", "mine"])
    assert result.exit_code == 0, result.output
    Path("made").unlink()


def another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state-of-another").absolute()))


EVALUATE = ["evaluate", "mine", "--episodes", "1", "--quiet"]


def test_the_users_own_runs_open_without_a_word() -> None:
    trained("--env-arg", "length=4")
    result = CliRunner().invoke(main, EVALUATE)
    assert result.exit_code == 0, result.output
    assert Path("made").exists()


def test_the_users_own_network_opens_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, n_inputs, n_outputs, file='none'):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(n_inputs, n_outputs)\n"
        "    def forward(self, obs):\n"
        "        return self.layer(obs)\n"
    )
    Path("own_network_of_the_user.py").write_text(source)
    name = "own_network_of_the_user:Net"

    def forget() -> None:
        sys.modules.pop("own_network_of_the_user", None)
        NETWORKS.pop(name, None)

    options = ["--env", "CartPole-v1", "--total-steps", "64", "--steps-per-update", "32"]
    trained = [*TINY, *options, "--network", name, "--run-dir", "mine"]
    result = CliRunner().invoke(main, ["train-async", *trained])
    assert result.exit_code == 0, result.output
    assert "--trust" not in result.output
    forget()
    assert CliRunner().invoke(main, EVALUATE).exit_code == 0

    forget()  # Another argument is not the user's.
    content = read_values(Path("mine/checkpoint.safetensors"))
    content["config"]["settings"]["network_args"] = {"file": "../another"}
    write_values(Path("mine/checkpoint.safetensors"), content)
    result = CliRunner().invoke(main, ["evaluate", "mine/checkpoint.safetensors", "--quiet"])
    assert result.exit_code == 2
    assert f"only the file names the network {name}" in result.output
    assert "network_args={'file': '../another'}, which may name a file" in result.output

    # Nor is that argument if the user names the class again.
    begin = [*TINY, *options, "--network", name, "--init-from", "mine/checkpoint.safetensors"]
    result = CliRunner().invoke(main, ["train-async", *begin, "--run-dir", "begun"])
    assert result.exit_code == 2, result.output
    assert "which may name a file" in result.output

    forget()
    another(monkeypatch)
    assert CliRunner().invoke(main, EVALUATE).exit_code == 2
    assert "own_network_of_the_user" not in sys.modules
    assert CliRunner().invoke(main, [*EVALUATE, "--trust"]).exit_code == 0
    forget()
    assert CliRunner().invoke(main, EVALUATE).exit_code == 0
    forget()


def test_another_user_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    another(monkeypatch)
    assert CliRunner().invoke(main, EVALUATE).exit_code == 2
    assert not Path("made").exists()
    assert CliRunner().invoke(main, [*EVALUATE, "--trust"]).exit_code == 0
    assert CliRunner().invoke(main, EVALUATE).exit_code == 0


def test_other_arguments_are_another_environment() -> None:
    trained()
    content = read_values(Path("mine/checkpoint.safetensors"))
    content["config"]["env_args"] = {"length": 5}
    write_values(Path("mine/checkpoint.safetensors"), content)
    result = CliRunner().invoke(main, ["evaluate", "mine/checkpoint.safetensors", "--quiet"])
    assert result.exit_code == 2
    assert "--trust" in result.output


def test_a_module_of_the_same_name_elsewhere_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's folder can hold a module that is called as the user's own is."""
    trained()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    shutil.copytree("mine", stranger / "mine")
    (stranger / f"{ENV}.py").write_text(HOSTILE_MODULE)
    sys.modules.pop(ENV, None)
    monkeypatch.chdir(stranger)
    with watched():
        result = CliRunner().invoke(main, EVALUATE)
    assert result.exit_code == 2
    assert "--trust" in result.output


def test_a_link_to_the_users_module_is_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies beside a link would be imported with the module."""
    trained()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    shutil.copytree("mine", stranger / "mine")
    (stranger / f"{ENV}.py").symlink_to(tmp_path / f"{ENV}.py")
    sys.modules.pop(ENV, None)
    monkeypatch.chdir(stranger)
    result = CliRunner().invoke(main, EVALUATE)
    assert result.exit_code == 2, result.output
    assert "--trust" in result.output


def test_a_trusted_module_imports_nothing_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the module is installed, and the stranger's folder has one that it needs."""
    Path(f"{ENV}.py").write_text("import canary_beside\n" + SOURCE)
    Path("canary_beside.py").write_text("")
    trained()
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    shutil.copytree("mine", stranger / "mine")
    (stranger / "canary_beside.py").write_text("raise SystemExit('imported')")
    for module in (ENV, "canary_beside"):
        sys.modules.pop(module, None)
    monkeypatch.chdir(stranger)
    result = CliRunner().invoke(main, EVALUATE)
    sys.modules.pop("canary_beside", None)
    assert result.exit_code == 0, result.output


MIXTURE = ",".join(f"/agents/{n}.npz=1" for n in range(100)) + ",name_in_text:Red=1"


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("name-in-text", "name-in-text:make"),
        ("1name_in_text", "1name_in_text:make"),
        ("näme_in_text", "näme_in_text:make"),
        ("name in,text", "name in,text:make"),
        ("name_in_text", "name_in_text:mäke"),
        ("name_in_text", "name_in_text.inner:make"),
        ("name_in_text", MIXTURE),
        ("name_in_text", "B_line=1,\n name_in_text:Red=2"),
        ("name_in_text", "one:Red;name_in_text:Red"),
        ("name-in-text", '{"red": "name-in-text:Red"}'),
    ],
)
def test_the_place_of_each_module_is_signed_whatever_the_module_is_called(
    module: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python imports also modules that no program could spell."""
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for folder in (tmp_path, stranger):
        (folder / f"{module}.py").write_text(SOURCE)
    names = signed({"env": "CartPole-v1", "red_agent": text})
    assert made_here(names)
    monkeypatch.chdir(stranger)
    assert not made_here(names)


def test_a_file_that_names_a_million_modules_is_refused_at_once() -> None:
    many = {"env": "CartPole-v1", "env_args": {"a": [f"m{n}:x" for n in range(1_000_000)]}}
    begun = time.monotonic()
    assert not made_here({**many, SIGNATURE: "0" * 64})
    assert not made_here({"env": "x", "env_args": {"a": ["a" * 999] * 16_000}})
    assert time.monotonic() - begun < 30
    assert SIGNATURE not in signed(many)


def test_a_relative_name_of_a_file_is_of_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An argument may name a file, which in a stranger's folder is the stranger's."""
    names = signed({"env": f"{ENV}:make", "env_args": {"path": "./levels.txt"}})
    whole = signed({"env": f"{ENV}:make", "env_args": {"path": "/levels.txt"}})
    assert made_here(names)
    assert made_here(whole)
    (tmp_path / "stranger").mkdir()
    monkeypatch.chdir(tmp_path / "stranger")
    assert made_here(whole)
    assert not made_here(names)


def test_a_relative_folder_of_state_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's folder may hold one of the same name."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert made_here(signed({"env": f"{ENV}:make"}))
    assert not Path("state").exists()
    (key,) = (tmp_path / "home").rglob("key")
    assert key.stat().st_mode & 0o777 == 0o600


def test_modules_that_another_finder_finds_are_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip leaves one for packages that are installed where they are developed."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "developed_environment.py").write_text(SOURCE)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            return PathFinder.find_spec(name, [str(source)])

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    names = signed({"env": "developed_environment:make"})
    assert made_here(names)
    (source / "developed_environment.py").unlink()
    assert not made_here(names)


def test_arguments_that_python_takes_for_equal_are_not_what_was_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained("--env-arg", "length=4")
    content = read_values(Path("mine/checkpoint.safetensors"))
    content["config"]["env_args"] = {"length": 4.0}
    write_values(Path("mine/checkpoint.safetensors"), content)
    another(monkeypatch)
    resume = ["train-async", "--resume", "mine", "--total-steps", "96", "--dry-run", "--quiet"]
    typed = ["--env", f"{ENV}:make", "--env-arg", "length=4"]
    assert CliRunner().invoke(main, [*resume, *typed]).exit_code == 2
    assert not Path("made").exists()


def test_a_resumed_run_whose_environment_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    trained("--env-arg", "length=4")
    another(monkeypatch)
    resume = ["train-async", "--resume", "mine", "--total-steps", "96", "--quiet"]
    assert CliRunner().invoke(main, resume).exit_code == 2
    assert CliRunner().invoke(main, [*resume, "--env", f"{ENV}:make"]).exit_code == 2
    assert not Path("made").exists()
    typed = ["--env", f"{ENV}:make", "--env-arg", "length=4"]
    assert CliRunner().invoke(main, [*resume, *typed]).exit_code == 0


def test_a_module_that_is_not_here_is_named_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.delitem(sys.modules, ENV, raising=False)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(tmp_path)])
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = CliRunner().invoke(main, ["evaluate", str(tmp_path / "mine"), "--quiet"])
    assert result.exit_code == 2
    assert f"no module {ENV} is found from here" in result.output


def test_the_question_names_the_module_that_the_packages_own_environment_would_import() -> None:
    args = {"env": f"{ENV}:make", "side": "first"}
    one_side = "workflow_rl.environments.one_team_of_two:OneSide"
    asked = rf"{ENV}:make, which would run .*{ENV}\.py: "
    with pytest.raises(ConfigError, match=asked):
        GymnasiumEnvironment(one_side, args, named_by_file=True).require_named()


def test_the_name_of_an_argument_is_data_too() -> None:
    environment = GymnasiumEnvironment("CartPole-v1", {"./levels": 1}, named_by_file=True)
    with pytest.raises(ConfigError, match="--trust"):
        environment.require_named()


def test_a_function_of_a_script_is_asked_for() -> None:
    trained()
    content = read_values(Path("mine/checkpoint.safetensors"))
    content["config"]["env"] = "__main__:make"
    write_values(Path("mine/checkpoint.safetensors"), content)
    result = CliRunner().invoke(main, ["evaluate", "mine/checkpoint.safetensors", "--quiet"])
    assert result.exit_code == 2
    assert "give the function as env" in result.output


def test_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    assert evaluate("mine", episodes=1).returns
    another(monkeypatch)
    for opened in (load_agent, lambda path: evaluate(path, episodes=1)):
        with pytest.raises(UserError, match="trust=True"):
            opened("mine")  # type: ignore[operator]
    load_agent("mine", trust=True)


def test_a_function_of_the_user_gets_no_argument_that_only_a_file_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trained()
    another(monkeypatch)
    given: list[Any] = []

    def make(length: Any = 3) -> Any:
        given.append(length)
        return gymnasium.make("CartPole-v1", max_episode_steps=5)

    evaluate("mine", episodes=1, env=make)
    content = read_values(Path("mine/checkpoint.safetensors"))
    content["config"]["env_args"] = {"length": "../levels"}
    write_values(Path("mine/checkpoint.safetensors"), content)
    for opened in (load_agent, lambda path, env: evaluate(path, episodes=1, env=env)):
        with pytest.raises(UserError, match=r"its argument length='\.\./levels'"):
            opened("mine/checkpoint.safetensors", env=make)  # type: ignore[operator]
    config = TrainConfig.from_dict(content["config"])
    with pytest.raises(ConfigError, match=r"its argument length='\.\./levels'"):
        train(config, "again", env=make)
    assert "../levels" not in given
    train(config.changed(env_args={"length": "4"}), "again", env=make)
    load_agent("mine/checkpoint.safetensors", env=make, trust=True)


def test_a_teacher_that_only_a_file_names_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it has a plain name, as released agents have."""
    config = TrainConfig("async", env="CartPole-v1", total_steps=64, teacher="../agents/mine.npz")
    TrainConfig.from_dict(config.to_save()).require_named()
    with pytest.raises(ConfigError, match=r"the agent \.\./agents/mine\.npz: give --trust"):
        TrainConfig.from_dict(config.to_dict()).require_named()
    TrainConfig.from_dict(config.changed(teacher="mine").to_dict()).require_named()

    Path("population").mkdir()
    record = {"configs": [config.to_dict(), config.to_dict()], "exchange": None, "meetings": []}
    Path("population", "population.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="agents/mine"):
        resumed_plan(Path("population"), {})
    resumed_plan(Path("population"), {"teacher": "../agents/mine.npz"})


def test_auto_in_a_strangers_file_joins_no_cluster() -> None:
    """Somebody else on this machine may have started the one that is found."""
    config = TrainConfig("async", env="CartPole-v1", n_workers=1, cluster="auto")
    TrainConfig.to_train(config.to_save())
    with pytest.raises(ConfigError, match="only the file names the cluster auto"):
        TrainConfig.to_train(config.to_dict())
    TrainConfig.to_train(config.to_dict(), names_cluster=True)


def test_trust_signs_each_file_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the first of several with one config."""
    trained()
    another(monkeypatch)
    assert CliRunner().invoke(main, [*EVALUATE, "--trust"]).exit_code == 0
    monkeypatch.setattr("workflow_rl.runs.signature._accepted", set())
    assert made_here(json.loads(Path("mine/config.json").read_text()))
    for file in Path("mine").glob("*.safetensors"):
        assert made_here(read_values(file)["config"]), file


def test_trust_signs_nothing_that_only_a_default_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in the current one may be called as a default is."""
    trained()
    shutil.copytree("mine", "compiled")
    another(monkeypatch)
    before = Path("compiled/checkpoint.safetensors").read_bytes()
    assert CliRunner().invoke(main, [*EVALUATE, "--trust"]).exit_code == 0
    assert Path("compiled/checkpoint.safetensors").read_bytes() == before


def test_a_config_from_a_file_is_trained_from_python(monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    another(monkeypatch)
    config = read_config(Path("mine"))
    with pytest.raises(ConfigError, match="trust=True"):
        train(config, "again")
    train(config, "again", trust=True)


def test_a_config_from_a_file_makes_nothing() -> None:
    """Not even of sac, whose settings depend on the spaces."""
    config = TrainConfig("async", env=f"{ENV}:make", algorithm="sac")
    again = TrainConfig.from_dict(config.to_dict())
    again.changed(seed=1).to_dict()
    assert again == config
    assert not Path("made").exists()
    with pytest.raises(ValueError, match="only the file names"):
        again.environment.spaces()


def test_the_key_is_kept_also_without_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/dev/null")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    names = signed({"env": f"{ENV}:make"})
    assert made_here(names)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "state-of-another"))
    (tmp_path / "state-of-another").mkdir()
    assert not made_here(names)


def test_the_current_folder_is_no_place_for_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes it for temporary files if no other can be written. It may be a stranger's."""
    stranger = tmp_path / f"workflow_rl-{os.getuid()}"
    stranger.mkdir(mode=0o700)
    (stranger / "key").write_bytes(bytes(32))
    (stranger / "key").chmod(0o600)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert SIGNATURE not in signed({"env": f"{ENV}:make"})


def test_without_a_place_for_a_key_this_process_knows_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null")
    names = signed({"env": f"{ENV}:make", "number": 7})
    assert SIGNATURE not in names
    assert made_here(names)
    assert not made_here({**names, "number": 8})


def test_a_key_that_others_may_read_signs_nothing(tmp_path: Path) -> None:
    names = signed({"env": f"{ENV}:make"})
    (key,) = (tmp_path / "state").rglob("key")
    key.chmod(0o644)
    assert not made_here(names)


def test_a_key_that_could_be_guessed_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HMAC takes a key without any byte."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    signed({"env": f"{ENV}:make"})
    (key,) = (tmp_path / "state").rglob("key")
    for content in (b"", key.read_bytes()[:31]):
        key.write_bytes(content)
        names = signed({"env": f"{ENV}:make"})
        assert made_here(names)  # By the key in another place.
        key.write_bytes(bytes(32))
        assert not made_here(names)


def test_of_many_processes_that_begin_together_one_makes_the_key(tmp_path: Path) -> None:
    program = (
        "from workflow_rl.runs.signature import signed\n"
        "print(signed({'env': 'CartPole-v1'})['signature'])\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(4)
    ]
    told = {process.communicate()[0] for process in processes}
    assert len(told) == 1
    assert len(told.pop().strip()) == 64


@pytest.mark.parametrize(
    "forged", [None, "", 7, "0" * 64, ["a"], "\ud800", "another's", "another key's"]
)
def test_signatures_that_do_not_fit_are_refused(
    forged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = signed({"env": f"{ENV}:make", "env_args": {"length": 3}})
    other = signed({"env": f"{ENV}:make", "env_args": {"length": 4}})
    if forged == "another's":
        forged = other[SIGNATURE]
    elif forged == "another key's":
        another(monkeypatch)
        forged = signed(names)[SIGNATURE]
        monkeypatch.undo()
        monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert not made_here({**names, SIGNATURE: forged})
    assert not made_here({name: value for name, value in names.items() if name != SIGNATURE})


def test_what_a_command_changes_is_signed_if_it_was_the_users() -> None:
    names = signed({"env": f"{ENV}:make", "play": None})
    assert made_here(changed(names, play="sampled"))
    assert not made_here(changed({**names, "env": "another:make"}, play="sampled"))
    assert not made_here({**names, "play": "sampled"})


def test_a_moved_run_is_the_users_own_and_so_is_an_edited_environment(tmp_path: Path) -> None:
    trained("--env-arg", "length=4")
    Path("mine").rename("moved")
    Path(f"{ENV}.py").write_text(SOURCE + "# a note\n")
    evaluate = ["evaluate", "moved", "--episodes", "1", "--quiet"]
    assert CliRunner().invoke(main, evaluate).exit_code == 0


def test_an_exported_agent_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    export = ["export", "mine", "--format", "npz", "--output"]
    assert CliRunner().invoke(main, [*export, "agent.npz"]).exit_code == 0
    evaluate = ["evaluate", "agent.npz", "--episodes", "1", "--quiet"]
    assert CliRunner().invoke(main, evaluate).exit_code == 0
    another(monkeypatch)
    assert CliRunner().invoke(main, evaluate).exit_code == 2
    # To export what a stranger gave does not make it the user's own.
    assert CliRunner().invoke(main, [*export, "again.npz"]).exit_code == 0
    assert CliRunner().invoke(main, ["evaluate", "again.npz", "--quiet"]).exit_code == 2
    assert CliRunner().invoke(main, [*evaluate, "--trust"]).exit_code == 0
    assert CliRunner().invoke(main, evaluate).exit_code == 0


def test_a_read_only_file_is_trusted_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    trained()
    another(monkeypatch)

    def refuse(path: Path, *_: Any) -> None:
        raise PermissionError(13, "it is not writable", str(path))

    monkeypatch.setattr("workflow_rl.runs.trust.save_checkpoint", refuse)
    monkeypatch.setattr("workflow_rl.runs.trust.write_json", refuse)
    before = Path("mine/checkpoint.safetensors").read_bytes()
    assert CliRunner().invoke(main, [*EVALUATE, "--trust"]).exit_code == 0
    assert Path("mine/checkpoint.safetensors").read_bytes() == before


def test_a_batch_in_a_checkpoint_gives_a_class_nothing_that_the_config_does_not_name() -> None:
    """Of a checkpoint, the config alone is signed."""
    options = ["--network", "tests.own_networks:OfFile", "--network-arg", "file=../mine"]
    trained(*options, "--async-rl", "--keep-every", "1")
    kept = Path("mine/kept/000001.safetensors")
    assert load_checkpoint(kept).begun
    content = read_values(kept)
    content["policies"][0]["settings"]["network_args"] = {"file": "../another"}
    write_values(kept, content)
    assert made_here(content["config"])
    with pytest.raises(UserError, match=r"only a batch in it gives .*OfFile the name of a file"):
        load_checkpoint(kept)
    # Nor a config that nobody has signed.
    del content["config"][SIGNATURE]
    content["config"]["settings"]["more"] = "../another"
    write_values(Path("mine/checkpoint.safetensors"), content)
    with pytest.raises(UserError, match="which may name a file"):
        train(read_config(Path("mine")), "mine", resume=True)


def test_a_policy_file_holds_no_class_of_the_users(tmp_path: Path) -> None:
    trained("--network", "tests.own_networks:OfFile")
    policy = load_saved(Path("mine")).policy.parameters
    assert isinstance(policy, PolicyParameters)
    empty = tuple(np.zeros(0, np.float32) for _ in policy.weights)
    given = policy._replace(biases=empty, network_args={"file": "../another"})
    save_policy(tmp_path / "agent.npz", given, {"env": "CartPole-v1", "env_args": {}})
    with pytest.raises(UserError, match="do not fit together"):
        load_saved(tmp_path / "agent.npz")


def test_the_best_agent_of_a_run_that_plays_otherwise_is_still_the_users() -> None:
    trained("--eval-every", "1", "--eval-episodes", "2")
    resume = ["train-async", "--resume", "mine", "--total-steps", "96", "--quiet"]
    assert CliRunner().invoke(main, [*resume, "--play", "sampled"]).exit_code == 0
    best = load_checkpoint(Path("mine/best.safetensors"))
    assert best.config["play"] == "sampled"
    assert made_here(best.config)


NET = (
    "from torch import nn\n"
    "open('imported', 'w')\n"
    "class Net(nn.Linear):\n"
    "    def __init__(self, n_inputs, n_outputs):\n"
    "        super().__init__(n_inputs, n_outputs)\n"
)


@pytest.mark.parametrize("what", ["algorithm", "network"])
@pytest.mark.parametrize("command", ["train-async", "train-sync"])
def test_who_names_the_environment_trusts_nothing_else(what: str, command: str) -> None:
    """Of a stranger's run: it is not imported, now or another time."""
    trained("--env-arg", "length=4")
    Path("net_of_a_stranger.py").write_text(NET)
    content = read_values(Path("mine/checkpoint.safetensors"))
    settings = content["config"]["settings"] if what == "network" else content["config"]
    settings[what] = "net_of_a_stranger:Net"
    content["config"]["mode"] = command.partition("-")[2]
    write_values(Path("mine/checkpoint.safetensors"), content)
    resume = [command, "--resume", "mine", "--total-steps", "96", "--quiet"]
    typed = ["--env", f"{ENV}:make", "--env-arg", "length=4"]
    for _ in range(2):
        result = CliRunner().invoke(main, [*resume, *typed])
        assert result.exit_code == 2, result.output
        assert f"only the file names the {what} net_of_a_stranger:Net" in result.output
        assert "--trust" in result.output
        assert not Path("imported").exists()
