"""What the user's own files name is opened; what only a stranger's file mentions is asked for."""

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

from tests.cli import output_of
from tests.strangers.watch import HOSTILE_MODULE, TINY, watched
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.agents.policies.networks import NETWORKS
from workflow_rl.agents.policies.policy_file import save_policy
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.errors import ConfigError, UserError
from workflow_rl.runs.checkpoint import read_values, write_values
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.read_checkpoint import load_checkpoint
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


LATEST = "mine/checkpoint.safetensors"
EVALUATE = ("evaluate", "mine", "--episodes", "1", "--quiet")
SHORT = (*TINY, "--total-steps", "64", "--steps-per-update", "32")
RESUME = ("train-async", "--resume", "mine", "--total-steps", "96", "--quiet")
TYPED = ("--env", f"{ENV}:make", "--env-arg", "length=4")


def trained(*more: str) -> None:
    output_of("train-async", *SHORT, "--env", f"{ENV}:make", *more, "--run-dir", "mine")
    Path("made").unlink()


def edited(file: str = LATEST, **changes: Any) -> dict[str, Any]:
    """Change the config in a checkpoint, as a stranger can, and return all that is in it."""
    content = read_values(Path(file))
    content["config"] |= changes
    write_values(Path(file), content)
    return content


def another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state-of-another").absolute()))


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """Call to train, and to go with the run to a folder of a stranger."""

    def go():
        trained()
        (tmp_path / "stranger").mkdir()
        shutil.copytree("mine", "stranger/mine")
        sys.modules.pop(ENV, None)
        monkeypatch.chdir(tmp_path / "stranger")

    return go


def test_the_users_own_network_opens_without_a_word(monkeypatch):
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

    train = ("train-async", *SHORT, "--env", "CartPole-v1", "--network", name)
    assert "--trust" not in output_of(*train, "--run-dir", "mine")
    forget()
    output_of(*EVALUATE)

    forget()  # Another argument is not the user's.
    settings = read_values(Path(LATEST))["config"]["settings"]
    edited(settings={**settings, "network_args": {"file": "../another"}})
    said = output_of("evaluate", LATEST, "--quiet", code=2)
    assert f"only the file mentions the network {name}" in said
    assert "network_args={'file': '../another'}, which may name a file" in said

    # Nor is that argument if the user names the class again.
    said = output_of(*train, "--init-from", LATEST, "--run-dir", "begun", code=2)
    assert "which may name a file" in said

    forget()
    another(monkeypatch)
    output_of(*EVALUATE, code=2)
    assert "own_network_of_the_user" not in sys.modules
    output_of(*EVALUATE, "--trust")
    forget()
    output_of(*EVALUATE)
    forget()


def test_a_function_of_a_script_is_asked_for():
    trained()
    edited(env="__main__:make")
    assert "give the function as env" in output_of("evaluate", LATEST, "--quiet", code=2)


@pytest.mark.parametrize("kind", ["another module", "link"])
def test_a_module_of_the_same_name_elsewhere_is_another(kind, stranger, tmp_path):
    """Also a link to the user's own: what lies beside the link would be imported with it."""
    stranger()
    if kind == "link":
        Path(f"{ENV}.py").symlink_to(tmp_path / f"{ENV}.py")
    else:
        Path(f"{ENV}.py").write_text(HOSTILE_MODULE)
    with watched():
        assert "--trust" in output_of(*EVALUATE, code=2)


def test_a_trusted_module_imports_nothing_of_the_current_folder(stranger):
    """Where the module is installed, and the stranger's folder has one that it needs."""
    Path(f"{ENV}.py").write_text("import canary_beside\n" + SOURCE)
    Path("canary_beside.py").write_text("")
    stranger()
    Path("canary_beside.py").write_text("raise SystemExit('imported')")
    sys.modules.pop("canary_beside", None)
    output_of(*EVALUATE)
    sys.modules.pop("canary_beside", None)


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
    module, text, tmp_path, monkeypatch
):
    """Python imports also modules that no program could spell."""
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for folder in (tmp_path, stranger):
        (folder / f"{module}.py").write_text(SOURCE)
    names = signed({"env": "CartPole-v1", "red_agent": text})
    assert made_here(names)
    monkeypatch.chdir(stranger)
    assert not made_here(names)


