"""A worker's side of environments that play in the simulator's own interpreter.

A worker starts that interpreter once for all its envs. `simulator_process` is the other side. The
rest of a worker, such as the policy, runs in the learner's interpreter. So only the learner's NumPy
decides the weights.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any

import gymnasium

from workflow_rl.agents.policies.distributions import Actions
from workflow_rl.environments import simulator_process
from workflow_rl.environments.action_mask import METHODS
from workflow_rl.environments.env_batch import Env, Obs, SerialEnvs, StepAnswers
from workflow_rl.environments.episode import EpisodeSpec
from workflow_rl.environments.flat_env import FlatEnv, Unflatten, unflattener
from workflow_rl.environments.gymnasium_versions import parts_from, space_from
from workflow_rl.environments.joint_env import JointEnv
from workflow_rl.environments.simulator_process import PROTOCOL, Messages, decode, encode
from workflow_rl.errors import ConfigError, ElsewhereError, ObservationError
from workflow_rl.life import alive

if TYPE_CHECKING:
    from workflow_rl.environments.gymnasium_env import GymnasiumEnvironment

ARGUMENT = "env_python"
LEAST_PYTHON, LEAST_NUMPY = (3, 8), (1, 20)
END_SECONDS = 1.0
LOOK_SECONDS = 60.0
KERNELS = "NPY_DISABLE_CPU_FEATURES"
OLDER_KERNELS = "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL"
"""The names in older versions of NumPy for the kernels that `portable` leaves out."""
# This script runs in any version of Python, and imports nothing from the current folder.
_LOOK = """
import sys
sys.path = [folder for folder in sys.path if folder]  # Before 3.11 nothing else takes it out.
import json
found = {"python": sys.version.split()[0]}
for name in ("numpy", "gymnasium", "gym"):
    try:
        from importlib.metadata import version
        found[name] = version(name)
    except Exception:
        found[name] = None
print(json.dumps(found))
"""
_running = threading.local()
"""The running interpreters of this thread, by path."""


def versions_of(python: str) -> dict[str, str | None]:
    """Return the versions of Python, NumPy, Gymnasium and gym in an interpreter; None if one is
    missing. Raises ConfigError if `python` is no interpreter."""
    try:
        # Python 3.13 imports modules before it runs the script's first line.
        variables = {**_variables(), "PYTHONSAFEPATH": "1"}
        looked = subprocess.run(
            [python, "-c", _LOOK], capture_output=True, env=variables, timeout=LOOK_SECONDS
        )
        found: dict[str, str | None] = json.loads(looked.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        why = error.strerror if isinstance(error, OSError) else "it does not answer as one"
        raise ConfigError(ARGUMENT, f"{python} is no Python interpreter: {why}") from None
    return found


def what_it_lacks(python: str, found: Mapping[str, str | None]) -> str | None:
    """Return why environments cannot play in an interpreter; None if they can."""
    version, numpy = found["python"], found["numpy"]
    if _numbers(version) < LEAST_PYTHON:
        return f"{python} is Python {version}: environments need 3.8 or newer"
    if numpy is None or _numbers(numpy) < LEAST_NUMPY:
        has = "no NumPy" if numpy is None else f"NumPy {numpy}"
        return f"{python} has {has}: `{python} -m pip install 'numpy>=1.20'` installs what it needs"
    return None


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "0").split(".")[:2] if part.isdigit())


def _variables() -> dict[str, str]:
    """Return environment variables with which the interpreter does not find this one's packages."""
    variables = {**os.environ}
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        variables.pop(name, None)
    # With a fixed hash seed, sets of text have one order in every interpreter.
    variables.setdefault("PYTHONHASHSEED", "0")
    if KERNELS in variables:
        variables[KERNELS] += f" {OLDER_KERNELS}"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = variables.pop("PYTHONPATH", "").split(os.pathsep)
    if others := [folder for folder in path if folder and folder != root]:
        variables["PYTHONPATH"] = os.pathsep.join(others)
    return variables


