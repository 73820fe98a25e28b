"""Hostile environments hurt only themselves: all that is done with one gives what its harmless twin
gives, or one line, within the deadline. The process and the machine are as before.
"""

import functools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.hostile_envs import DEEDS, IMPORT_TORCH, write_module
from tests.process_state import process_state
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, evaluate, load_agent, train
from workflow_rl.commands.main import main

DEADLINE = 2.0
ENV = "hostile_game:Env"
NUMBER = re.compile(r"-?\d+\.\d+")
TINY = {"n_envs": 2, "n_workers": 1, "total_steps": 40, "steps_per_update": 20, "device": "cpu"}
TRAIN = [
    *("--hidden-sizes", "4", "--quiet"),
    *(f"--{n.replace('_', '-')}={v}" for n, v in TINY.items()),
]
EVALUATE = ["evaluate", "run", "--episodes", "4", "--n-workers", "1", "--quiet"]


def command(*words: str) -> Callable[[float], tuple[int, Any]]:
    """What runs a command with a deadline, and returns its exit code and what it printed."""

    def run(deadline: float) -> tuple[int, Any]:
        timeout = [] if words[0] == "replay" else ["--worker-timeout", str(deadline)]
        result = CliRunner().invoke(main, [*words, *timeout])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.exit_code, result.output

    return run


def call(function: Callable[[float], Any]) -> Callable[[float], tuple[int, Any]]:
    """What calls a function, and returns 0 and its value, or 2 and the error's text."""

    def run(deadline: float) -> tuple[int, Any]:
        try:
            return 0, function(deadline)
        except ValueError as error:
            return 2, f"Error: {error}"

    return run


def trained(deadline: float, **changes: Any) -> None:
    config = TrainConfig(
        "async", env=ENV, worker_timeout=deadline, settings={"hidden_sizes": (4,)}, **TINY
    )
    if changes:
        train(config.changed(**changes), "resumed", resume=True)
    else:
        train(config, "new")


DO: dict[str, Callable[[float], tuple[int, Any]]] = {
    "train-async": command("train-async", "--env", ENV, *TRAIN, "--run-dir", "new"),
    "train-sync": command("train-sync", "--env", ENV, *TRAIN, "--run-dir", "new"),
    "train": call(trained),
    "--resume": command("train-async", "--resume", "resumed", "--total-steps", "80", "--quiet"),
    "resume": call(functools.partial(trained, total_steps=80)),
    "evaluate": command(*EVALUATE),
    "from Python": call(
        lambda deadline: evaluate("run", 4, n_workers=1, worker_timeout=deadline).returns
    ),
    "load_agent": call(lambda deadline: load_agent("run").act([0.5, -0.5])),
    "check-env": command("check-env", ENV, "--steps", "20", "--seconds", "1"),
    "replay": command("replay", "run"),
}


def fresh(name: str) -> None:
    """Remove the runs of what was done before, and let there be one to resume."""
    for run in ("new", "resumed"):
        shutil.rmtree(run, ignore_errors=True)
    if name in ("--resume", "resume"):
        shutil.copytree("run", "resumed")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """Gives what the harmless twin gives, in the current folder: weights lie in `twin-...`."""

    @functools.cache
    def given(what: str) -> Any:
        Path("hostile_game.py").write_text("from tests.hostile_envs import Harmless as Env\n")
        fresh(what)
        code, answer = DO[what](60.0)
        assert code == (2 if what == "replay" else 0), answer
        for run in {"new", "resumed"} & {path.name for path in Path().iterdir()}:
            Path(run).rename(f"twin-{what}")
        return answer

    folder = tmp_path_factory.mktemp("games")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        Path("hostile_game.py").write_text("from tests.hostile_envs import Harmless as Env\n")
        assert command("train-async", "--env", ENV, *TRAIN, "--run-dir", "run")(60.0)[0] == 0
        yield given


QUICK = [(name, ["train"]) for name in DEEDS if name not in IMPORT_TORCH[1:]]
LONG = [pytest.param(name, [*DO], marks=pytest.mark.slow) for name in DEEDS]


@pytest.mark.system
@pytest.mark.parametrize(("name", "deeds"), [*QUICK, *LONG])
def test_all_is_as_with_the_harmless_twin_or_is_refused_in_one_line(name, deeds, twin):
    is_short = DEEDS[name].hangs or name == "stops_clock"
    for what in deeds:
        if DEEDS[name].hangs and what == "load_agent":
            continue  # It has the usual deadline, a minute.
        expected = twin(what)
        Path(f"{write_module(Path(), name).partition(':')[0]}.py").replace("hostile_game.py")
        # Its bytecode may be that of another deed: of this second, and with a name as long.
        shutil.rmtree("__pycache__", ignore_errors=True)
        fresh(what)
        before = process_state()
        code, answer = DO[what](DEADLINE if is_short else 60.0)
        assert process_state() == before, what
        print(name, what, code, str(answer).strip().splitlines()[-1][:150])
        if code == 2:
            assert re.findall("^Error: ", answer, re.MULTILINE) == ["Error: "], answer
            assert DEEDS[name].is_refused or what in ("replay", "check-env"), answer
            assert what != "train" or (ENV in answer and not Path("new").exists())
        elif what == "check-env":
            assert code == 0 or "fail" in answer
        elif what in ("evaluate", "from Python", "load_agent"):
            told = NUMBER.findall(str(answer))[:2], NUMBER.findall(str(expected))[:2]
            assert told[0] == told[1], what
        else:
            assert not DEEDS[name].is_refused
            run = "resumed" if "resume" in what else "new"
            assert same_weights(Path(run), Path(f"twin-{what}")), what
