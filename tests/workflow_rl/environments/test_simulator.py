import ast
import glob
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np

from tests.cli import output_of
from tests.playing import episodes_of
from tests.processes import descendants, survivors
from tests.tiny_policies import actor_for
from tests.tiny_runs import same_weights
from workflow_rl import TrainConfig, environments, errors, evaluate, record, train
from workflow_rl.collection import try_in_worker
from workflow_rl.collection.local_pool import LocalPool
from workflow_rl.collection.messages import Command, TooManyFailuresError
from workflow_rl.commands.main import main
from workflow_rl.environments import answers, simulator_process
from workflow_rl.environments.episode import episode_spec
from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment
from workflow_rl.environments.simulator import versions_of, what_it_lacks
from workflow_rl.environments.simulator_process import decode, encode
from workflow_rl.errors import ConfigError
from workflow_rl.runs.checkpoint import read_values, write_values

ANY_PYTHON = "tests.env_of_any_python"
ENV = f"{ANY_PYTHON}:Walk"
RESET = (Command.RESET, ([0], [episode_spec(0, 0)]))
STEP = (Command.STEP, ([0], np.array([1])))
SMALL: dict[str, Any] = {"env": ENV, "n_envs": 4, "total_steps": 240, "steps_per_update": 120}


def other_pythons() -> list[str]:
    named = os.environ.get("OTHER_PYTHONS", "").split(os.pathsep)
    found = [shutil.which(f"python3.{minor}") for minor in range(8, 14)]
    found += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    able = []
    for python in sorted({python for python in (*named, *found) if python}):
        try:
            has = versions_of(python)
        except ConfigError:
            continue
        if what_it_lacks(python, has) is None and (has["gymnasium"] or has["gym"]):
            able.append(python)
    return able


def apart(env_id: str = ENV, python: str = sys.executable, **args: Any) -> GymnasiumEnvironment:
    return GymnasiumEnvironment(env_id, args, python=python)


def without_objects(environment: GymnasiumEnvironment) -> Any:
    """The facts, with whether there are entities and images instead of these."""
    facts = environment.facts
    kinds = facts.spaces.entities is None, facts.spaces.images is None
    return facts._replace(spaces=facts.spaces._replace(entities=None, images=None)), kinds


def shown(environment: GymnasiumEnvironment, n_envs: int = 3) -> Any:
    envs, actor = environment.make_envs(n_envs), actor_for(environment.facts.spaces)
    # No episode of this seed ends in both ways, which old environments cannot tell.
    specs = [episode_spec(2, number) for number in range(6)]
    played = episodes_of(envs, actor, specs)
    envs.close()
    columns = ("obs", "action", "reward", "last_obs", "terminated", "truncated")
    return [
        (one.episode, *(np.asarray(getattr(one, name)).tolist() for name in columns))
        for one in played
    ]


plain = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
arrays = st_np.arrays(
    st.sampled_from(["<f4", ">f8", "<i8", "|u1", "|b1", "<U3"]), st_np.array_shapes(min_dims=0)
)


@given(
    st.recursive(
        plain | arrays,
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner)
        ),
        max_leaves=8,
    )
)
def test_values_cross_as_they_are(value):
    crossed = decode(encode(value))
    assert type(crossed) is type(value)
    assert repr(crossed) == repr(value)


def test_what_is_not_plain_does_not_cross():
    for value in (object(), np.array([None]), {"a": [sys]}, {sys: 1}, {("a", sys): 1}):
        with pytest.raises(TypeError, match="cannot cross between interpreters"):
            encode(value)
    array = decode(encode(np.zeros(3)))
    array += 1  # Environments may write into the actions they get.
    assert type(decode(encode(np.float32(1)))) is np.float32


@pytest.mark.parametrize("module", [simulator_process, answers, environments, errors])
def test_python_3_8_reads_what_runs_there(module):
    ast.parse(Path(module.__file__).read_text(), feature_version=(3, 8))