class Interpreter:
    """A running interpreter, and the calls to it.

    Raises ConfigError if the interpreter cannot be used.
    """

    def __init__(self, python: str) -> None:
        if lacks := what_it_lacks(python, versions_of(python)):
            raise ConfigError(ARGUMENT, lacks)
        self._python = python
        self._queued: list[tuple[Any, ...]] = []
        self._answers: dict[int, tuple[bool, Any]] = {}
        self._n_made = self._n_open = 0
        ours, theirs = socket.socketpair()
        command = [python, simulator_process.__file__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=_variables()
            )
        self._messages = Messages(ours)
        try:
            hello = self._receive()
        except (EOFError, OSError):
            self.end()
            raise ConfigError(ARGUMENT, f"{python} ended at its start") from None
        self.about = f"Python {hello['python']}, NumPy {hello['numpy']}"
        if hello["protocol"] != PROTOCOL:
            self.end()
            raise ConfigError(
                ARGUMENT,
                f"{python} speaks version {hello['protocol']} of the messages, and this process "
                f"speaks {PROTOCOL}: start again, for the package has been changed meanwhile",
            )

    def make(self, *made: Any) -> tuple[int, Any]:
        self._n_made += 1
        self.ask("make", self._n_made, *made)
        try:
            description = self.answer(self._n_made)
        except ElsewhereError as error:
            what = f"{error.what}, in {self._python}"
            raise ElsewhereError(what, error.place, error.told) from None
        self._n_open += 1
        return self._n_made, description

    def ask(self, call: str, number: int, *args: Any) -> None:
        """Queue a call of an env. The next `answer` sends all queued calls."""
        self._queued.append((call, number, *args))

    def answer(self, number: int) -> Any:
        """Return an env's answer. Raises ElsewhereError if the env raised an exception."""
        if self._queued:
            asked, self._queued = self._queued, []
            try:
                self._messages.send(asked)
                answers = self._receive()
            except (EOFError, OSError):
                self._die_alike()
            # The calls after an exception have no answers.
            numbers = (call[1] for call in asked)
            self._answers.update(zip(numbers, answers, strict=False))
        is_fine, value = self._answers.pop(number)
        if not is_fine:
            what, place, _ = value
            kind, _, fault = what.partition(": ")
            if kind == ObservationError.__name__ and not place:  # This package's code raised it.
                raise ObservationError(fault)
            raise ElsewhereError(*value)
        return value

    def _receive(self) -> Any:
        """Return the next message that is not a sign of life."""
        while (message := self._messages.receive()) is None:
            alive()
        return message

    def close(self, number: int) -> None:
        """Close an env. The interpreter ends when its last env is closed."""
        self._n_open -= 1
        try:
            self.ask("close", number)
            self.answer(number)
        finally:
            if not self._n_open:
                self.end()

    def end(self) -> None:
        if vars(_running).get(self._python) is self:
            del vars(_running)[self._python]
        self._messages.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _die_alike(self) -> None:
        """End this worker with the exit code of its interpreter, so that the pool reports it.

        In a process that is not a worker, raises ElsewhereError instead.
        """
        self.end()
        code = self._process.returncode
        if parent_process() is not None:
            if code < 0:
                signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
                os.kill(os.getpid(), -code)
            os._exit(code)
        raise ElsewhereError(f"{self._python} ended, with exit code {code}", "", "")


def made_there(environment: GymnasiumEnvironment, options: Mapping[str, Any]) -> Env:
    try:
        args = decode(encode({**environment.args, **options}))
    except TypeError as error:
        raise ConfigError("env_args", f"{error}: give plain values") from None
    if environment.factory is not None:
        raise ConfigError(
            ARGUMENT,
            f"{environment.python} cannot be given the function itself: name it, such as "
            'env="module:function"',
        )
    running: dict[str, Interpreter] = vars(_running)
    if environment.python not in running:
        running[environment.python] = Interpreter(environment.python)
    simulator = running[environment.python]
    made = environment.env_id, args, environment.private_random
    number, told = simulator.make(METHODS, *made)
    if "agents" in told:
        return JointEnv(_Team(simulator, number, told), environment.masks)
    return SimulatorEnv(simulator, number, told)