def test_a_file_that_names_a_million_modules_is_refused_at_once():
    many = {"env": "CartPole-v1", "env_args": {"a": [f"m{n}:x" for n in range(1_000_000)]}}
    begun = time.monotonic()
    assert not made_here({**many, SIGNATURE: "0" * 64})
    assert not made_here({"env": "x", "env_args": {"a": ["a" * 999] * 16_000}})
    assert time.monotonic() - begun < 30
    assert SIGNATURE not in signed(many)


def test_a_relative_name_of_a_file_is_of_one_folder(tmp_path, monkeypatch):
    """An argument may name a file, which in a stranger's folder is the stranger's."""
    names = signed({"env": f"{ENV}:make", "env_args": {"path": "./levels.txt"}})
    whole = signed({"env": f"{ENV}:make", "env_args": {"path": "/levels.txt"}})
    assert made_here(names)
    assert made_here(whole)
    (tmp_path / "stranger").mkdir()
    monkeypatch.chdir(tmp_path / "stranger")
    assert made_here(whole)
    assert not made_here(names)


def test_a_relative_folder_of_state_is_not_used(tmp_path, monkeypatch):
    """A stranger's folder may hold one of the same name."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert made_here(signed({"env": f"{ENV}:make"}))
    assert not Path("state").exists()
    (key,) = (tmp_path / "home").rglob("key")
    assert key.stat().st_mode & 0o777 == 0o600


def test_modules_that_another_finder_finds_are_known_again(tmp_path, monkeypatch):
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


def test_arguments_that_python_takes_for_equal_are_not_what_was_typed(monkeypatch):
    trained("--env-arg", "length=4")
    edited(env_args={"length": 4.0})
    another(monkeypatch)
    output_of(*RESUME, *TYPED, "--dry-run", code=2)
    assert not Path("made").exists()


def test_a_resumed_run_whose_environment_is_typed(monkeypatch):
    trained("--env-arg", "length=4")
    another(monkeypatch)
    output_of(*RESUME, code=2)
    output_of(*RESUME, *TYPED[:2], code=2)
    assert not Path("made").exists()
    output_of(*RESUME, *TYPED)


def test_a_module_that_is_not_here_is_named_with_its_remedy(stranger, tmp_path, monkeypatch):
    stranger()
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(tmp_path)])
    assert f"no module {ENV} is found from here" in output_of(*EVALUATE, code=2)


@pytest.mark.parametrize(
    ("env", "args", "asked"),
    [
        (
            "workflow_rl.studies.one_side:OneSide",
            {"env": f"{ENV}:make", "side": "first"},
            rf"{ENV}:make, which would run .*{ENV}\.py: ",
        ),
        ("CartPole-v1", {"./levels": 1}, "--trust"),
    ],
    ids=["module that the package's own environment would import", "name of an argument"],
)
def test_the_question_names(env, args, asked):
    with pytest.raises(ConfigError, match=asked):
        GymnasiumEnvironment(env, args, named_by_file=True).require_named()


def test_from_python(monkeypatch):
    trained()
    assert evaluate("mine", episodes=1).returns
    another(monkeypatch)
    config = read_config(Path("mine"))
    for error, opened in (
        (UserError, lambda: load_agent("mine")),
        (UserError, lambda: evaluate("mine", episodes=1)),
        (ConfigError, lambda: train(config, "again")),
    ):
        with pytest.raises(error, match="trust=True"):
            opened()
    train(config, "again", trust=True)
    load_agent("mine", trust=True)


def test_a_function_of_the_user_gets_no_argument_that_only_a_file_names(monkeypatch):
    trained()
    another(monkeypatch)
    given: list[Any] = []

    def make(length: Any = 3) -> Any:
        given.append(length)
        return gymnasium.make("CartPole-v1", max_episode_steps=5)

    evaluate("mine", episodes=1, env=make)
    config = TrainConfig.from_dict(edited(env_args={"length": "../levels"})["config"])
    for error, opened in (
        (UserError, lambda: load_agent(LATEST, env=make)),
        (UserError, lambda: evaluate(LATEST, episodes=1, env=make)),
        (ConfigError, lambda: train(config, "again", env=make)),
    ):
        with pytest.raises(error, match=r"its argument length='\.\./levels'"):
            opened()
    assert "../levels" not in given
    train(config.changed(env_args={"length": "4"}), "again", env=make)
    load_agent(LATEST, env=make, trust=True)


def test_a_teacher_that_only_a_file_names_is_not_read(monkeypatch):
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


def test_auto_in_a_strangers_file_joins_no_cluster():
    """Somebody else on this machine may have started the one that is found."""
    config = TrainConfig("async", env="CartPole-v1", n_workers=1, cluster="auto")
    TrainConfig.to_train(config.to_save())
    with pytest.raises(ConfigError, match="only the file mentions the cluster auto"):
        TrainConfig.to_train(config.to_dict())
    TrainConfig.to_train(config.to_dict(), names_cluster=True)


def test_trust_signs_each_file_of_a_run_and_nothing_that_only_a_default_names(monkeypatch):
    """Not only the first of several with one config. A folder in the current one may be called as
    a default is."""
    trained()
    shutil.copytree("mine", "compiled")
    another(monkeypatch)
    before = Path("compiled/checkpoint.safetensors").read_bytes()
    output_of(*EVALUATE, "--trust")
    monkeypatch.setattr("workflow_rl.runs.signature._accepted", set())
    assert made_here(json.loads(Path("mine/config.json").read_text()))
    for file in Path("mine").glob("*.safetensors"):
        assert made_here(read_values(file)["config"]), file
    assert Path("compiled/checkpoint.safetensors").read_bytes() == before


def test_a_config_from_a_file_makes_nothing():
    """Not even of sac, whose settings depend on the spaces."""
    config = TrainConfig("async", env=f"{ENV}:make", algorithm="sac")
    again = TrainConfig.from_dict(config.to_dict())
    again.changed(seed=1).to_dict()
    assert again == config
    assert not Path("made").exists()
    with pytest.raises(ValueError, match="only the file mentions"):
        again.environment.spaces()


def without_a_home(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


def test_the_key_is_kept_also_without_a_home(tmp_path, monkeypatch):
    for name in ("temporary", "another"):
        (tmp_path / name).mkdir()
    without_a_home(monkeypatch, tmp_path / "temporary")
    names = signed({"env": f"{ENV}:make"})
    assert made_here(names)
    without_a_home(monkeypatch, tmp_path / "another")
    assert not made_here(names)


def test_the_current_folder_is_no_place_for_a_key(tmp_path, monkeypatch):
    """Python takes it for temporary files if no other can be written. It may be a stranger's."""
    stranger = tmp_path / f"workflow_rl-{os.getuid()}"
    stranger.mkdir(mode=0o700)
    (stranger / "key").write_bytes(bytes(32))
    (stranger / "key").chmod(0o600)
    without_a_home(monkeypatch, tmp_path)
    assert SIGNATURE not in signed({"env": f"{ENV}:make"})


