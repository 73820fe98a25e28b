"""The process that plays environments in the simulator's own interpreter.

That interpreter runs this file as a script. It has Python 3.8 or newer, NumPy 1.20 or newer, and
the simulator. The file imports nothing else of this package. `simulator` is the other side, and
imports this file for the messages: plain values, and arrays as bytes, because NumPy 1 and 2 cannot
read each other's pickles.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    # This file's folder has modules whose names the simulator may import.
    sys.path.pop(0)

import importlib
import inspect
import pickle
import random
import socket
import struct
import sysconfig
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

with warnings.catch_warnings():  # NumPy warns of disabled kernels that only other versions have.
    warnings.simplefilter("ignore", RuntimeWarning)
    import numpy as np

PROTOCOL = 3
"""The version of the messages. Both sides must have an equal version."""
_SIGN_SECONDS = 0.2
_LENGTH = struct.Struct("!Q")
_PLAIN = {type(None), bool, int, float, str, bytes, bytearray}
_ARRAY, _NUMBER, _TUPLE = "array", "number", "tuple"
_MASKS = "action_mask", "action_masks"
_OF_AN_AGENT = (*_MASKS, "busy_steps")
_COSTS = "cost", "costs"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Messages:
    """Sends and receives messages of plain values through a socket."""

    def __init__(self, side: socket.socket) -> None:
        self._side = side
        self._reader = side.makefile("rb")

    def send(self, message: Any) -> None:
        pickled = pickle.dumps(message, 5)
        self._side.sendall(_LENGTH.pack(len(pickled)) + pickled)

    def receive(self) -> Any:
        """Return the next message. Raises EOFError if the other side has ended."""
        head = self._reader.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise EOFError
        return pickle.loads(self._reader.read(_LENGTH.unpack(head)[0]))

    def close(self) -> None:
        self._reader.close()
        self._side.close()


def encode(value: Any) -> Any:
    """Return a value as plain values. Raises TypeError for a value with other parts than numbers,
    text, arrays, tuples, lists and dicts."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.hasobject or value.dtype.names:
            raise TypeError(f"an array of {value.dtype} cannot cross between interpreters")
        kind = _ARRAY if isinstance(value, np.ndarray) else _NUMBER
        return kind, value.dtype.str, value.shape, bytearray(value.tobytes())
    if isinstance(value, Mapping):
        return {_plain_key(key): encode(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return _TUPLE, [encode(part) for part in value]
    if isinstance(value, list):
        return [encode(part) for part in value]
    for plain in (int, float):  # The value's class may be a subclass.
        if isinstance(value, plain):
            return plain(value)
    if isinstance(value, str):  # For a member of an Enum, `str` would return its name.
        return str.__str__(value)
    if hasattr(value, "__array__"):  # A tensor, or the LazyFrames of gym.
        return encode(np.asarray(value))
    kind = type(value).__name__
    raise TypeError(f"an object of type {kind} cannot cross between interpreters")


def _plain_key(key: Any) -> Any:
    """Return a key that the other side can read without the simulator. Raises TypeError."""
    if isinstance(key, tuple):
        return tuple([_plain_key(part) for part in key])
    if isinstance(key, np.generic):
        return key.item()
    return encode(key)


def decode(value: Any) -> Any:
    """Return the argument of `encode`. Arrays are new and writable."""
    if type(value) is tuple:
        if value[0] == _TUPLE:
            return tuple([decode(part) for part in value[1]])
        kind, dtype, shape, numbers = value
        array = np.ndarray(shape, dtype, numbers)
        return array if kind == _ARRAY else array[()]
    if type(value) is dict:
        return {key: decode(part) for key, part in value.items()}
    return [decode(part) for part in value] if type(value) is list else value


def exception_parts(error: BaseException, not_users: Sequence[str]) -> tuple[str, str, str]:
    """Return an exception's type and message, the file and line of the user's code that raised it,
    and its traceback from the user's code on.

    not_users: the first parts of paths of files that are not the user's. If all files of the
    traceback are such files, the file and line are "".
    """
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(tuple(not_users))]
    try:
        text = str(error)
    except Exception as problem:
        text = f"its text raises {type(problem).__name__}"
    lines = f"{type(error).__name__}: {text}".splitlines()
    place = f" ({users[-1].filename}, line {users[-1].lineno})" if users else ""
    shown = error.__traceback__
    while users and shown is not None and shown.tb_frame.f_code.co_filename != users[0].filename:
        shown = shown.tb_next
    told = "".join(traceback.format_exception(type(error), error, shown))
    return lines[0].rstrip(": "), place, told


class RandomState:
    """One env's own state of the process's random numbers, of `random` and `np.random`.

    The states are exchanged before each call of an env. An exchange takes 0.3 microseconds, and 12
    more if another such env was called before. NumPy draws normal numbers in pairs. A second number
    that NumPy kept is dropped before a call.
    """

    _current: Any = None
    """The current RandomState of the process."""

    def __init__(self) -> None:
        self._of_numpy: Any = np.random.MT19937(0)
        self._of_python: Any = None
        self.enter()
        self.seed(0)

    def enter(self) -> None:
        before, RandomState._current = RandomState._current, self
        if hasattr(np.random, "set_bit_generator"):
            np.random.set_bit_generator(self._of_numpy)
        else:  # NumPy before 1.24.
            if before is not None:
                before._of_numpy = np.random.get_state(legacy=False)
            state = getattr(self._of_numpy, "state", self._of_numpy)
            np.random.set_state({**state, "has_gauss": 0, "gauss": 0.0})
        if before is self:
            return
        if before is not None:
            before._of_python = random.getstate()
        if self._of_python is not None:
            random.setstate(self._of_python)

    def seed(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed % 2**32)


class _Env:
    """One environment of the simulator, and its answers to calls.

    random_state: the env's own random state, or None.
    """

    def __init__(self, env: Any, random_state: RandomState | None) -> None:
        for name in ("observation_space", "action_space", "reset", "step"):
            if not hasattr(env, name):
                raise TypeError(f"a {type(env).__name__} is no environment: it has no {name}")
        self._env, self._random = env, random_state
        self._observed = self._space_of("observation_space")
        # Before 0.26, gym's environments had a method `seed`.
        inner = getattr(env, "unwrapped", env)
        taken = inspect.signature(inner.reset).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken)
        names = [parameter.name for parameter in taken]
        self._takes_seed, self._takes_options = (
            takes_any or name in names for name in ("seed", "options")
        )
        self._takes_seed = self._takes_seed or not hasattr(env, "seed")

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the spaces and other facts. names: attributes that the env may have."""
        env = self._env
        try:
            entities = encode(getattr(env, "entities", None))
        except TypeError:  # Other environments use this attribute for objects on their map.
            entities = None
        return {
            "observation": self._observed,
            "action": self._space_of("action_space"),
            "attributes": [name for name in names if _owner(env, name) is not None],
            "entities": entities,
            "takes_options": self._takes_options,
            "render_mode": encode(getattr(env, "render_mode", None)),
            "render_fps": encode((getattr(env, "metadata", None) or {}).get("render_fps")),
        }

    def _space_of(self, name: str) -> Any:
        return as_plain(getattr(self._env, name))

    def reset(self, seed: Any, options: Any) -> Any:
        if self._random is not None:
            self._random.enter()
            if seed is not None:
                self._random.seed(seed)
        asked = {} if options is None else {"options": decode(options)}
        if self._takes_seed:
            return self._begun(self._env.reset(seed=seed, **asked))
        self._env.seed(seed)
        answer = self._env.reset(**asked)
        return self._begun(answer if _has_info(answer) else (answer, {}))

    def _begun(self, answer: Any) -> Any:
        """Return the answer to a reset. The other side checks the answer."""
        if not _has_info(answer):
            return encode(answer)
        obs, info = answer
        told = {}
        for name, value in info.items():
            with suppress(Exception):  # An entry that cannot be sent is left out.
                told.update(encode({name: value}))
        return _TUPLE, [_observation(obs), told]

    def step(self, action: Any) -> Any:
        if self._random is not None:
            self._random.enter()
        return self._stepped(self._env.step(decode(action)))

    def _stepped(self, answer: Any) -> Any:
        """Return the answer to a step. The other side checks the answer."""
        if not isinstance(answer, (tuple, list)) or len(answer) not in (4, 5):
            return encode(answer)
        obs, reward, terminated = answer[:3]
        info = answer[-1]
        if len(answer) == 4:  # Before 0.26, gym had one flag for both ends.
            truncated = bool(terminated and info.get("TimeLimit.truncated", False))
            terminated = bool(terminated) and not truncated
        else:
            truncated = answer[3]
        ends = encode(terminated), encode(truncated)
        told = encode({**_entries(info, _MASKS), **_costs(info)})
        return _TUPLE, [_observation(obs), encode(reward), *ends, told]

    def tell(self, name: str) -> Any:
        value = getattr(_owner(self._env, name), name)
        return encode(value() if callable(value) else value)

    def render(self) -> Any:
        return encode(self._env.render())

    def close(self) -> None:
        getattr(self._env, "close", lambda: None)()


class _Team(_Env):
    """A team of the simulator. Its answers include the remaining agents, and the state."""

    def describe(self, names: Sequence[str]) -> dict[str, Any]:
        state = getattr(self._env, "state_space", None)
        self._has_state = state is not None
        return {
            **super().describe(names),
            "agents": encode(list(self._env.possible_agents)),
            "shared_reward": bool(getattr(self._env, "shared_reward", False)),
            "state": None if state is None else as_plain(state),
        }

    def _space_of(self, name: str) -> Any:
        of = getattr(self._env, name)
        return "Dict", [(encode(agent), as_plain(of(agent))) for agent in self._env.possible_agents]

    def _begun(self, answer: Any) -> Any:
        return self._told(answer, 2)

    def _stepped(self, answer: Any) -> Any:
        return self._told(answer, 5)

    def _told(self, answer: Any, n_parts: int) -> Any:
        agents, state = list(self._env.agents), None
        if isinstance(answer, (tuple, list)) and len(answer) == n_parts:
            *parts, infos = answer
            if self._has_state and (agents or (n_parts == 5 and _is_any(parts[3]))):
                state = self._env.state()
            if isinstance(infos, Mapping):
                infos = {
                    agent: {**_entries(info, _OF_AN_AGENT), **_costs(info)}
                    for agent, info in infos.items()
                }
            answer = [*parts, infos] if isinstance(answer, list) else (*parts, infos)
        return [encode(answer), encode(agents), encode(state)]


def _is_any(flags: Any) -> bool:
    """Return whether a flag is set. The other side refuses values that are no flags."""
    values = flags.values() if isinstance(flags, Mapping) else ()
    return any(not np.ndim(flag) and bool(flag) for flag in values)


def _observation(obs: Any) -> Any:
    """Return an observation as plain values, without entries of Dicts that cannot be sent. If such
    an entry is needed, the other side reports that it is missing."""
    if not isinstance(obs, Mapping):
        return encode(obs)
    shown = {}
    for name, part in obs.items():
        with suppress(TypeError):
            shown[_plain_key(name)] = _observation(part)
    return shown


def _has_info(answer: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], dict)


def _entries(info: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the entries of an info with these names that are not None."""
    had = info if isinstance(info, Mapping) else {}
    return {name: had[name] for name in names if had.get(name) is not None}


