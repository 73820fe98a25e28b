"""Files from strangers are data: no command imports or calls what only a file names."""

from __future__ import annotations

import copy
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.strangers import CANARY, HOSTILE_MODULE, TINY, save, watched
from tests.test_bad_input import cases
from workflow_rl import TrainConfig, train
from workflow_rl.commands.main import MODULES, main
from workflow_rl.commands.tune import RANGES, TUNE_FILE
from workflow_rl.runs.config import ConfigError
from workflow_rl.runs.folder import read_config
from workflow_rl.runs.trust import trusted_config

RUNS = {
    "ppo": ["--env", "CartPole-v1", "--total-steps", "64", "--steps-per-update", "32"],
    "sac": [
        *("--algorithm", "sac", "--env", "CartPole-v1", "--total-steps", "64"),
        *("--steps-per-update", "32", "--warm-up-steps", "1000"),
    ],
    "cage2": [
        *("--max-steps", "4", "--episodes-per-update", "2", "--total-episodes", "4"),
        *("--simulator", "compiled"),
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind, its policy as a file, a population's folder and a search's."""
    root = tmp_path_factory.mktemp("made")
    for kind, options in RUNS.items():
        run = root / kind / "run"
        arguments = ["train-async", *TINY, *options, "--run-dir", str(run)]
        assert CliRunner().invoke(main, arguments).exit_code == 0
        exported = ["export", str(run), "--format", "npz", "--output", str(run / "agent.npz")]
        assert CliRunner().invoke(main, exported).exit_code == 0
        config = read_config(run).to_dict()
        for member in ("policy-0", "policy-1"):
            shutil.copytree(run, root / kind / "population" / member)
        population = {"configs": [config, config], "exchange": None, "meetings": []}
        (root / kind / "population" / "population.json").write_text(json.dumps(population))
        (root / kind / "tuned").mkdir()
        search = {"config": config, "ranges": RANGES, "n_policies": 2, "finalists": 1}
        (root / kind / "tuned" / TUNE_FILE).write_text(json.dumps(search))
    return root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the test's folder the current one, with a stranger's modules in it."""
    monkeypatch.chdir(tmp_path)
    for module in (f"{CANARY}.py", f"{CANARY}_package/__init__.py", f"{CANARY}_package/inner.py"):
        Path(module).parent.mkdir(exist_ok=True)
        Path(module).write_text(HOSTILE_MODULE)
    return tmp_path


NAMES = [
    f"{CANARY}:make",
    f"{CANARY}:Env",
    f"{CANARY}:Env-v0",
    f"{CANARY}_package:make",
    f"{CANARY}_package.inner:Env",
    f"{CANARY}",
    f"{CANARY}.make",
    f"os:mkdir:{CANARY}",
    f"./{CANARY}.py",
    f"http://127.0.0.1:9/{CANARY}",
    f"{CANARY}:6379",
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("os:system", {"command": f"touch {CANARY}.called"}),
    ("os:mkdir", {"path": f"{CANARY}.called"}),
    ("subprocess:run", {"args": ["touch", f"{CANARY}.called"]}),
    ("builtins:exec", {"source": f"open('{CANARY}.called', 'w')"}),
    ("builtins:__import__", {"name": CANARY}),
    ("importlib:import_module", {"name": CANARY}),
    ("runpy:run_path", {"path_name": f"{CANARY}.py"}),
    ("tests.faulty_env:FaultyEnv", {"code": f"open('{CANARY}.called', 'w')"}),
    ("tests.html_pages:strict", {"page": CANARY}),
    ("gymnasium:make", {"id": f"{CANARY}:Env-v0"}),
    ("gymnasium:Half-v0", {"xml_file": f"{CANARY}.xml"}),
    ("HalfCheetah-v5", {"xml_file": f"{CANARY}.xml"}),
    ("HalfCheetah-v5", {"xml_file": f"/tmp/{CANARY}/model.xml"}),
    ("CartPole-v1", {"render_mode": f"{CANARY}:make"}),
    ("CartPole-v1", {"id": f"{CANARY}:Env-v0"}),
    ("CartPole-v1", {"entry_point": f"{CANARY}:make"}),
    ("CartPole-v1", {"additional_wrappers": [f"{CANARY}:make"]}),
    ("workflow_rl/CAGE2-v0", {"simulator": f"{CANARY}:make"}),
]
TEXTS = [
    *("mode", "algorithm", "preset", "cluster", "device", "batching", "when_full"),
    *("red_agent", "simulator", "observation", "actions", "opening", "make_env", "named_by_file"),
    *("asked", "env_args", "env"),
]
OF_PPO = ["network", "activation", "correction", "minibatches_of", "hidden_sizes"]


def _call(draw: Any, config: dict[str, Any]) -> None:
    """The environment."""
    env, args = draw(st.sampled_from(CALLS))
    guest = ("red_agent", "max_steps", "simulator", "observation", "actions", "opening")
    for name in guest:
        config.pop(name, None)
    config |= {"env": env, "env_args": args}
    if env == "workflow_rl/CAGE2-v0":
        config |= args
        del config["env_args"]


def _text(draw: Any, config: dict[str, Any]) -> None:
    """Some other field that names something, alone."""
    name = draw(st.sampled_from(NAMES))
    field = draw(st.sampled_from([*TEXTS, *OF_PPO]))
    value = draw(st.sampled_from([name, [name], {name: name}, {"xml_file": name}]))
    (config["settings"] if field in OF_PPO else config)[field] = value


def _flags(draw: Any, config: dict[str, Any]) -> None:
    """What would say that the file is to be trusted."""
    _call(draw, config)
    config["named_by_file"] = False
    config[draw(st.sampled_from(["make_env", "trust", "factory"]))] = f"{CANARY}:make"


HOSTILE: list[Callable[[Any, dict[str, Any]], None]] = [_call, _call, _text, _flags]
RESUME = ["--dry-run", "--quiet"]
READING = {
    "evaluate run": ["evaluate", "run", "--episodes", "1", "--quiet"],
    "evaluate checkpoint": ["evaluate", "run/checkpoint.pt", "--episodes", "1", "--quiet"],
    "evaluate policy": ["evaluate", "run/agent.npz", "--episodes", "1", "--quiet"],
    "evaluate video": ["evaluate", "run", "--video", "video", "--episodes", "1", "--quiet"],
    "export run": ["export", "run", "--format", "npz", "--output", "out.npz", "--overwrite"],
    "export policy": ["export", "run/agent.npz", "--format", "cage2", "--output", "out"],
    "improve": ["improve", "run/agent.npz", "improved.npz", "--episodes", "1", "--judges", "2"],
    "replay": ["replay", "run", "--max-steps", "2", "--output", "replay.html"],
    "replay policy": ["replay", "sleep", "--against", "run/agent.npz", "--max-steps", "2"],
    "verify": ["verify", "run"],
    "train-async": ["train-async", "--resume", "run", "--total-steps", "999", *RESUME],
    "train-sync": ["train-sync", "--resume", "run", *RESUME],
    "init-from": ["train-async", "--init-from", "run", *TINY, "--dry-run"],
    "several": ["train-async", "--resume", "population", "--total-steps", "999", *RESUME],
    "population": ["train-population", "--resume", "population", *RESUME],
    "tune": ["tune", "--resume", "tuned", "--trials", "1", *RESUME],
    "champion": ["train-champion", "--run-dir", "run"],
    "workflow": ["train-workflow", "--run-dir", "run"],
    "search-workflow": ["search-workflow", "run", "--episodes", "2", "--quiet"],
    "plot": ["plot", "run", "--output", "plot.png"],
    "plot population": ["plot", "population", "--output", "plot.png"],
    "report": ["report", "run", "--output", "report.html"],
    "report population": ["report", "population", "--output", "report.html"],
    "parity": ["parity", "--blue", "checkpoint", "--checkpoint", "run", "--episodes", "1"],
}
COMMANDS = sorted(READING)
READS_NOTHING = {"check-env", "doctor", "benchmark", "compare-modes"}


def test_every_command_that_reads_runs_is_tried() -> None:
    assert {arguments[0] for arguments in READING.values()} | READS_NOTHING == MODULES.keys()


def poison(root: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the config in all files of runs, populations and searches, everywhere alike."""
    for path in (*root.rglob("config.json"), *root.rglob(TUNE_FILE)):
        values = json.loads(path.read_text())
        edit(values["config"] if path.name == TUNE_FILE else values)
        path.write_text(json.dumps(values))
    for path in root.rglob("machine.json"):
        values = json.loads(path.read_text())
        edit(values["config"])
        path.write_text(json.dumps(values))
    for path in root.rglob("population.json"):
        values = json.loads(path.read_text())
        for config in values["configs"]:
            edit(config)
        path.write_text(json.dumps(values))
    for path in root.rglob("*.pt"):
        content = torch.load(path, weights_only=True)
        edit(content["config"])
        save(path, content)
    for path in root.rglob("agent.npz"):
        _poison_policy(path, edit)


def _poison_policy(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    with np.load(io.BytesIO(path.read_bytes())) as file:
        arrays: dict[str, Any] = dict(file)
    about = json.loads(str(arrays["settings"]))
    config = {"settings": {name: about.get(name) for name in OF_PPO}, **about["about"]}
    edit(config)
    settings = config.pop("settings")
    about |= {name: settings[name] for name in ("network", "activation")}
    about["about"] = {"env_args": {}, **config}
    arrays["settings"] = np.array(json.dumps(about))
    np.savez(path, **arrays)


def laid_out(made: Path, kind: str, command: str) -> list[str]:
    """Lay out, in the current folder, what a command reads, as it was made. Returns the command."""
    for name in ("run", "population", "tuned", "out"):
        shutil.rmtree(name, ignore_errors=True)
    for name in {word.partition("/")[0] for word in READING[command][1:]}:
        if (made / kind / name).is_dir():
            shutil.copytree(made / kind / name, name)
    return READING[command]


def test_the_watch_hears(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(AssertionError), watched():
        importlib.import_module(CANARY)
    del sys.modules[CANARY]
    with pytest.raises(AssertionError), watched():
        os.system(f"true {CANARY}")


@st.composite
def edits(draw: Any) -> Callable[[dict[str, Any]], None]:
    """The same edit of any config."""
    hostile = draw(st.sampled_from(HOSTILE))
    after: dict[str, Any] = {"settings": {}}
    hostile(draw, after)

    def edit(config: dict[str, Any]) -> None:
        changes = copy.deepcopy(after)
        if "env" in changes:
            for name in ("red_agent", "max_steps", "simulator", "observation", "actions"):
                config.pop(name, None)
            config.pop("opening", None)
        config["settings"].update(changes.pop("settings"))
        config.update(changes)

    return edit


def assert_data(data: st.DataObject, made: Path, folder: Path) -> None:
    """Nothing that only a file names is imported or called."""
    kind, command = data.draw(st.sampled_from(sorted(RUNS))), data.draw(st.sampled_from(COMMANDS))
    arguments = laid_out(made, kind, command)
    poison(folder, data.draw(edits()))
    with watched():
        result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert "Traceback" not in result.output


@cases(50)
@given(data=st.data())
def test_files_are_data(data: st.DataObject, made: Path, folder: Path) -> None:
    assert_data(data, made, folder)


@pytest.mark.slow
@cases(500)
@given(data=st.data())
def test_500_files_are_data(data: st.DataObject, made: Path, folder: Path) -> None:
    assert_data(data, made, folder)


def _calling(env: str, args: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def edit(config: dict[str, Any]) -> None:
        for name in ("red_agent", "max_steps", "simulator", "observation", "actions", "opening"):
            config.pop(name, None)
        config.update(env=env, env_args=args)

    return edit


REFUSING = [
    *("evaluate run", "evaluate checkpoint", "evaluate policy", "verify", "train-async"),
    *("several", "tune"),
]


@pytest.mark.parametrize("kind", ["ppo", "sac"])
@pytest.mark.parametrize("command", REFUSING)
def test_a_command_that_would_call_something_asks_for_trust(
    command: str, kind: str, made: Path, folder: Path
) -> None:
    arguments = laid_out(made, kind, command)
    poison(folder, _calling(f"{CANARY}:make", {}))
    with watched():
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert f"{CANARY}:make" in result.output
    assert "--trust" in result.output
    assert len(result.output.strip().splitlines()[-1].split("Error: ")) == 2


@pytest.mark.parametrize(
    "command", ["export run", "plot", "plot population", "report", "report population"]
)
@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_showing_and_exporting_takes_no_environment(
    command: str, kind: str, made: Path, folder: Path
) -> None:
    """Nor one that is not installed here."""
    arguments = laid_out(made, kind, command)
    poison(folder, _calling("no_such_module_anywhere:make", {}))
    with watched():
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.parametrize(
    "number",
    [0, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(20) if n not in (0, 3))],
)
def test_the_commands_themselves(number: int, made: Path, folder: Path) -> None:
    """In processes of their own, whose import of the stranger's module would leave a file."""
    kinds = sorted(RUNS)
    arguments = laid_out(made, kinds[number % len(kinds)], COMMANDS[number % len(COMMANDS)])
    poison(folder, _calling(*CALLS[(3 * number) % len(CALLS)]))
    root = Path(__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", "from workflow_rl.commands.main import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode in (0, 1, 2), ended.stderr
    assert "Traceback" not in ended.stderr
    assert not list(folder.glob(f"{CANARY}.*ed"))


def test_an_address_in_a_file_is_not_joined(made: Path, folder: Path) -> None:
    resume = laid_out(made, "ppo", "train-async")
    poison(folder, lambda config: config.update(cluster="127.0.0.1:9"))
    result = CliRunner().invoke(main, resume)
    assert result.exit_code == 2
    assert "--cluster 127.0.0.1:9" in result.output
    # Nor by who names only the environment.
    for more in (["--env", "CartPole-v1"], ["--trust"]):
        result = CliRunner().invoke(main, [*resume, *more])
        assert "only the file names the cluster" in result.output
    with pytest.raises(ConfigError, match="only the file names the cluster"):
        train(read_config(Path("run")), "again", env=lambda: gymnasium.make("CartPole-v1"))
    assert CliRunner().invoke(main, [*resume, "--cluster", "none"]).exit_code == 0


def test_an_address_that_the_user_gives_in_python_is_joined(folder: Path) -> None:
    config = TrainConfig("async", env="CartPole-v1", n_workers=1, cluster="127.0.0.1:9")
    assert trusted_config(config) == config


LINKED = {
    "sac memory": ("sac", "train-async", "run/memory"),
    "sac kept": ("sac", "train-async", "run/kept"),
    "policy": ("ppo", "several", "population/policy-0"),
}


@pytest.mark.parametrize("case", LINKED)
def test_folders_that_are_links_are_not_written_into(case: str, made: Path, folder: Path) -> None:
    kind, command, link = LINKED[case]
    arguments = [one for one in laid_out(made, kind, command) if one != "--dry-run"]
    own = folder / "own"
    if Path(link).exists():
        Path(link).rename(own)
    own.mkdir(exist_ok=True)
    (own / "real-000000900-000000999.npy").write_text("the user's")
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    Path(link).symlink_to(own)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert f"{link} is a link" in result.output
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_no_text_of_a_file_commands_the_terminal(made: Path, folder: Path) -> None:
    command = "\x1b]0;title\x07\x1b[2J"
    for name in ("train-async", "tune", "verify"):
        arguments = laid_out(made, "ppo", name)
        poison(folder, lambda config: config.update(preset=command))
        record = Path("run/machine.json")
        if record.exists():
            values = json.loads(record.read_text())
            machines = [dict.fromkeys(one, command) for one in values["machines"]]
            weights = [command for _ in values["weights"]]
            record.write_text(json.dumps({**values, "machines": machines, "weights": weights}))
        result = CliRunner().invoke(main, arguments, color=True)
        assert "title" in result.output
        assert "\x1b" not in result.output


@pytest.mark.parametrize("command", ["report", "evaluate policy", "plot", "export policy"])
def test_arguments_within_arguments_are_one_line_of_error(
    command: str, made: Path, folder: Path
) -> None:
    """However deep: Python's own copies of them fail at some hundreds."""
    deep: Any = 1
    for _ in range(450):
        deep = [deep]
    arguments = laid_out(made, "ppo", command)
    poison(folder, _calling("CartPole-v1", {"deep": deep}))
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "levels" in result.output


def test_links_in_a_run_folder_lead_to_no_other_file(made: Path, folder: Path) -> None:
    """A command that writes into a stranger's folder replaces the link, or refuses."""
    laid_out(made, "ppo", "plot")
    Path("own").write_text("the user's")
    for name in (".evaluation.json.writing", "learning_curve.png", "evaluation.json", "run_id"):
        Path("run", name).unlink(missing_ok=True)
        Path("run", name).symlink_to(folder / "own")
    for arguments in (
        ["evaluate", "run", "--episodes", "1", "--quiet"],
        ["plot", "run"],
        ["report", "run", "--output", "run/report.html"],
        ["train-async", "--resume", "run", "--total-steps", "96", "--quiet"],
    ):
        CliRunner().invoke(main, arguments)
        assert Path("own").read_text() == "the user's", arguments


def test_an_endless_id_of_a_run_is_one_line_of_error(made: Path, folder: Path) -> None:
    """A small archive can hold a file that is said to be of any size."""
    resume = [one for one in laid_out(made, "ppo", "train-async") if one != "--dry-run"]
    os.truncate("run/run_id", 2**42)
    result = CliRunner().invoke(main, resume)
    assert result.exit_code == 2, result.exception
    assert "is of another run" in result.output