def test_without_a_place_for_a_key_this_process_knows_its_own_files(monkeypatch):
    without_a_home(monkeypatch, Path("/dev/null"))
    names = signed({"env": f"{ENV}:make", "number": 7})
    assert SIGNATURE not in names
    assert made_here(names)
    assert not made_here({**names, "number": 8})


def test_a_key_that_others_may_read_signs_nothing(tmp_path):
    names = signed({"env": f"{ENV}:make"})
    (key,) = (tmp_path / "state").rglob("key")
    key.chmod(0o644)
    assert not made_here(names)


def test_a_key_that_could_be_guessed_signs_nothing(tmp_path, monkeypatch):
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


def test_of_many_processes_that_begin_together_one_makes_the_key():
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
def test_signatures_that_do_not_fit_are_refused(forged, monkeypatch):
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


def test_what_a_command_changes_is_signed_if_it_was_the_users():
    names = signed({"env": f"{ENV}:make", "play": None})
    assert made_here(changed(names, play="sampled"))
    assert not made_here(changed({**names, "env": "another:make"}, play="sampled"))
    assert not made_here({**names, "play": "sampled"})


def test_a_moved_run_is_the_users_own_and_so_is_an_edited_environment():
    trained("--env-arg", "length=4")
    Path("mine").rename("moved")
    Path(f"{ENV}.py").write_text(SOURCE + "# a note\n")
    output_of("evaluate", "moved", *EVALUATE[2:])