@pytest.mark.parametrize(
    "env_id",
    [
        *(ENV, f"{ANY_PYTHON}:OldWalk", f"{ANY_PYTHON}:MaskedWalk", "CartPole-v1"),
        *(f"tests.any_envs:{name}" for name in ("TargetEnv", "PictureEnv")),
        *(f"tests.any_envs:{name}" for name in ("PuzzleEnv", "MaskedPuzzleEnv")),
    ],
)
def test_the_same_episodes_as_in_this_interpreter(env_id):
    here = GymnasiumEnvironment(env_id.replace("OldWalk", "Walk"))  # It is of before gym 0.26.
    assert without_objects(apart(env_id)) == without_objects(here)
    assert shown(apart(env_id)) == shown(here)


def test_objects_that_nobody_is_shown_do_not_cross():
    name = "tests.env_of_any_python:OfObjects"
    there = GymnasiumEnvironment(name, ignore_unknown=True, python=sys.executable)
    try_in_worker.check(there)
    assert there.facts.left_out == ("object",)
    assert shown(there) == shown(GymnasiumEnvironment(name, ignore_unknown=True))


def test_bare_environments_play_alike_in_all_interpreters():
    bare = apart("tests.env_of_any_python:Bare")
    assert bare.check() is None
    assert shown(bare) == shown(bare)


WALKS = "tests.env_of_any_python:Walks"
SETTINGS: dict[str, dict[str, Any]] = {
    ENV: {},
    WALKS: {},
    "tests.tiny_teams:Doors": {"network": "entities"},
    "tests.tiny_teams:Kinds": {},
    "tests.tiny_teams:StatedShift": {"critic": "central"},
    "tests.tiny_turns:Repeat": {},
}


@pytest.mark.parametrize("env_id", SETTINGS)
def test_the_same_weights_wherever_an_environment_plays(env_id, tmp_path):
    assert apart(env_id).facts.spaces == GymnasiumEnvironment(env_id).facts.spaces
    told: Any = {**SMALL, "env": env_id, "settings": SETTINGS[env_id]}
    train(TrainConfig("async", n_workers=1, **told), tmp_path / "here")
    runs = [("async", sys.executable), ("sync", sys.executable)]
    if env_id in (ENV, WALKS):
        runs += [("async", python) for python in other_pythons()]
    for mode, python in runs:
        config = TrainConfig(mode, n_workers=2, env_python=python, **told)
        run = train(config, tmp_path / f"{mode}-{python.replace('/', '-')}")
        assert same_weights(run, tmp_path / "here"), python
    returns = [evaluate(path, 3, n_workers=1).returns for path in (run, tmp_path / "here")]
    assert returns[0] == returns[1]


def test_odd_answers_of_a_team_are_taken_there_too():
    odd = "tests.env_of_any_python:OddWalks"
    played: list[Any] = []
    for environment in (apart(odd), GymnasiumEnvironment(odd), GymnasiumEnvironment(WALKS)):
        env = environment.make_env()
        rows = [env.reset(seed=3)[0], *(env.step((1, 1))[0] for _ in range(2))]
        played.append(np.array(rows).tolist())
        env.close()
    assert played[0] == played[1] == played[2]


@pytest.mark.parametrize(
    "env_id",
    [
        "tests.env_of_any_python:FlaglessWalks",
        "tests.env_of_any_python:ListedWalks",
        "tests.tiny_turns:WrongTurn",
    ],
)
def test_a_wrong_answer_of_a_team_is_said_alike(env_id):
    told = []
    for environment in (GymnasiumEnvironment(env_id), apart(env_id)):
        with pytest.raises(ConfigError, match="gives a wrong answer") as error:
            environment.check()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_each_env_gets_a_random_state_of_its_own_there():
    team = apart("tests.globally_drawing_env:GloballyDrawingGame")
    drawing = apart("tests.env_of_any_python:Drawing")
    for environment in (team, drawing):
        assert environment.check() is None
        assert environment.private_random
    here = GymnasiumEnvironment("tests.env_of_any_python:Drawing", private_random=True)
    assert shown(drawing) == shown(here) == shown(drawing, n_envs=1)