class Elsewhere:
    """An environment that plays in another interpreter. told: its facts, by `simulator_process`."""

    def __init__(self, simulator: Interpreter, number: int, told: Mapping[str, Any]) -> None:
        self._simulator, self._number = simulator, number
        self.about = simulator.about
        self._is_asked = self._is_closed = False
        self._takes_options = told["takes_options"]
        if told["entities"] is not None:
            self.entities = decode(told["entities"])

    def ask(self, call: str, *args: Any) -> None:
        """Queue a call, whose answer `reset` or `step` returns. One message then asks many envs."""
        self._simulator.ask(call, self._number, *map(encode, args))
        self._is_asked = True

    def _answer(self, call: str, *args: Any) -> Any:
        if not self._is_asked:
            self.ask(call, *args)
        self._is_asked = False
        return decode(self._simulator.answer(self._number))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if options and not self._takes_options:
            raise ObservationError("its reset takes no options: train it without a curriculum")
        return self._answer("reset", seed, options)

    def step(self, action: Any) -> Any:
        return self._answer("step", action)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._simulator.close(self._number)


class SimulatorEnv(Elsewhere, gymnasium.Env[Any, Any]):
    """An environment of one agent that plays in another interpreter.

    A step's `info` has only the mask of actions and the costs. A reset's `info` has all entries
    that can be sent.
    """

    def __init__(self, simulator: Interpreter, number: int, told: Mapping[str, Any]) -> None:
        super().__init__(simulator, number, told)
        self._attributes = {*told["attributes"]}
        self.observation_space = space_from(told["observation"])
        self.action_space = space_from(told["action"])
        self.render_mode = told["render_mode"]
        self.metadata = {"render_modes": [self.render_mode], "render_fps": told["render_fps"]}

    def render(self) -> Any:
        return self._answer("render")

    def __getattr__(self, name: str) -> Any:
        """Return a function that returns an attribute's value there, or the result of a method."""
        if name not in vars(self).get("_attributes", ()):
            raise AttributeError(name)

        def told() -> Any:
            self._simulator.ask("tell", self._number, name)
            return decode(self._simulator.answer(self._number))

        return told


class _Team(Elsewhere):
    """A ParallelEnv that plays in another interpreter, with the members that JointEnv needs."""

    def __init__(self, simulator: Interpreter, number: int, told: Mapping[str, Any]) -> None:
        super().__init__(simulator, number, told)
        self.possible_agents = decode(told["agents"])
        self.shared_reward = told["shared_reward"]
        self.agents: list[str] = []
        self._state: Any = None
        self.observation_space = dict(parts_from(told["observation"][1])).__getitem__
        self.action_space = dict(parts_from(told["action"][1])).__getitem__
        if told["state"] is not None:
            self.state_space = space_from(told["state"])

    def _answer(self, call: str, *args: Any) -> Any:
        answer, self.agents, self._state = super()._answer(call, *args)
        return answer

    def state(self) -> Any:
        return self._state


class SimulatorEnvs(SerialEnvs):
    """Envs in one interpreter. One message steps them all. An EnvBatch.

    make_env: makes a FlatEnv around the result of `made_there`.
    """

    def __init__(
        self, make_env: Callable[[], FlatEnv], n_envs: int, has_costs: bool = False
    ) -> None:
        super().__init__(make_env, n_envs, has_costs=has_costs)
        inner: list[Any] = [env.unwrapped for env in self.envs]
        self._there: list[Elsewhere] = [getattr(env, "env", env) for env in inner]
        self._handed = [_as_handed(env) for env in inner]

    def reset(self, envs: Sequence[int], specs: Sequence[EpisodeSpec]) -> Obs:
        for env, spec in zip(envs, specs, strict=True):
            self._there[env].ask("reset", spec.env_seed, self.options_of(spec))
        return super().reset(envs, specs)

    def step(self, envs: Sequence[int], actions: Actions) -> StepAnswers:
        chosen = actions.tolist() if actions.ndim == 1 else actions
        for env, action in zip(envs, chosen, strict=True):
            self._there[env].ask("step", self._handed[env](action))
        return super().step(envs, actions)


def _as_handed(env: Any) -> Unflatten:
    """Return a function from a sampled action to the action that an env passes to its Elsewhere."""
    unflatten = unflattener(env.action_space)
    if not isinstance(env, JointEnv):
        return unflatten
    return lambda action: env.handed(unflatten(action))