def test_an_exported_agent_is_the_users_own(monkeypatch):
    trained()
    export = ("export", "mine", "--format", "npz", "--output")
    output_of(*export, "agent.npz")
    evaluate = ("evaluate", "agent.npz", *EVALUATE[2:])
    output_of(*evaluate)
    another(monkeypatch)
    output_of(*evaluate, code=2)
    # To export what a stranger gave does not make it the user's own.
    output_of(*export, "again.npz")
    output_of("evaluate", "again.npz", "--quiet", code=2)
    output_of(*evaluate, "--trust")
    output_of(*evaluate)


def test_a_read_only_file_is_trusted_for_one_command(monkeypatch):
    trained()
    another(monkeypatch)

    def refuse(path: Path, *_: Any) -> None:
        raise PermissionError(13, "it is not writable", str(path))

    monkeypatch.setattr("workflow_rl.runs.trust.save_checkpoint", refuse)
    monkeypatch.setattr("workflow_rl.runs.trust.write_json", refuse)
    before = Path(LATEST).read_bytes()
    output_of(*EVALUATE, "--trust")
    assert Path(LATEST).read_bytes() == before


def test_a_batch_in_a_checkpoint_gives_a_class_nothing_that_the_config_does_not_name():
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
    write_values(Path(LATEST), content)
    with pytest.raises(UserError, match="which may name a file"):
        train(read_config(Path("mine")), "mine", resume=True)


def test_a_policy_file_holds_no_class_of_the_users(tmp_path):
    trained("--network", "tests.own_networks:OfFile")
    policy = load_saved(Path("mine")).policy.parameters
    empty = tuple(np.zeros(0, np.float32) for _ in policy.weights)
    given = policy._replace(biases=empty, network_args={"file": "../another"})
    save_policy(tmp_path / "agent.npz", given, {"env": "CartPole-v1", "env_args": {}})
    with pytest.raises(UserError, match="do not fit together"):
        load_saved(tmp_path / "agent.npz")


def test_the_best_agent_of_a_run_that_plays_otherwise_is_still_the_users():
    trained("--eval-every", "1", "--eval-episodes", "2")
    output_of(*RESUME, "--play", "sampled")
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
def test_who_names_the_environment_trusts_nothing_else(what, command):
    """Of a stranger's run: it is not imported, now or another time."""
    trained("--env-arg", "length=4")
    Path("net_of_a_stranger.py").write_text(NET)
    config = read_values(Path(LATEST))["config"]
    (config["settings"] if what == "network" else config)[what] = "net_of_a_stranger:Net"
    edited(**{**config, "mode": command.partition("-")[2]})
    for _ in range(2):
        said = output_of(command, *RESUME[1:], *TYPED, code=2)
        assert f"only the file mentions the {what} net_of_a_stranger:Net" in said
        assert "--trust" in said
        assert not Path("imported").exists()