def _costs(info: Any) -> dict[str, Any]:
    """Return the entries of an info for costs, without entries that cannot be sent."""
    had = _entries(info, _COSTS)
    for name in [*had]:
        try:
            encode(had[name])
        except TypeError:
            del had[name]
    return had


def _owner(env: Any, name: str) -> Any:
    """Return the first wrapper, or the environment, that has an attribute; None without one."""
    while env is not None and not hasattr(env, name):
        env = getattr(env, "__dict__", {}).get("env")
    return env


def _find_this_package() -> None:
    """Allow imports of modules of this package that need nothing else of the package."""
    package = types.ModuleType(os.path.basename(_PACKAGE))
    package.__path__ = [_PACKAGE]
    sys.modules.setdefault(package.__name__, package)


def _parallel(env: Any) -> Any:
    """Return an environment. An AECEnv is returned as a ParallelEnv: see `answers.parallel`."""
    if not hasattr(env, "agent_iter"):
        return env
    _find_this_package()
    return importlib.import_module("workflow_rl.environments.answers").parallel(env)


def _made(env_id: str, args: Mapping[str, Any]) -> Any:
    """Return the environment of an id or of "module:function". Raises its exceptions."""
    module, colon, name = env_id.partition(":")
    if colon:
        if module.startswith("workflow_rl."):
            _find_this_package()
        # An installed command does not search the folder in which it is called.
        if PathFinder.find_spec(module.partition(".")[0], [os.getcwd()]) is not None:
            sys.path.insert(0, os.getcwd())
        factory: Any = getattr(importlib.import_module(module), name, None)
        if factory is not None:
            return factory(**args)
    registries = [name for name in ("gymnasium", "gym") if find_spec(name)]
    if not registries:
        raise ImportError(f"{env_id} needs gymnasium or gym, and {sys.executable} has neither")
    first: Any = None
    for registry in registries:
        library = importlib.import_module(registry)
        checker = "disable_env_checker"
        has_it = checker in inspect.signature(library.make).parameters
        try:
            return library.make(env_id, **({checker: True} if has_it else {}), **args)
        except library.error.Error as error:
            first = first or error
    if colon:
        raise AttributeError(f"{module} defines no {name}, and {registries[0]} knows no such id")
    raise first


