"""Files from strangers are data: no command imports or calls what only a file mentions."""

import copy
import importlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.refusals import cases
from tests.cli import output_of, refused
from tests.strangers.folders import (
    FILLED,
    OF_GUESTS,
    OF_PPO,
    OWN_MODULE,
    READING,
    RUNS,
    WRITTEN,
    calling,
    laid_out,
    options_of,
    outside,
    plant,
    poison,
)
from tests.strangers.watch import CANARY, watched
from workflow_rl.agents.user_modules import imported
from workflow_rl.collection import try_in_worker
from workflow_rl.commands.main import main, places
from workflow_rl.environments.environment import Tell

pytestmark = pytest.mark.system

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


def _call(draw: Any, config: dict[str, Any]) -> None:
    """The environment."""
    env, args = draw(st.sampled_from(CALLS))
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


def _beside(draw: Any, config: dict[str, Any]) -> None:
    """Some field, beside an environment that the user may name."""
    _text(draw, config)
    config |= {"env": f"{OWN_MODULE}:make", "env_args": {}}


def _all(draw: Any, config: dict[str, Any]) -> None:
    """Every field that names something, at once."""
    for field in [*TEXTS, *OF_PPO]:
        value = draw(st.sampled_from(NAMES))
        (config["settings"] if field in OF_PPO else config)[field] = value


HOSTILE: list[Callable[[Any, dict[str, Any]], None]] = [_call, _text, _text, _flags, _beside, _all]
COMMANDS = sorted(READING)
READS_NOTHING = {"check-env", "doctor", "benchmark"}


def test_every_command_that_reads_runs_is_tried() -> None:
    assert {arguments[0] for arguments in READING.values()} | READS_NOTHING == places().keys()


def test_the_watch_hears(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(AssertionError), watched():
        importlib.import_module(CANARY)
    del sys.modules[CANARY]
    with pytest.raises(AssertionError), watched():
        os.system(f"true {CANARY}")


def test_the_watch_hears_workers(folder: Path) -> None:
    def imports(tell: Tell) -> None:
        tell(imported(CANARY).__name__)

    with pytest.raises(AssertionError), watched():
        assert list(try_in_worker.ask(imports, "env")) == [CANARY]


@st.composite
def edits(draw: Any) -> Callable[[dict[str, Any]], None]:
    """The same edit of any config."""
    hostile = draw(st.sampled_from(HOSTILE))
    after: dict[str, Any] = {"settings": {}}
    hostile(draw, after)

    def edit(config: dict[str, Any]) -> None:
        changes = copy.deepcopy(after)
        if "env" in changes:
            for name in OF_GUESTS:
                config.pop(name, None)
        config["settings"].update(changes.pop("settings"))
        config.update(changes)

    return edit


def assert_data(data: st.DataObject, made: Path, folder: Path, trains: bool) -> None:
    """Nothing that only a file mentions is imported or called, and nothing is written elsewhere.

    trains: whether runs go on, rather than be shown.
    """
    kind, command = data.draw(st.sampled_from(sorted(RUNS))), data.draw(st.sampled_from(COMMANDS))
    arguments = laid_out(made, kind, command)
    poison(folder, data.draw(edits()))
    named = data.draw(st.lists(st.sampled_from(options_of(kind, command)), max_size=2))
    arguments = [*arguments, *itertools.chain(*named)]
    if trains and "--resume" in arguments:
        arguments = [{"--dry-run": "--quiet", "999": "96"}.get(one, one) for one in arguments]
    own = outside(folder)
    own.mkdir(exist_ok=True)
    (own / "file").write_text("the user's")
    for name in data.draw(st.lists(st.sampled_from(PLACES), max_size=3)):
        plant(folder, name, data.draw(st.sampled_from(["own", "folder", "endless", "pipe"])))
    with watched():
        result = CliRunner().invoke(main, arguments)
    assert {path.name: path.read_text() for path in own.iterdir()} == {"file": "the user's"}
    # Nothing that a stranger names is kept for another time.
    kept = Path(os.environ["XDG_STATE_HOME"]).rglob("*")
    assert {path.name for path in kept if path.is_file()} <= {"key"}
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert "Traceback" not in result.output


PLACES = [
    *(f"{folder}/{name}" for folder in ("run", "population") for name in [*WRITTEN, *FILLED]),
    *("workflow", "workflow/workflow.json", "tuned/study.db", "tuned/trial-0", "tuned/tune.json"),
    *("report.html", "report_files", "plot.png", "replay.html", "out.npz", "out"),
]


@cases(15)
@given(data=st.data())
def test_files_are_data(data: st.DataObject, made: Path, folder: Path) -> None:
    assert_data(data, made, folder, trains=False)


@pytest.mark.slow
@cases(500)
@given(data=st.data())
def test_500_files_are_data(data: st.DataObject, made: Path, folder: Path) -> None:
    assert_data(data, made, folder, trains=True)


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
    poison(folder, calling(f"{CANARY}:make", {}))
    with watched():
        refused(CliRunner().invoke(main, arguments), f"{CANARY}:make", "--trust")


@pytest.mark.parametrize(
    "command", ["export run", "plot", "plot population", "report", "report population"]
)
@pytest.mark.parametrize("kind", ["ppo", "sac"])
def test_showing_and_exporting_takes_no_environment(
    command: str, kind: str, made: Path, folder: Path
) -> None:
    """Nor one that is not installed here."""
    arguments = laid_out(made, kind, command)
    poison(folder, calling("no_such_module_anywhere:make", {}))
    with watched():
        output_of(*arguments)


@pytest.mark.parametrize(
    "number",
    [0, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(20) if n not in (0, 3))],
)
def test_the_commands_themselves(number: int, made: Path, folder: Path) -> None:
    """In processes of their own, whose import of the stranger's module would leave a file."""
    kinds = sorted(RUNS)
    arguments = laid_out(made, kinds[number % len(kinds)], COMMANDS[number % len(COMMANDS)])
    poison(folder, calling(*CALLS[(3 * number) % len(CALLS)]))
    root = Path(__file__).parents[2]
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