def test_a_run_knows_its_interpreter(tmp_path):
    train(TrainConfig("async", n_workers=1, **SMALL), tmp_path / "whole")
    link = script(tmp_path / "python", f'exec {sys.executable} "$@"')
    half = SMALL | {"total_steps": 120, "env_python": str(link)}
    run = train(TrainConfig("async", n_workers=1, **half), tmp_path / "half")
    output_of("train-async", "--resume", run, "--total-steps", 240, "--quiet")
    assert same_weights(run, tmp_path / "whole")
    scored = evaluate(tmp_path / "whole", 5, n_workers=1).returns
    assert evaluate(run, 5, n_workers=1).returns == scored
    moved = str(link.rename(tmp_path / "moved"))
    with pytest.raises(ConfigError, match="python is no Python interpreter"):
        evaluate(run, 5, n_workers=1)
    assert evaluate(run, 5, n_workers=1, env_python=moved).returns == scored
    record(run, tmp_path / "there.npz", 3, n_workers=1, env_python=moved)
    record(tmp_path / "whole", tmp_path / "here.npz", 3, n_workers=1)
    with np.load(tmp_path / "there.npz") as there, np.load(tmp_path / "here.npz") as here:
        assert all(np.array_equal(there[name], here[name]) for name in ("obs", "action", "reward"))
    resume = ("train-async", "--resume", run, "--quiet", "--env-python", moved)
    output_of(*resume, "--total-steps", 360)
    assert len(evaluate(run, 5, n_workers=1).returns) == 5


@pytest.mark.parametrize("fault", ["exception", "exit", "killed", "crash", "hang"])
def test_faults_there_are_a_workers_own(fault, tmp_path, caplog):
    said = {
        "exception": r"worker-0 raised ArithmeticError: the simulator is broken \(.*"
        r"env_of_any_python.py, line \d+\) in episode 0 .*env_of_any_python.py\", line",
        "exit": "worker-0 ended during 'step' .exit code: 7",
        "killed": "worker-0 ended during 'step' .exit code: -9, SIGKILL",
        "crash": "worker-0 ended during 'step' .exit code: -11, SIGSEGV",
        "hang": "worker-0 gave no sign of life for 1 s",
    }
    environment = apart(fault=fault, ticket=str(tmp_path / "ticket"))
    before = descendants()  # An env of another test may still wait for the garbage collector.
    with LocalPool(environment.make_envs, 1, timeout=60, max_failures=0) as pool:
        pool.allow(1 if fault == "hang" else 60)
        pool.send(0, *RESET)
        pool.receive(0)
        new = [one for one in descendants() if one not in before]
        there = [one for one in new if simulator_process.__file__ in one.cmdline()]
        assert there
        pool.send(0, *STEP)
        with pytest.raises(Exception, match="worker-0") as error:
            pool.receive(0)
        told = str(error.value) + str(error.value.__cause__)
        assert re.search(said[fault], told.replace("\n", " ")), told
    assert not survivors(there, 30)


def test_what_an_environment_leaves_behind_hides_no_end():
    with LocalPool(apart("tests.env_of_any_python:Forking").make_envs, 1, max_failures=0) as pool:
        pool.send(0, *RESET)
        pool.receive(0)
        pool.send(0, *STEP)
        with pytest.raises(Exception, match=r"worker-0 ended during 'step' .exit code: 7"):
            pool.receive(0)


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("tests.env_of_any_python:nothing", "tests.env_of_any_python defines no nothing"),
        ("tests.env_of_any_python:no_env", "a str is no environment: it has no observation_space"),
        ("no_such_module:Env", "No module named 'no_such_module'"),
        ("workflow_rl.field.nasimemu:Hosts", "No module named 'gym'"),
        ("tests.any_envs:TextEnv", "Text.* is not supported"),
    ],
)
def test_what_cannot_be_played_there_is_said_in_a_line(env_id, said):
    with pytest.raises(ConfigError, match=said):
        try_in_worker.check(apart(env_id))


def test_a_curriculum_needs_options(tmp_path):
    env = {"env": "tests.env_of_any_python:WithoutOptions", "env_python": sys.executable}
    length = {"total_episodes": 4, "n_envs": 2, "n_workers": 1}
    config = TrainConfig("async", **env, **length, curriculum=True, eval_every=1)
    with pytest.raises(TooManyFailuresError, match="its reset takes no options"):
        train(config, tmp_path / "curriculum")
    assert train(config.changed(curriculum=False), tmp_path / "without").exists()