def as_plain(space: Any) -> Any:
    """Return a space as plain values: its kind, and the arguments of the kind's constructor."""
    kinds = [kind.__name__ for kind in type(space).__mro__]
    if "Box" in kinds:
        return "Box", encode(space.low), encode(space.high), np.dtype(space.dtype).str
    if "Discrete" in kinds:
        return "Discrete", int(space.n), int(getattr(space, "start", 0))
    if "MultiBinary" in kinds:
        return "MultiBinary", [int(n) for n in space.shape]
    if "MultiDiscrete" in kinds:
        nvec = np.asarray(space.nvec)
        start = np.asarray(getattr(space, "start", np.zeros_like(nvec)))
        return "MultiDiscrete", encode(nvec), encode(start), np.dtype(space.dtype).str
    if "Tuple" in kinds:
        return "Tuple", [as_plain(part) for part in space.spaces]
    if "Dict" in kinds:
        return "Dict", [(encode(name), as_plain(part)) for name, part in space.spaces.items()]
    return "other", repr(space)


def _silence_gym() -> None:
    """Suppress gym's notice in each process that Gymnasium replaces gym."""
    with suppress(ImportError, AttributeError):
        importlib.import_module("gym_notices.notices").notices.clear()


def _play(messages: Messages) -> None:
    """Answer calls until the other side ends."""
    folders = [sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")]
    not_users = [os.path.dirname(__file__) + os.sep, "<frozen", *folders]
    envs: dict[int, _Env] = {}
    owner, given_at = (os.getpid(), threading.get_ident()), 0.0

    def give_sign(*_: object) -> None:
        """Send a sign of life, None, unless an env's own process or thread calls this."""
        nonlocal given_at
        is_due = time.monotonic() > given_at + _SIGN_SECONDS
        if is_due and (os.getpid(), threading.get_ident()) == owner:
            given_at = time.monotonic()
            messages.send(None)

    def make(number: int, names: Sequence[str], env_id: str, args: Any, private: bool) -> Any:
        random_state = RandomState() if private else None
        env = _parallel(_made(env_id, args))
        kind = _Team if hasattr(env, "possible_agents") else _Env
        envs[number] = kind(env, random_state)
        return envs[number].describe(names)

    calls: dict[str, Callable[..., Any]] = {
        "make": make,
        "reset": lambda number, *asked: envs[number].reset(*asked),
        "step": lambda number, action: envs[number].step(action),
        "tell": lambda number, name: envs[number].tell(name),
        "render": lambda number: envs[number].render(),
        "close": lambda number: envs.pop(number).close(),
    }
    python, numpy = sys.version.split()[0], np.__version__
    # This finder finds nothing, but gives a sign of life at each import.
    sys.meta_path.insert(0, types.SimpleNamespace(find_spec=give_sign))
    messages.send({"protocol": PROTOCOL, "python": python, "numpy": numpy})
    while True:
        answers: list[tuple[bool, Any]] = []
        for call, *asked in messages.receive():
            give_sign()
            try:
                answers.append((True, calls[call](*asked)))
            except BaseException as error:
                answers.append((False, exception_parts(error, not_users)))
                break
        messages.send(answers)


if __name__ == "__main__":
    side = socket.socket(fileno=int(sys.argv[1]))
    side.set_inheritable(False)
    conversation = Messages(side)
    _silence_gym()
    # A process that an environment forks must not use the socket.
    os.register_at_fork(after_in_child=conversation.close)
    try:
        _play(conversation)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(0)