def test_functions_and_guests_play_here():
    with pytest.raises(ConfigError, match="cannot be given the function itself"):
        GymnasiumEnvironment("walk", {}, lambda: None, python=sys.executable).spaces()  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="plays in this interpreter"):
        TrainConfig("async", env_python=sys.executable)
    for agent in ("champion", "decoys"):
        asked = ("evaluate", agent, "--episodes", 1, "--env-python", sys.executable)
        assert "plays in this interpreter" in output_of(*asked, code=2)


def script(path: Path, command: str) -> Path:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (None, "is no Python interpreter"),
        ("echo I am no Python", "is no Python interpreter: it does not answer as one"),
        (
            'echo \'{"python": "3.7.9", "numpy": "1.21.6", "gym": null, "gymnasium": null}\'',
            "is Python 3.7.9: environments need 3.8 or newer",
        ),
        (
            'echo \'{"python": "3.9.18", "numpy": null, "gym": null, "gymnasium": null}\'',
            "has no NumPy: `.*-m pip install 'numpy>=1.20'` installs what it needs",
        ),
    ],
)
def test_a_bad_interpreter_is_one_line(command, said, tmp_path):
    python = tmp_path / "python"
    if command is not None:
        script(python, command)
    for call in (["train-async", "--env", ENV], ["check-env", ENV]):
        error = output_of(*call, "--env-python", python, code=2).replace("\n", " ")
        assert "--env-python" in error
        assert re.search(said, error), error
    assert CliRunner().invoke(main, ["doctor", "--env-python", str(python)]).exit_code in (1, 2)


def test_a_function_is_recorded_with_an_environment_elsewhere(tmp_path):
    words = ["record", f"{__name__}:first", tmp_path / "x.npz"]
    words += ["--env", "tests.any_envs:TalkingPuzzleEnv", "--episodes", 2, "--n-workers", 1]
    words += ["--quiet", "--env-python", sys.executable]
    assert "--ignore-unknown leaves" in output_of(*words, code=2).replace("\n", " ")
    output_of(*words, "--ignore-unknown")
    with np.load(tmp_path / "x.npz") as arrays:
        assert len(arrays["length"]) == 2


def first(obs: Any) -> list[int]:
    return [1, 0]


def test_doctor_and_check_env_say_what_an_interpreter_has():
    said = output_of("doctor", "--env-python", sys.executable)
    assert f"numpy {np.__version__}" in said.replace("\n", " ").replace("  ", "")
    for env in (ENV, "tests.env_of_any_python:MaskedWalk"):
        said = output_of("check-env", env, "--env-python", sys.executable, "--seconds", 0.2)
        assert f"env-python    ok: Python {sys.version.split()[0]}" in said
        assert "gymnasium     warns" not in said


def test_a_file_starts_no_interpreter(tmp_path, monkeypatch):
    config = TrainConfig("async", n_workers=1, **(SMALL | {"env": "CartPole-v1"}))
    run = train(config, tmp_path / "run")
    checkpoint = read_values(run / "checkpoint.safetensors")
    mark = tmp_path / "ran"
    checkpoint["config"]["env_python"] = str(script(tmp_path / "evil", f"touch {mark}"))
    write_values(run / "checkpoint.safetensors", checkpoint)
    write_values(run / "best.safetensors", checkpoint)
    resume = ("train-async", "--resume", run)
    for call in (
        ("evaluate", run / "checkpoint.safetensors"),
        ("record", run, tmp_path / "x.npz"),
        resume,
    ):
        said = output_of(*call, code=2)
        assert "only the file mentions the interpreter" in said.replace("\n", " ")
    assert not mark.exists()
    output_of(*resume, "--total-steps", 480, "--quiet", "--env-python", sys.executable)
    assert not mark.exists()
    # The user named the interpreter, and the id names no module of any folder.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    output_of("evaluate", run, "--episodes", 1, "--quiet")
